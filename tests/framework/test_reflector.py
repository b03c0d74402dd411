"""Lists and watches as a reflector makes them, and how it goes on when they end, expire or are refused."""

import asyncio
from itertools import pairwise

import pytest

from ktrain.api.core import PODS
from ktrain.api.meta import Key
from ktrain.framework.backoff import Backoff
from ktrain.framework.cache.cache import Cache
from ktrain.framework.cache.reflector import PRODUCTIVE_S
from ktrain.framework.client.client import Client
from ktrain.framework.errors import CacheSyncTimeout, TransportError
from ktrain.testing.time import simulate

from .following import SYNCED, bookmark, event, failure, follow, lists, names, pod, watches


def test_a_streaming_list_becomes_the_watch_without_a_second_request(script):
    script.streams.append([*SYNCED, event("MODIFIED", pod("a", 6)), event("DELETED", pod("b", 7)), float("inf")])

    seen, version = follow(script, lambda informer, seen, _: (seen, informer.version))

    assert seen == [("initial", "a"), ("initial", "b"), ("update", "a", "3", "6"), ("delete", "b")]
    assert version == 7
    assert len(script.calls) == 1
    query = script.calls[0].query
    assert (query["sendInitialEvents"], query["resourceVersionMatch"]) == ("true", "NotOlderThan")
    assert query["allowWatchBookmarks"] == "true"
    assert "resourceVersion" not in query
    assert 300 <= int(query["timeoutSeconds"]) <= 600


def test_nothing_counts_before_the_bookmark_that_ends_the_initial_events(script):
    script.streams.append([*SYNCED[:2], bookmark(4), float("inf")])

    assert follow(script, lambda informer, seen, _: (informer.synced, len(informer), seen)) == (False, 0, [])


def test_a_stream_cut_before_its_end_bookmark_is_begun_anew_after_a_pause(script):
    script.streams += [[SYNCED[0], TransportError("reset")], [*SYNCED[1:], float("inf")]]

    def check(informer, seen, script):
        return seen, [("sendInitialEvents" in query) for query in watches(script)]

    assert follow(script, check, seconds=3) == ([("initial", "b")], [True, True])


def test_a_server_without_streaming_lists_gets_a_paged_list_and_a_watch(script):
    script.streams.append((400, failure(400, "BadRequest")))
    first = {"metadata": {"resourceVersion": "9", "continue": "next"}, "items": [pod("a", 3)]}
    script.answers += [(200, first), (200, {"metadata": {"resourceVersion": "9"}, "items": [pod("b", 8)]})]

    assert follow(script, names) == ["a", "b"]
    assert lists(script) == [{"limit": "500"}, {"limit": "500", "continue": "next"}]
    assert watches(script)[1]["resourceVersion"] == "9"
    assert "sendInitialEvents" not in watches(script)[1]


def test_items_of_a_list_get_the_kind_that_lists_leave_out(script):
    script.streams.append((422, failure(422, "Invalid")))
    item = {"metadata": {"name": "a", "namespace": "ns", "resourceVersion": "1"}}
    script.answers.append((200, {"metadata": {"resourceVersion": "1"}, "items": [item]}))

    def kind(informer, seen, script):
        return informer.get(Key("ns", "a")).kind, informer.get(Key("ns", "a")).api_version

    assert follow(script, kind) == ("Pod", "v1")


def test_an_expired_continue_token_leads_to_one_list_without_pages(script):
    script.streams.append((400, failure(400, "BadRequest")))
    first = {"metadata": {"resourceVersion": "9", "continue": "next"}, "items": [pod("gone", 3)]}
    whole = {"metadata": {"resourceVersion": "12"}, "items": [pod("a", 3)]}
    script.answers += [(200, first), (410, failure(410, "Expired")), (200, whole)]

    assert follow(script, names) == ["a"]
    assert lists(script)[2] == {}


def test_after_410_in_a_watch_the_list_is_not_older_than_what_was_seen_and_replaces_everything(script):
    script.streams += [
        [*SYNCED, event("MODIFIED", pod("a", 8)), PRODUCTIVE_S, event("ERROR", failure(410, "Expired"))],
        [event("ADDED", pod("a", 8)), event("ADDED", pod("c", 20)), bookmark(21, end=True), float("inf")],
    ]

    seen = follow(script, lambda informer, seen, _: seen, seconds=PRODUCTIVE_S + 0.1)

    assert seen[3:] == [("delete", "b"), ("add", "c")]
    assert watches(script)[1]["resourceVersion"] == "8"
    assert watches(script)[1]["sendInitialEvents"] == "true"


def test_a_list_that_expired_too_is_repeated_at_once_for_the_newest_state(script):
    script.streams += [
        [*SYNCED, PRODUCTIVE_S, event("ERROR", failure(410, "Expired"))],
        [event("ERROR", failure(410, "Expired"))],
        [event("ADDED", pod("z", 30)), bookmark(31, end=True), float("inf")],
    ]

    assert follow(script, names, seconds=PRODUCTIVE_S + 0.1) == ["z"]
    assert "resourceVersion" not in watches(script)[2]


