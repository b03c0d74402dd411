"""What an informer knows of objects that it does not hold: that their names are taken, and when they are free."""

import sys
from dataclasses import dataclass, field

import anyio
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrain.api.core import PODS, SECRETS
from ktrain.api.meta import Key
from ktrain.framework.cache.cache import Cache
from ktrain.framework.cache.informer import Informer, Scope
from ktrain.framework.cache.intake import Intake, Taken
from ktrain.framework.cache.names import MAX_RUN, Names
from ktrain.framework.client.client import Client
from ktrain.testing.time import simulate

from .following import Mirror, bookmark, event, failure, follow, pod, running

FOREVER = float("inf")
NAMES = ("a", "b", "c")


def is_mine(obj):
    return "mine" in obj.metadata.labels


def is_yours(obj):
    return "yours" in obj.metadata.labels


class Followed:
    """An informer of what is mine, fed line by line, beside a model of what the server has."""

    def __init__(self):
        self.informer = Informer(SECRETS, Scope())
        self.intake = Intake(SECRETS, self.informer.partitions[0], self.informer.partitions[0].record, holds=is_mine)
        self.mirror = Mirror()
        self.informer.add_handler(self.mirror)
        self.there = {}
        self.version = 0
        self.lines = []
        self.awaited, self.deleted, self.gone = set(), set(), set()

    def step(self, name, what):
        self.version += 1
        if what == "delete":
            if name not in self.there:
                return
            self.deleted.add(name)
            line = event("DELETED", secret(name, self.version, self.there.pop(name)["metadata"]["uid"], mine=False))
        else:
            known = self.there.get(name)
            uid = f"uid-{self.version}" if known is None or what.startswith("other") else known["metadata"]["uid"]
            self.there[name] = secret(name, self.version, uid, mine=what.endswith("mine"))
            line = event("MODIFIED" if known else "ADDED", self.there[name])
        self.lines.append(line)
        self.take(line)

    def take(self, line):
        return self.intake.take(msgspec.json.encode(line))

    async def list_again(self):
        self.intake.begin(resumed=False)
        for obj in self.there.values():
            self.take(event("ADDED", obj))
        assert self.take(bookmark(self.version, end=True)) is Taken.INITIAL_END
        content = self.intake.content
        await self.informer.partitions[0].replace(content.objects, self.version, content.left_out)
        self.intake.version = str(self.version)
        self.intake.begin(resumed=True)

    def wait_for(self, name):
        if name in self.there:
            self.awaited.add(name)
            self.informer.when_gone(Key("ns", name), lambda: self.gone.add(name))

    def check(self):
        mine = {name: obj["metadata"]["resourceVersion"] for name, obj in self.there.items() if labels_of(obj)}
        held = {obj.metadata.name: obj.metadata.resource_version for obj in self.informer.list()}
        assert held == mine
        assert {key.name: version for key, version in self.mirror.versions().items()} == mine
        assert {name for name in NAMES if self.informer.leaves_out(Key("ns", name))} == self.there.keys() - mine.keys()
        assert self.informer.statistics().left_out == len(self.there) - len(mine)
        assert self.awaited - self.there.keys() <= self.gone <= self.awaited & self.deleted


def secret(name, version, uid, *, mine):
    return pod(name, version, uid=uid, **({"mine": "yes"} if mine else {})) | {"kind": "Secret"}


def labels_of(obj):
    return obj["metadata"]["labels"]


changes = st.tuples(
    st.sampled_from(NAMES), st.sampled_from(("mine", "foreign", "other mine", "other foreign", "delete"))
)


@settings(max_examples=300)
@given(
    steps=st.lists(
        changes
        | st.tuples(st.just("missed"), changes)
        | st.tuples(st.just("replay"), st.integers(0, 30))
        | st.tuples(st.just("wait"), st.sampled_from(NAMES))
    )
)
def test_what_is_held_what_is_only_known_and_what_handlers_heard_agree_with_the_server(steps):
    async def main(env):
        followed = Followed()
        await followed.list_again()
        for step in steps:
            match step:
                case ("missed", (name, what)):
                    take, followed.take = followed.take, lambda line: None
                    followed.step(name, what)
                    followed.take = take
                    await followed.list_again()
                case ("replay", number):
                    if number < len(followed.lines):
                        followed.take(followed.lines[number])
                case ("wait", name):
                    followed.wait_for(name)
                case (name, what):
                    followed.step(name, what)
            followed.check()

    simulate(main)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 50))))
def test_names_are_a_set(steps):
    names, model = Names(), set()
    for add, number in steps:
        key = Key("ns", str(number))
        (names.add if add else names.discard)(key)
        (model.add if add else model.discard)(key)
        assert (len(names), bool(names)) == (len(model), bool(model))
    assert {number for number in range(51) if Key("ns", str(number)) in names} == {int(key.name) for key in model}


