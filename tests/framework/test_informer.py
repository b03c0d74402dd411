"""What an informer tells whom, and how it is shared and given back."""

import asyncio

import msgspec
import pytest
from structlog.testing import capture_logs

from ktrain.api.core import PODS, SECRETS, untyped
from ktrain.api.meta import Key, Object, ObjectMeta
from ktrain.framework.cache.informer import Informer, Scope
from ktrain.testing.time import simulate

from .following import SYNCED, Recorder, bookmark, event, failure, follow, pod, running

FOREVER = float("inf")


def made(name, version, *, uid=None, **labels):
    meta = ObjectMeta(name=name, uid=uid or f"uid-{name}", resource_version=str(version), labels=labels)
    return Object(kind="Secret", metadata=meta)


class Uids(Recorder):
    def on_add(self, obj, *, initial):
        self.seen.append(("add", obj.metadata.uid, initial))

    def on_delete(self, obj):
        self.seen.append(("delete", obj.metadata.uid))


@pytest.mark.parametrize("by", ["event", "list"])
def test_an_object_made_anew_under_one_name_is_a_deletion_and_an_addition(script, by):
    anew = event("ADDED", pod("a", 9, uid="second"))
    if by == "event":
        script.streams.append([*SYNCED, anew, FOREVER])
    else:
        expired = event("ERROR", failure(410, "Expired"))
        script.streams += [[*SYNCED, 6.0, expired], [anew, SYNCED[1], bookmark(9, end=True), FOREVER]]

    async def main(env):
        async with running(script, env) as cache:
            uids = Uids([])
            cache.informer(PODS).add_handler(uids)
            await env.clock.sleep(10)
            return uids.seen[2:]

    assert simulate(main) == [("delete", "uid-a"), ("add", "second", False)]


def test_a_transform_decides_what_is_kept_and_handlers_see_the_same(script):
    script.streams.append([event("ADDED", pod("a", 3, heavy="x", light="y")), bookmark(5, end=True), FOREVER])

    def slim(obj):
        return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, labels={"light": "y"}))

    def labels(informer, seen, script):
        return informer.get(Key("ns", "a")).metadata.labels

    assert follow(script, labels, transform=slim) == {"light": "y"}


def test_who_joins_late_hears_what_is_there_as_initial_and_who_left_hears_nothing(script):
    script.streams.append([*SYNCED, 5.0, event("ADDED", pod("c", 9)), 5.0, event("ADDED", pod("d", 10)), FOREVER])

    async def main(env):
        async with running(script, env) as cache:
            informer, late = cache.informer(PODS), Uids([])
            await env.clock.sleep(1)
            informer.add_handler(late)
            at_once = list(late.seen)
            await env.clock.sleep(6)
            informer.remove_handler(late)
            await env.clock.sleep(6)
            return at_once, late.seen, len(informer)

    there = [("add", "uid-a", True), ("add", "uid-b", True)]
    assert simulate(main) == (there, [*there, ("add", "uid-c", False)], 4)


def test_items_of_pages_are_transformed_too(script):
    script.streams.append((400, failure(400, "BadRequest")))
    script.answers.append((200, {"metadata": {"resourceVersion": "9"}, "items": [pod("a", 3, heavy="x")]}))

    def slim(obj):
        return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, labels={}))

    assert follow(script, lambda informer, *_: informer.list()[0].metadata.labels, transform=slim) == {}


def test_an_object_that_a_transform_fails_on_costs_only_itself_and_is_named(script):
    script.streams.append([*SYNCED, event("ADDED", pod("c", 8)), float("inf")])

    def moody(obj):
        if obj.metadata.name == "b":
            raise ValueError("no")
        if obj.metadata.name == "c":
            return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, uid=""))
        return obj

    def check(informer, seen, script):
        return [obj.metadata.name for obj in informer.list()], informer.statistics().bad

    kept, bad = follow(script, check, transform=moody)

    assert kept == ["a"]
    assert bad == {
        Key("ns", "b"): "the transform failed: ValueError('no')",
        Key("ns", "c"): "the transform changed metadata.uid",
    }


def test_one_informer_has_one_transform(script):
    async def main(env):
        async with running(script, env) as cache:
            cache.informer(PODS, transform=lambda obj: obj)
            with pytest.raises(ValueError, match="already an informer of pods, with another transform"):
                cache.informer(PODS)

    simulate(main)


