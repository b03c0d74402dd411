"""
Informers under faults, on virtual time, against the embedded server and against scripts.

The judge of every run: what the handlers were told, applied in order, is what the server has; nothing is told twice.
"""

import asyncio
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from ktrain.api.core import CONFIG_MAPS, PODS
from ktrain.api.meta import Key
from ktrain.framework.cache.cache import Cache
from ktrain.framework.cache.reflector import PRODUCTIVE_S
from ktrain.framework.client.client import Client
from ktrain.framework.errors import TransportError
from ktrain.local.apiserver.server import ApiServer
from ktrain.testing.time import simulate

from .following import SYNCED, Mirror, bookmark, event, failure, follow, lists, names, pod, running, watches

FOREVER = float("inf")
QUIET = {"expired": 0, "went_back": 0, "missing": 0, "crashed": 0}


class Cutter:
    """Cuts every stream some time after it was opened."""

    def __init__(self, inner, after_s):
        self._inner = inner
        self.after_s = after_s
        self.queries = []

    async def request(self, method, path, **options):
        return await self._inner.request(method, path, **options)

    @asynccontextmanager
    async def stream(self, path, **options):
        self.queries.append(dict(options["query"]))
        async with self._inner.stream(path, **options) as stream:
            yield stream._replace(lines=self._lines(stream.lines))

    async def _lines(self, lines):
        try:
            async with asyncio.timeout(self.after_s):
                async for line in lines:
                    yield line
        except TimeoutError:
            raise TransportError("connection reset") from None


async def churn(client, env, seconds, pause_s=0.01):
    """Create, change and delete for a while; the number of writes."""
    writes = 0
    end = env.clock.monotonic() + seconds
    while env.clock.monotonic() < end:
        name = f"c{env.random.randrange(20)}"
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}
        await client.apply(CONFIG_MAPS, {**body, "data": {"n": str(writes)}})
        if env.random.random() < 0.2:
            await client.delete(CONFIG_MAPS, Key("default", name))
        writes += 1
        await env.clock.sleep(pause_s)
    return writes


@pytest.mark.parametrize("seed", range(3))
def test_watches_that_are_cut_every_50_ms_under_load_lose_nothing_and_never_list(seed):
    async def main(env):
        transport = ApiServer(env).transport()
        cutter = Cutter(transport, 0.05)
        client = Client(transport, env, field_manager="test")
        cache = Cache(Client(cutter, env, field_manager="test"), env)
        maps = cache.informer(CONFIG_MAPS, namespace="default")
        mirror = Mirror()
        maps.add_handler(mirror)
        running = asyncio.create_task(cache.run())
        await maps.wait_for_sync()
        await churn(client, env, 30)
        cutter.after_s = None
        await env.clock.sleep(12)
        truth = {obj.metadata.key: obj.metadata.resource_version for obj in (await client.list(CONFIG_MAPS)).items}
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return truth, mirror.versions(), maps.statistics(), cutter.queries

    truth, told, statistics, queries = simulate(main, seed=seed)
    assert told == truth
    assert statistics.relists == QUIET
    assert statistics.restarts["cut"] > 300
    assert [("sendInitialEvents" in query) for query in queries] == [True, *[False] * (len(queries) - 1)]


def test_410_in_the_middle_of_a_busy_watch_leads_to_one_list_and_nothing_is_told_twice(script):
    script.streams += [
        [*SYNCED, PRODUCTIVE_S, event("MODIFIED", pod("a", 8)), event("ERROR", failure(410, "Expired"))],
        [event("ADDED", pod("a", 8)), event("ADDED", pod("c", 20)), bookmark(21, end=True), FOREVER],
    ]

    async def main(env):
        async with running(script, env) as cache:
            mirror, informer = Mirror(), cache.informer(PODS)
            informer.add_handler(mirror)
            await env.clock.sleep(30)
            return mirror.versions(), mirror.told, informer.statistics().relists

    told, calls, relists = simulate(main)
    assert told == {Key("ns", "a"): "8", Key("ns", "c"): "20"}
    assert calls == 5
    assert relists == {**QUIET, "expired": 1}


