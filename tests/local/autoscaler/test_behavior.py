"""What windows and policies make of a recommendation."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrain.local.autoscaler.behavior import History, limited, stabilized
from ktrain.local.autoscaler.types import Behavior, ScalingPolicy, ScalingRules

START = datetime(2030, 1, 1, tzinfo=UTC)


def at(seconds):
    return START + timedelta(seconds=seconds)


def recommended(*moments):
    history = History()
    for seconds, replicas in moments:
        history = history.recommended(at(seconds), replicas)
    return history


def test_fewer_replicas_wait_for_five_minutes_and_more_do_not_wait():
    history = recommended((0, 8), (100, 3), (290, 3))

    assert stabilized(5, history, Behavior(), at(290)) == 5
    assert stabilized(8, history, Behavior(), at(290)) == 8
    assert stabilized(8, recommended((0, 8), (100, 3), (301, 2)), Behavior(), at(301)) == 3
    assert stabilized(5, recommended((0, 1), (1, 9)), Behavior(), at(1)) == 9


def test_windows_are_those_of_the_behavior():
    rules = ScalingRules(60, "Max", (ScalingPolicy(),))
    behavior = Behavior(scale_up=rules, scale_down=ScalingRules(0, "Max", (ScalingPolicy(),)))

    assert stabilized(5, recommended((0, 6), (30, 9)), behavior, at(30)) == 6
    assert stabilized(5, recommended((0, 6), (61, 9)), behavior, at(61)) == 9
    assert stabilized(5, recommended((0, 8), (1, 2)), behavior, at(1)) == 2


@pytest.mark.parametrize(
    ("current", "wanted", "allowed"), [(1, 100, 5), (10, 100, 20), (10, 12, 12), (10, 0, 0), (10, 9, 9), (4, 4, 4)]
)
def test_by_default_replicas_double_or_grow_by_four_and_all_may_go(current, wanted, allowed):
    assert limited(current, wanted, History(), Behavior(), START) == allowed


POLICIES = (ScalingPolicy("Pods", 2, 60), ScalingPolicy("Percent", 50, 60))


@pytest.mark.parametrize(("select", "up", "down"), [("Max", 15, 5), ("Min", 12, 8), ("Disabled", 10, 10)])
def test_the_policy_that_is_selected_bounds_the_change(select, up, down):
    rules = ScalingRules(0, select, POLICIES)
    behavior = Behavior(rules, rules)

    assert limited(10, 100, History(), behavior, START) == up
    assert limited(10, 0, History(), behavior, START) == down


def test_changes_within_the_period_count_against_its_policy():
    rules = ScalingRules(0, "Max", (ScalingPolicy("Pods", 3, 60),))
    behavior, history = Behavior(rules, rules), History().changed(at(0), 2)

    assert limited(7, 20, history, behavior, at(30)) == 8
    assert limited(7, 20, history, behavior, at(61)) == 10
    assert limited(7, 20, history.changed(at(40), 1), behavior, at(50)) == 7


NUMBERS = st.integers(0, 500)


@given(
    current=NUMBERS,
    wanted=NUMBERS,
    policies=st.lists(
        st.builds(ScalingPolicy, st.sampled_from(["Pods", "Percent"]), st.integers(0, 100), st.integers(1, 1800)),
        max_size=3,
    ),
    select=st.sampled_from(["Max", "Min", "Disabled"]),
    changes=st.lists(st.tuples(st.integers(0, 3000), st.integers(-20, 20)), max_size=5),
)
def test_a_bounded_size_is_between_the_present_and_the_wanted_one(current, wanted, policies, select, changes):
    history = History()
    for seconds, by in sorted(changes):
        history = history.changed(at(seconds), by)
    rules = ScalingRules(0, select, tuple(policies))
    allowed = limited(current, wanted, history, Behavior(rules, rules), at(3000))

    assert min(current, wanted) <= allowed <= max(current, wanted)


@given(st.lists(st.tuples(st.integers(1, 100), NUMBERS), min_size=1, max_size=30), NUMBERS)
def test_a_stabilized_size_is_one_of_the_recommendations_or_the_present_one(steps, current):
    history, seconds = History(), 0
    for wait, replicas in steps:
        seconds += wait
        history = history.recommended(at(seconds), replicas)

    assert stabilized(current, history, Behavior(), at(seconds)) in {current, *(replicas for _, replicas in steps)}
