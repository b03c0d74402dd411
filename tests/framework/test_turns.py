from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrain.framework.workqueue.turns import Turns


def namespace(key):
    return key.partition("/")[0]


def take_all(turns):
    return [turns.pop() for _ in range(len(turns))]


def test_the_highest_priority_comes_first_and_within_it_who_came_first():
    turns = Turns()
    for now, (key, priority) in enumerate([("a", 0), ("b", -100), ("c", 5), ("d", 0), ("e", 5)]):
        turns.push(key, priority=priority, now=now)

    assert turns.depths() == {5: 2, 0: 2, -100: 1}
    assert take_all(turns) == ["c", "e", "a", "d", "b"]
    assert turns.depths() == {}


def test_ten_thousand_keys_of_one_namespace_delay_the_one_of_another_by_a_single_key():
    turns = Turns(group=namespace)
    for n in range(10_000):
        turns.push(f"loud/{n}", priority=0, now=0)
    turns.push("quiet/1", priority=0, now=1)

    assert [turns.pop() for _ in range(3)] == ["loud/0", "quiet/1", "loud/1"]


def test_an_old_key_of_low_priority_passes_newer_ones_of_a_higher_when_its_age_has_made_up_for_it():
    turns = Turns(ageing_s=0.1)
    turns.push("replay", priority=-100, now=0)
    taken_at = None
    for now in range(1, 100):
        turns.push(f"news {now}", priority=0, now=now)
        if turns.pop() == "replay":
            taken_at = now
            break

    # News that became ready ten seconds after it is older by priority; what came later than that waits behind it.
    assert taken_at == 11


def test_with_strict_priorities_it_would_wait_for_ever():
    turns = Turns(ageing_s=None)
    turns.push("replay", priority=-100, now=0)
    for now in range(1, 1000):
        turns.push(f"news {now}", priority=0, now=now)
        assert turns.pop() != "replay"


def test_a_removed_key_is_not_handed_out_and_leaves_no_empty_turn():
    turns = Turns(group=namespace)
    for key in ("a/1", "b/1", "b/2", "c/1"):
        turns.push(key, priority=0, now=0)
    turns.push("d/1", priority=7, now=0)
    turns.remove("b/1", priority=0)
    turns.remove("a/1", priority=0)
    turns.remove("d/1", priority=7)

    assert len(turns) == 2
    assert take_all(turns) == ["b/2", "c/1"]


def test_taking_from_none_is_an_error_also_after_everything_was_removed():
    turns = Turns()
    turns.push("a", priority=3, now=0)
    turns.remove("a", priority=3)

    with pytest.raises(IndexError):
        turns.pop()


def test_clear_takes_out_everything():
    turns = Turns(ageing_s=1)
    for n in range(5):
        turns.push(n, priority=n, now=0)
    turns.clear()
    turns.push("x", priority=0, now=9)

    assert (len(turns), take_all(turns)) == (1, ["x"])


class Model:
    """What `Turns` promises, by searching through a list."""

    def __init__(self, ageing_s):
        self.ageing_s = ageing_s
        self.keys = []  # (key, priority, since), in the order of arrival
        self.order = {}  # groups by priority, in the order of their turns

    def push(self, key, priority, now):
        self.keys.append((key, priority, now))
        turns = self.order.setdefault(priority, [])
        if namespace(key) not in turns:
            turns.append(namespace(key))

    def remove(self, key):
        (found,) = [entry for entry in self.keys if entry[0] == key]
        self.keys.remove(found)
        self._tidy(found[1])

    def pop(self):
        def place(priority):
            first = min(since for _, p, since in self.keys if p == priority)
            return (-priority if self.ageing_s is None else first - priority * self.ageing_s, -priority)

        priority = min({p for _, p, _ in self.keys}, key=place)
        group = self.order[priority].pop(0)
        self.order[priority].append(group)
        entry = next(e for e in self.keys if e[1] == priority and namespace(e[0]) == group)
        self.keys.remove(entry)
        self._tidy(priority)
        return entry[0]

    def _tidy(self, priority):
        alive = {namespace(key) for key, p, _ in self.keys if p == priority}
        self.order[priority] = [group for group in self.order[priority] if group in alive]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("push"), st.integers(0, 3), st.sampled_from([-100, -1, 0, 1, 50])),
        st.tuples(st.just("pop"), st.just(0), st.just(0)),
        st.tuples(st.just("remove"), st.integers(0, 20), st.just(0)),
    ),
    max_size=80,
)


@settings(max_examples=200)
@given(steps=steps, ageing_s=st.sampled_from([None, 0.125, 4.0]))
def test_it_does_what_the_simple_model_does(steps, ageing_s):
    turns, model = Turns(group=namespace, ageing_s=ageing_s), Model(ageing_s)
    for now, (step, number, priority) in enumerate(steps):
        if step == "push":
            turns.push(f"{number}/{now}", priority=priority, now=now)
            model.push(f"{number}/{now}", priority, now)
        elif step == "pop" and model.keys:
            assert turns.pop() == model.pop()
        elif step == "remove" and model.keys:
            key, level, _ = model.keys[number % len(model.keys)]
            turns.remove(key, priority=level)
            model.remove(key)
        assert len(turns) == len(model.keys)
        assert sum(turns.depths().values()) == len(model.keys)
    assert take_all(turns) == [model.pop() for _ in range(len(model.keys))]


@settings(max_examples=60)
@given(sizes=st.lists(st.integers(1, 30), min_size=1, max_size=6))
def test_the_nth_key_of_a_namespace_waits_for_n_rounds_at_the_most(sizes):
    turns = Turns(group=namespace)
    for group, size in enumerate(sizes):
        for n in range(size):
            turns.push(f"{group}/{n}", priority=0, now=0)

    places = {key: place for place, key in enumerate(take_all(turns))}
    for group, size in enumerate(sizes):
        mine = [places[f"{group}/{n}"] for n in range(size)]
        assert all(place < (n + 1) * len(sizes) for n, place in enumerate(mine))
        assert all(a < b for a, b in pairwise(mine))
