"""What single objects, and whoever reads them, cost a reflector when they are in no good shape."""

import asyncio
from contextlib import asynccontextmanager

import msgspec
import pytest

from ktrain.api.core import PODS, SECRETS
from ktrain.framework.cache.cache import Cache
from ktrain.framework.client.client import Client
from ktrain.local.apiserver.server import ApiServer
from ktrain.testing.time import simulate

from .following import SYNCED, Recorder, bookmark, event, failure, follow, names, pod, watches


def nested(levels):
    return b'{"a":' * levels + b"1" + b"}" * levels


def test_an_object_that_cannot_be_read_costs_only_itself(script):
    broken = pod("broken", 6)
    broken["spec"] = {"nodeName": 7}
    script.streams.append([
        event("ADDED", broken), *SYNCED, event("MODIFIED", {**broken, "metadata": pod("a", 7)["metadata"]}),
        event("ADDED", pod("c", 8)), float("inf"),
    ])  # fmt: skip

    assert follow(script, names) == ["b", "c"]


@pytest.mark.parametrize("field", ["spec", "nobody-declared-this"])
def test_an_object_nested_too_deeply_costs_only_itself(script, field):
    def deep(name, version):
        return msgspec.json.encode(pod(name, version))[:-1] + b',"%s":%s}' % (field.encode(), nested(100_000))

    def line(kind, obj):
        return b'{"type":"%s","object":%s}' % (kind.encode(), obj)

    script.streams.append([
        line("ADDED", deep("deep", 4)), *SYNCED, line("MODIFIED", deep("a", 7)), event("ADDED", pod("c", 8)),
        float("inf"),
    ])  # fmt: skip

    assert follow(script, names) == ["b", "c"]
    assert len(script.calls) == 1