def test_of_a_list_of_10000_whose_seventh_page_expired_nothing_partial_is_believed(script):
    everything = [pod(f"p{n}", n + 1) for n in range(10_000)]

    def page(number, token):
        chunk = everything[500 * number : 500 * (number + 1)]
        return (200, {"metadata": {"resourceVersion": "20000", "continue": token}, "items": chunk})

    script.streams.append((400, failure(400, "BadRequest")))
    script.answers += [page(n, f"t{n}") for n in range(6)]
    script.answers.append((410, failure(410, "Expired")))
    whole = {"metadata": {"resourceVersion": "20500"}, "items": everything[1:]}
    script.answers.append((200, whole))

    async def main(env):
        async with running(script, env) as cache:
            mirror, informer = Mirror(), cache.informer(PODS)
            informer.add_index("ns", lambda obj: (obj.metadata.namespace,))
            informer.add_handler(mirror)
            await informer.wait_for_sync()
            return len(informer), mirror.told, len(informer.by_index("ns", "ns")), informer.version

    assert simulate(main) == (9_999, 9_999, 9_999, 20_500)
    assert len(lists(script)) == 8
    assert lists(script)[-1] == {}


def test_a_storm_of_410_is_a_handful_of_lists_and_deletes_nothing(script):
    script.streams += [[*SYNCED, event("ERROR", failure(410, "Expired"))] for _ in range(500)]

    def check(informer, seen, script):
        return len(watches(script)), sorted(p.metadata.name for p in informer.list()), len(seen)

    opened, kept, told = follow(script, check, seconds=120)

    assert opened < 14
    assert (kept, told) == (["a", "b"], 2)


def test_a_storm_of_429_is_waited_out_for_as_long_as_the_server_says(script):
    busy = event("ERROR", failure(429, "TooManyRequests", retryAfterSeconds=20))
    script.streams += [[*SYNCED, busy], [busy], [busy], [event("ADDED", pod("c", 9)), FOREVER]]

    def check(informer, seen, script):
        statistics = informer.statistics()
        return names(informer, seen, script), [q.get("resourceVersion") for q in watches(script)], statistics

    early, _, _ = follow(script, check, seconds=59)
    assert early == ["a", "b"]
    script.calls.clear()
    script.streams.clear()
    script.streams += [[*SYNCED, busy], [busy], [busy], [event("ADDED", pod("c", 9)), FOREVER]]
    late, versions, statistics = follow(script, check, seconds=90)
    assert (late, versions) == (["a", "b", "c"], [None, "5", "5", "5"])
    assert (statistics.restarts["throttled"], statistics.relists) == (3, QUIET)


def test_an_error_500_on_the_stream_resumes_from_the_same_version(script):
    script.streams += [[*SYNCED, event("ERROR", failure(500, "InternalError"))], [event("ADDED", pod("c", 9)), FOREVER]]

    assert follow(script, names, seconds=5) == ["a", "b", "c"]
    assert watches(script)[1]["resourceVersion"] == "5"
    assert "sendInitialEvents" not in watches(script)[1]


def test_what_comes_twice_late_or_out_of_order_is_told_once_and_in_order(script):
    script.streams += [
        [*SYNCED, event("MODIFIED", pod("a", 8)), event("DELETED", pod("b", 9)), TransportError("reset")],
        [
            event("MODIFIED", pod("a", 8)),
            event("MODIFIED", pod("a", 7)),
            event("ADDED", pod("b", 2)),
            event("DELETED", pod("b", 9)),
            event("ADDED", pod("d", 12)),
            event("ADDED", pod("c", 11)),
            event("ADDED", pod("b", 13, uid="second")),
            FOREVER,
        ],
    ]

    def check(informer, seen, script):
        return seen[2:], informer.version

    assert follow(script, check, seconds=5) == (
        [("update", "a", "3", "8"), ("delete", "b"), ("add", "d"), ("add", "c"), ("add", "b")],
        13,
    )


def test_a_server_put_back_to_an_earlier_state_is_noticed_although_its_watches_say_nothing(script):
    """So a real one behaves: a watch from a version it has not reached opens, stays silent, and ends in good order."""
    restored = [event("ADDED", pod("a", 3)), bookmark(4, end=True), FOREVER]
    script.streams += [[*SYNCED, event("MODIFIED", pod("a", 900)), TransportError("reset")], [70.0], restored]
    script.answers.append((200, {"metadata": {"resourceVersion": "40"}, "items": []}))

    async def main(env):
        async with running(script, env) as cache:
            mirror, informer = [], cache.informer(PODS)
            informer.add_handler(Versions(mirror))
            await env.clock.sleep(75)
            return mirror[-2:], informer.version, informer.statistics().relists

    told, version, relists = simulate(main)
    assert told == [("delete", "2"), ("update", "900", "3")]
    assert (version, relists) == (4, {**QUIET, "went_back": 1})
    assert lists(script) == [{"limit": "1"}]