def test_the_last_user_who_gives_an_informer_back_ends_its_watch_and_its_content(script):
    script.streams.append([*SYNCED, FOREVER])

    async def main(env):
        async with running(script, env) as cache:
            informer, seen = cache.informer(PODS), []
            assert cache.informer(PODS) is informer
            informer.add_handler(Recorder(seen))
            await env.clock.sleep(1)
            followers = [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("reflector")]
            cache.release(informer)
            first = informer.synced, len(informer)
            cache.release(informer)
            await env.clock.sleep(0)
            left = [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("reflector")]
            with pytest.raises(ValueError, match="not in use"):
                cache.release(informer)
            with pytest.raises(RuntimeError, match="was released"):
                informer.add_handler(Recorder([]))
            script.streams.append([*SYNCED, FOREVER])
            again = cache.informer(PODS)
            await env.clock.sleep(1)
            return followers, first, (informer.synced, len(informer)), left, seen, (again is informer, len(again))

    followers, first, second, left, seen, again = simulate(main)
    assert (followers, first) == (["reflector pods"], (True, 2))
    assert (second, left) == ((False, 0), [])
    assert seen == [("initial", "a"), ("initial", "b")]
    assert again == (False, 2)


def test_who_holds_a_kind_twice_is_warned_with_both_names(script):
    async def main(env):
        async with running(script, env) as cache:
            with capture_logs() as logs:
                cache.informer(SECRETS)
                cache.informer(SECRETS)
                cache.informer(PODS, label_selector="a=1")
                cache.informer(PODS, label_selector="a=2")
                cache.informer(untyped(SECRETS), namespace="ns")
            return [(entry["informer"], entry["other"]) for entry in logs if entry["event"] == "informer.overlaps"]

    assert simulate(main) == [("secrets in ns as dict", "secrets as Object")]


async def test_a_subscriber_gets_what_is_there_and_then_changes_merged_by_key():
    informer = Informer(SECRETS, Scope())
    await informer.partitions[0].replace({Key("", "a"): made("a", 1), Key("", "b"): made("b", 2)}, 2)

    with informer.subscribe() as changes:
        informer.partitions[0].put(Key("", "a"), made("a", 3), 3)
        informer.partitions[0].put(Key("", "a"), made("a", 4), 4)
        informer.partitions[0].put(Key("", "c"), made("c", 5), 5)
        informer.partitions[0].remove(Key("", "c"), None, 6)
        assert len(changes) == 2
        first = [await anext(changes), await anext(changes)]
        informer.partitions[0].put(Key("", "a"), made("a", 7), 7)
        informer.partitions[0].put(Key("", "a"), made("a", 8), 8)
        informer.partitions[0].remove(Key("", "b"), made("b", 9), 9)
        informer.partitions[0].put(Key("", "b"), made("b", 10, uid="second"), 10)
        then = [await anext(changes) for _ in range(3)]
        informer.partitions[0].remove(Key("", "a"), made("a", 11), 11)
        informer.release()
        rest = [change async for change in changes]

    def told(change):
        return change.key.name, *(obj and int(obj.metadata.resource_version) for obj in (change.old, change.new))

    assert {told(change) for change in first} == {("a", None, 4), ("b", None, 2)}
    assert [told(change) for change in then] == [("a", 4, 8), ("b", 9, None), ("b", None, 10)]
    assert rest == []


async def test_a_subscriber_whose_wait_is_cancelled_misses_nothing_and_one_who_left_costs_nothing():
    informer = Informer(SECRETS, Scope())
    changes = informer.subscribe()
    waiting = asyncio.ensure_future(anext(changes))
    await asyncio.sleep(0)
    informer.partitions[0].put(Key("", "a"), made("a", 1), 1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    assert (await anext(changes)).new.metadata.name == "a"

    changes.close()
    changes.close()
    informer.partitions[0].put(Key("", "b"), made("b", 2), 2)
    assert len(changes) == 0
    with pytest.raises(StopAsyncIteration):
        await anext(changes)


async def test_ten_thousand_changes_of_one_key_are_one_pending_change():
    informer = Informer(SECRETS, Scope())
    with informer.subscribe() as changes:
        for number in range(1, 10_001):
            informer.partitions[0].put(Key("", "a"), made("a", number), number)

        assert len(changes) == 1
        assert (await anext(changes)).new.metadata.resource_version == "10000"