def test_an_exception_that_nobody_foresaw_costs_a_pause_and_no_other_kind(script):
    """An index function is foreign code inside the cache; this one does not even repeat itself."""
    script.streams += [[*SYNCED, event("DELETED", pod("a", 6)), float("inf")], [*SYNCED[1:], float("inf")]]
    moods = iter([0, 0, 1])

    def moody(obj):
        return [str(1 // (1 - next(moods, 0)))]

    async def main(env):
        cache = Cache(Client(script, env, field_manager="test"), env)
        informer = cache.informer(PODS)
        informer.add_index("moody", moody)
        task = asyncio.create_task(cache.run())
        await env.clock.sleep(0.5)
        during = task.done(), str(informer.last_error), len(watches(script))
        await env.clock.sleep(10)
        after = (
            [p.metadata.name for p in informer.list()],
            len(watches(script)),
            informer.statistics().relists["crashed"],
        )
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return during, after

    (ended, error, opened), after = simulate(main)
    assert (ended, opened, after) == (False, 1, (["b"], 2, 1))
    assert "ZeroDivisionError" in error


def test_an_object_that_an_index_function_fails_on_costs_only_itself_and_is_named(script):
    script.streams.append([
        event("ADDED", pod("a", 3)), event("ADDED", pod("b", 2, team="x")), bookmark(5, end=True),
        event("ADDED", pod("c", 6)), event("MODIFIED", pod("b", 7)), event("ADDED", pod("d", 8, team="x")), 0.5,
        event("MODIFIED", pod("a", 9, team="x")), float("inf"),
    ])  # fmt: skip

    async def main(env):
        cache = Cache(Client(script, env, field_manager="test"), env)
        informer, told = cache.informer(PODS), []
        informer.add_index("always", lambda obj: ["all"])
        informer.add_index("team", lambda obj: [obj.metadata.labels["team"]])
        informer.add_handler(Recorder(told))
        task = asyncio.create_task(cache.run())

        def look():
            held = [p.metadata.name for p in informer.by_index("always", "all")]
            teams = [p.metadata.name for p in informer.by_index("team", "x")]
            return held, teams, sorted(key.name for key in informer.statistics().bad)

        await env.clock.sleep(0.1)
        before = look()
        await env.clock.sleep(1)
        after = look()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return before, after, told, informer.version

    before, after, told, version = simulate(main)
    assert before == (["d"], ["d"], ["a", "b", "c"])
    assert after == (["d", "a"], ["d", "a"], ["b", "c"])
    assert told == [("initial", "b"), ("delete", "b"), ("add", "d"), ("add", "a")]
    assert version == 9
    assert len(script.calls) == 1


def test_who_reads_metadata_only_asks_for_no_more(script):
    script.streams += [(400, failure(400, "BadRequest")), [float("inf")]]
    item = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": pod("a", 3)["metadata"]}
    script.answers.append((200, {"metadata": {"resourceVersion": "9"}, "items": [item]}))

    def kinds(informer, seen, script):
        return [(obj.kind, obj.api_version) for obj in informer.list()], [c.headers["Accept"] for c in script.calls]

    found, accepted = follow(script, kinds, resource=SECRETS)

    assert found == [("Secret", "v1")]
    single, many = (
        f"application/json;as=PartialObjectMetadata{suffix};g=meta.k8s.io;v=v1,application/json"
        for suffix in ("", "List")
    )
    assert accepted == [single, many, single]


def test_a_secret_read_as_metadata_never_leaves_the_server():
    carried = []

    class Wire:
        def __init__(self, inner):
            self.inner = inner

        async def request(self, *args, **options):
            answer = await self.inner.request(*args, **options)
            carried.append(answer.body)
            return answer

        @asynccontextmanager
        async def stream(self, *args, **options):
            async with self.inner.stream(*args, **options) as stream:
                yield stream._replace(lines=self.copied(stream.lines))

        async def copied(self, lines):
            async for line in lines:
                carried.append(line)
                yield line

    async def main(env):
        inner = ApiServer(env).transport()
        writer, reader = (Client(t, env, field_manager="test") for t in (inner, Wire(inner)))
        body = {"apiVersion": "v1", "kind": "Secret", "stringData": {"password": "hunter2"}}
        cache = Cache(reader, env)
        informer = cache.informer(SECRETS)
        await writer.create(SECRETS, {**body, "metadata": {"name": "early", "namespace": "default"}})
        task = asyncio.create_task(cache.run())
        await cache.wait_for_sync(10)
        await writer.create(SECRETS, {**body, "metadata": {"name": "late", "namespace": "default"}})
        await env.clock.sleep(1)
        listed = (await reader.list(SECRETS)).items
        got = await reader.get(SECRETS, "early", "default")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return [*informer.list(), *listed, got]

    found = simulate(main)
    assert sorted(obj.metadata.name for obj in found) == ["early", "early", "early", "late", "late"]
    assert {(obj.kind, obj.api_version) for obj in found} == {("Secret", "v1")}
    assert len(carried) > 4
    assert not any(b"aHVudGVyMg==" in body for body in carried)


def test_the_same_state_again_is_not_told_twice(script):
    script.streams.append([*SYNCED, event("MODIFIED", pod("a", 3)), float("inf")])

    assert follow(script, lambda informer, seen, _: len(seen)) == 2


def test_a_handler_that_raises_costs_only_its_own_call(script):
    script.streams.append([*SYNCED, event("ADDED", pod("c", 8)), float("inf")])

    class Broken(Recorder):
        def on_add(self, obj, *, initial):
            super().on_add(obj, initial=initial)
            raise RuntimeError(obj.metadata.name)

    async def main(env):
        cache = Cache(Client(script, env, field_manager="test"), env)
        informer = cache.informer(PODS)
        broken, good = Broken([]), Recorder([])
        informer.add_handler(broken)
        informer.add_handler(good)
        task = asyncio.create_task(cache.run())
        await env.clock.sleep(1)
        late = Recorder([])
        informer.add_handler(late)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return len(broken.seen), len(good.seen), late.seen

    assert simulate(main) == (3, 3, [("initial", "a"), ("initial", "b"), ("initial", "c")])