def test_a_replica_that_lags_behind_what_was_seen_is_asked_for_its_newest(script):
    too_large = failure(504, "Timeout", causes=[{"reason": "ResourceVersionTooLarge"}])
    script.streams += [
        [*SYNCED, PRODUCTIVE_S, event("ERROR", failure(410, "Expired"))],
        (504, too_large),
        [event("ADDED", pod("z", 3)), bookmark(4, end=True), float("inf")],
    ]

    assert follow(script, names, seconds=PRODUCTIVE_S + 3) == ["z"]
    assert [query.get("resourceVersion") for query in watches(script)] == [None, "5", None]


@pytest.mark.parametrize("end", [[], [TransportError("reset")], [b'{"type":"MOD'], [bookmark(11), 400.0]])
def test_however_a_watch_ends_it_goes_on_from_the_last_version_without_a_list(script, end):
    script.streams += [
        [*SYNCED, event("MODIFIED", pod("a", 11)), *end],
        [event("ADDED", pod("c", 12)), float("inf")],
    ]

    assert follow(script, names, seconds=100) == ["a", "b", "c"]
    assert watches(script)[1]["resourceVersion"] == "11"
    assert "sendInitialEvents" not in watches(script)[1]
    assert lists(script) == []


@pytest.mark.parametrize("code", [403, 429, 500, 503])
def test_a_refused_watch_is_tried_again_from_the_last_version_with_growing_pauses(script, code):
    script.streams += [SYNCED, *[(code, failure(code)) for _ in range(4)], [event("ADDED", pod("c", 9)), float("inf")]]

    assert follow(script, names, seconds=60) == ["a", "b", "c"]
    assert {query.get("resourceVersion") for query in watches(script)[1:]} == {"5"}
    assert lists(script) == []


def test_pauses_double_from_0_8_to_30_seconds_each_stretched_by_up_to_two(script):
    script.streams += [(500, failure(500)) for _ in range(60)]
    times = []

    class Timed(type(script)):
        def stream(self, *args, **kwargs):
            times.append(asyncio.get_running_loop().time())
            return super().stream(*args, **kwargs)

    follow(Timed(script.answers, script.streams), lambda *_: None, seconds=600)

    pauses = [b - a for a, b in pairwise(times)]
    for n, pause in enumerate(pauses):
        nominal = min(0.8 * 2**n, 30)
        assert nominal * 0.999 <= pause <= 2.001 * nominal


def test_pauses_begin_anew_after_two_minutes_without_a_failure():
    async def main(env):
        backoff = Backoff(env)
        grown = [backoff.next_s() for _ in range(8)][-1]
        await env.clock.sleep(grown + 119)
        still = backoff.next_s()
        await env.clock.sleep(still + 121)
        return grown, still, backoff.next_s()

    grown, still, anew = simulate(main)
    assert min(grown, still) >= 30
    assert anew < 1.6


def test_a_server_that_closes_every_watch_at_once_is_not_hammered(script):
    script.streams += [SYNCED, *[[] for _ in range(1000)]]

    assert follow(script, lambda *_: len(watches(script)), seconds=60) < 30


def test_a_silent_stream_is_given_up_when_its_bookmark_is_overdue(script):
    script.streams += [[*SYNCED, float("inf")], [event("ADDED", pod("c", 9)), float("inf")]]

    assert follow(script, names, seconds=62) == ["a", "b"]
    script.streams += [[*SYNCED, float("inf")], [event("ADDED", pod("c", 9)), float("inf")]]
    script.calls.clear()
    script.streams.popleft()
    assert follow(script, names, seconds=63) == ["a", "b", "c"]


def test_lists_that_expire_as_soon_as_they_are_made_are_not_made_in_a_loop(script):
    script.streams += [[*SYNCED, event("ERROR", failure(410, "Expired"))] for _ in range(1000)]

    assert follow(script, lambda *_: len(watches(script)), seconds=60) < 12


def test_scope_and_selectors_are_sent_to_the_server(script):
    script.streams.append([bookmark(1, end=True), float("inf")])

    follow(script, names, namespace="ns", label_selector="a=b", field_selector="spec.nodeName=n")

    call = script.calls[0]
    assert call.path == "/api/v1/namespaces/ns/pods"
    assert (call.query["labelSelector"], call.query["fieldSelector"]) == ("a=b", "spec.nodeName=n")


def test_a_sync_that_times_out_names_the_kind_and_the_last_error(script):
    script.streams += [(403, failure(403, "Forbidden", 'pods is forbidden: User "me" cannot list'))] * 20

    async def main(env):
        cache = Cache(Client(script, env, field_manager="test"), env)
        cache.informer(PODS, namespace="ns")
        task = asyncio.create_task(cache.run())
        try:
            with pytest.raises(CacheSyncTimeout, match=r'pods in ns .*User "me" cannot list'):
                await cache.wait_for_sync(30)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    simulate(main)