def test_a_hundred_thousand_names_cost_ten_bytes_each_and_all_can_go():
    keys = [Key("ns", f"config-{number}") for number in range(100_000)]
    names = Names()
    for key in keys:
        names.add(key)

    assert sum(map(sys.getsizeof, names._runs)) < 10 * len(keys)
    assert max(map(len, names._runs)) <= MAX_RUN
    assert all(key in names for key in keys)
    for key in keys:
        names.discard(key)
    assert (len(names), names._runs) == (0, [])


STREAM = [
    event("ADDED", pod("a", 3, mine="yes")),
    event("ADDED", pod("b", 2)),
    event("ADDED", pod("c", 4)),
    bookmark(5, end=True),
]


@pytest.mark.parametrize("paged", [False, True])
def test_of_what_is_not_held_only_names_are_known_in_streams_and_in_pages(script, paged):
    if paged:
        script.streams += [(400, failure(400, "BadRequest"))]
        items = [line["object"] for line in STREAM[:3]]
        script.answers.append((200, {"metadata": {"resourceVersion": "5"}, "items": items}))
    script.streams.append([*([] if paged else STREAM), FOREVER])

    def check(informer, seen, script):
        statistics = informer.statistics()
        return (
            seen,
            [informer.leaves_out(Key("ns", name)) for name in "abcd"],
            (statistics.objects, statistics.left_out),
        )

    assert follow(script, check, holds=is_mine) == ([("initial", "a")], [False, True, True, False], (1, 2))


@pytest.mark.parametrize("by", ["event", "list"])
def test_whoever_waits_for_a_name_is_told_once_when_it_is_free(script, by):
    if by == "event":
        script.streams.append([*STREAM, 5.0, event("DELETED", pod("b", 9)), event("DELETED", pod("a", 10)), FOREVER])
    else:
        expired = event("ERROR", failure(410, "Expired"))
        script.streams += [[*STREAM, 6.0, expired], [STREAM[2], bookmark(9, end=True), FOREVER]]

    async def main(env):
        told = []
        async with running(script, env) as cache:
            informer = cache.informer(PODS, holds=is_mine)
            await env.clock.sleep(1)
            for name in "abcabc":
                informer.when_gone(Key("ns", name), Told(told, name))
            await env.clock.sleep(10)
        return sorted(told)

    assert simulate(main) == ["a", "b"]


@dataclass(frozen=True)
class Told:
    told: list = field(compare=False)
    name: str

    def __call__(self):
        self.told.append(self.name)


def test_a_call_that_fails_costs_only_itself(script):
    script.streams.append([*STREAM, 5.0, event("DELETED", pod("b", 9)), event("DELETED", pod("c", 10)), FOREVER])

    def fail():
        raise ValueError("no")

    async def main(env):
        told = []
        async with running(script, env) as cache:
            informer = cache.informer(PODS, holds=is_mine)
            await env.clock.sleep(1)
            informer.when_gone(Key("ns", "b"), fail)
            informer.when_gone(Key("ns", "c"), Told(told, "c"))
            await env.clock.sleep(10)
        return told

    assert simulate(main) == ["c"]


def test_held_is_what_any_user_wants_and_everything_if_one_does_not_say(script):
    mine, yours, nobodys = pod("a", 1, mine="1"), pod("b", 2, yours="1"), pod("c", 3)
    added = [event("ADDED", obj) for obj in (mine, yours, nobodys)]
    script.streams += [[*added, bookmark(5, end=True), FOREVER]] * 2

    async def main(env):
        async with running(script, env) as cache:
            two = cache.informer(PODS, holds=is_mine)
            assert cache.informer(PODS, holds=is_mine) is two
            with pytest.raises(ValueError, match="informer of pods runs already, and holds less than is wanted now"):
                cache.informer(PODS, holds=is_yours)
            everything = cache.informer(PODS, namespace="ns")
            assert cache.informer(PODS, namespace="ns", holds=is_mine) is everything
            await env.clock.sleep(1)
            return len(two), len(everything)

    assert simulate(main) == (1, 3)


def test_users_that_ask_before_the_cache_runs_have_all_that_either_wants(script):
    added = [event("ADDED", obj) for obj in (pod("a", 1, mine="1"), pod("b", 2, yours="1"), pod("c", 3))]
    script.streams.append([*added, bookmark(5, end=True), FOREVER])

    async def main(env):
        cache = Cache(Client(script, env, field_manager="test"), env)
        informer = cache.informer(PODS, holds=is_mine)
        cache.informer(PODS, holds=is_yours)
        async with anyio.create_task_group() as tasks:
            await tasks.start(cache.run)
            await cache.wait_for_sync()
            tasks.cancel_scope.cancel()
        return [obj.metadata.name for obj in informer.list()]

    assert simulate(main) == ["a", "b"]


def test_an_object_of_which_nobody_can_tell_whether_to_hold_it_costs_only_itself_and_is_named(script):
    script.streams.append([*STREAM, FOREVER])

    def moody(obj):
        if obj.metadata.name == "b":
            raise ValueError("no")
        return True

    def check(informer, seen, script):
        return [obj.metadata.name for obj in informer.list()], informer.statistics().bad

    bad = {Key("ns", "b"): "whether to hold it cannot be told: ValueError('no')"}
    assert follow(script, check, holds=moody) == (["a", "c"], bad)