def test_a_quiet_watch_is_doubted_with_one_small_question_and_goes_on(script):
    script.streams += [[*SYNCED, TransportError("reset")], [70.0], [event("ADDED", pod("c", 9)), FOREVER]]
    script.answers.append((200, {"metadata": {"resourceVersion": "5"}, "items": []}))

    def check(informer, seen, script):
        return names(informer, seen, script), informer.statistics().relists

    assert follow(script, check, seconds=80) == (["a", "b", "c"], QUIET)


def test_who_may_watch_but_not_list_goes_on_watching_although_the_question_is_refused(script):
    script.streams += [[*SYNCED, TransportError("reset")], [70.0], [event("ADDED", pod("c", 9)), FOREVER]]
    script.answers += [(403, failure(403, "Forbidden"))] * 50

    assert follow(script, names, seconds=80) == ["a", "b", "c"]
    assert lists(script) == [{"limit": "1"}]


def test_watches_that_are_throttled_together_do_not_come_back_together(script):
    throttled = (429, failure(429, "TooManyRequests"), {"retry-after": "40"})
    script.streams += [throttled for _ in range(5)]
    times = []

    class Timed(type(script)):
        def stream(self, *args, **options):
            times.append(asyncio.get_running_loop().time())
            return super().stream(*args, **options)

    timed = Timed(script.answers, script.streams, script.calls)

    async def main(env):
        async with running(timed, env) as cache:
            for number in range(5):
                cache.informer(PODS, namespace=f"n{number}")
            await env.clock.sleep(60)

    simulate(main)
    again = sorted(times[5:])
    assert again[0] >= 40
    assert all(later - sooner > 0.01 for sooner, later in pairwise(again))


def test_bookmarks_from_before_what_was_seen_are_no_sign_of_life(script):
    script.streams += [
        [*SYNCED, event("MODIFIED", pod("a", 900)), bookmark(50)],
        [60.0, bookmark(50)],
        [event("ADDED", pod("z", 3)), bookmark(51, end=True), FOREVER],
    ]
    script.answers.append((200, {"metadata": {"resourceVersion": "50"}, "items": []}))

    assert follow(script, names, seconds=65) == ["z"]
    assert lists(script) == [{"limit": "1"}]


def test_objects_of_another_kind_and_events_of_no_known_type_are_skipped(script):
    table = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "6"}, "rows": []}
    script.streams.append([*SYNCED, event("MODIFIED", {**table, "metadata": pod("a", 6)["metadata"]}),
        event("SYNC", pod("b", 7)), event("ADDED", pod("c", 8)), FOREVER])  # fmt: skip

    def check(informer, seen, script):
        return seen[2:], len(script.calls)

    assert follow(script, check) == ([("add", "c")], 1)


def test_a_server_that_repeats_one_event_and_closes_is_not_hammered(script):
    again = [event("MODIFIED", pod("a", 4))]
    script.streams += [[*SYNCED, event("MODIFIED", pod("a", 8))], *[again for _ in range(1000)]]

    def check(informer, seen, script):
        return len(watches(script)), {query.get("resourceVersion") for query in watches(script)[1:]}, seen[2:]

    opened, versions, told = follow(script, check, seconds=60)

    assert opened < 30
    assert (versions, told) == ({"8"}, [("update", "a", "3", "8")])


def test_of_a_kind_in_which_nothing_can_be_read_a_hundred_objects_are_named_and_all_are_counted(script, capsys):
    broken = [{**pod(f"p{n}", n + 1), "spec": {"nodeName": 7}} for n in range(300)]
    script.streams.append([*[event("ADDED", obj) for obj in broken], bookmark(400, end=True), FOREVER])

    def check(informer, seen, script):
        return informer.synced, len(informer), len(informer.statistics().bad)

    assert follow(script, check) == (True, 0, 100)
    assert capsys.readouterr().out.count("object.unreadable") == 100


def test_a_list_that_takes_long_is_reported_every_ten_seconds(script, capsys):
    script.streams.append([SYNCED[0], 35.0, *SYNCED[1:], FOREVER])

    assert follow(script, names, seconds=40) == ["a", "b"]
    assert capsys.readouterr().out.count("list.slow") == 3


class Versions:
    def __init__(self, told):
        self.told = told

    def on_add(self, obj, *, initial):
        self.told.append(("add", obj.metadata.resource_version))

    def on_update(self, old, new):
        self.told.append(("update", old.metadata.resource_version, new.metadata.resource_version))

    def on_delete(self, obj):
        self.told.append(("delete", obj.metadata.resource_version))
