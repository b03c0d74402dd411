"""A kind whose CRD is not installed, goes away, and comes back."""

from itertools import pairwise

import anyio
import pytest

from ktrain.api.core import PODS
from ktrain.framework.cache.informer import Informer, Scope
from ktrain.framework.serving.health import Note, cache_check
from ktrain.testing.time import simulate

from .following import SYNCED, Recorder, bookmark, event, failure, follow, pod, running, watches

ABSENT = (404, failure(404, "NotFound", "404 page not found"))
FOREVER = float("inf")


def test_a_kind_that_is_missing_counts_as_decided_but_not_as_synced(script):
    script.streams += [ABSENT] * 50

    async def main(env):
        async with running(script, env) as cache:
            informer = cache.informer(PODS)
            await cache.wait_for_sync(5)
            return informer.missing, informer.synced, str(informer.last_error), cache_check(cache)()

    missing, synced, error, problem = simulate(main)
    assert (missing, synced) == (True, False)
    assert isinstance(problem, Note)
    assert problem == f"pods: {error}"
    assert error == "the API server does not serve pods v1: its CRD is not installed"


def test_a_kind_that_comes_is_seen_within_ten_seconds_and_its_objects_are_initial(script):
    script.streams += [*[ABSENT] * 40, [*SYNCED, FOREVER]]

    async def main(env):
        async with running(script, env) as cache:
            informer, seen = cache.informer(PODS), []
            informer.add_handler(Recorder(seen))
            times = []
            while not informer.synced:
                times.append((env.clock.monotonic(), len(script.calls)))
                with anyio.move_on_after(1):
                    await informer.wait_for_sync()
            return seen, informer.missing, times

    seen, missing, times = simulate(main)
    assert (seen, missing) == ([("initial", "a"), ("initial", "b")], False)
    tries = [moment for (moment, calls), (_, more) in pairwise(times) if more > calls]
    assert max(b - a for a, b in pairwise(tries)) <= 11


def test_a_kind_that_vanishes_empties_the_informer_and_its_return_fills_it(script):
    script.streams += [[*SYNCED, 10.0], ABSENT, ABSENT, [event("ADDED", pod("c", 20)), bookmark(21, end=True), FOREVER]]

    def check(informer, seen, script):
        again = [("sendInitialEvents" in query, query.get("resourceVersion")) for query in watches(script)]
        return seen[2:], again, informer.statistics().relists

    told, again, relists = follow(script, check, seconds=60)

    assert told == [("delete", "a"), ("delete", "b"), ("initial", "c")]
    assert again == [(True, None), (False, "5"), (False, "5"), (True, None)]
    assert relists == {"expired": 0, "went_back": 0, "missing": 1, "crashed": 0}


def test_one_404_from_a_replica_that_has_not_heard_of_the_crd_deletes_nothing(script):
    script.streams += [[*SYNCED, 10.0], ABSENT, [event("ADDED", pod("c", 20)), FOREVER]]

    def check(informer, seen, script):
        return seen[2:], informer.synced, sum(informer.statistics().relists.values())

    assert follow(script, check, seconds=60) == ([("add", "c")], True, 0)


def test_while_a_kind_is_gone_nothing_waits_for_writes_to_it_but_the_return_is_waited_for(script):
    script.streams += [[*SYNCED, 10.0], *[ABSENT] * 10, [bookmark(30, end=True), FOREVER]]

    async def main(env):
        async with running(script, env) as cache:
            informer = cache.informer(PODS)
            await informer.wait_for_sync()
            await env.clock.sleep(20)
            gone = informer.missing, informer.synced, len(informer)
            await informer.wait_for_sync()
            return gone, informer.missing, env.clock.monotonic()

    gone, missing, moment = simulate(main)
    assert (gone, missing) == ((True, False, 0), False)
    assert moment > 20


def test_a_missing_kind_is_a_note_beside_what_fails_readiness_and_a_refusal_fails_it(script):
    script.streams += [ABSENT, (403, failure(403, "Forbidden", 'User "me" cannot list resource "pods"'))]

    async def main(env):
        async with running(script, env) as cache:
            cache.informer(PODS, namespace="one")
            await env.clock.sleep(0.1)
            alone = cache_check(cache)()
            cache.informer(PODS, namespace="two")
            await env.clock.sleep(0.1)
            return alone, cache_check(cache)()

    alone, beside = simulate(main)
    assert isinstance(alone, Note)
    assert alone == "pods in one: the API server does not serve pods v1: its CRD is not installed"
    assert not isinstance(beside, Note)
    assert beside == (
        'pods in two: GET /api/v1/namespaces/two/pods: User "me" cannot list resource "pods" (403); '
        "grant this identity `list` and `watch` on the kind, and it goes on without a restart; "
        "(note) pods in one: the API server does not serve pods v1: its CRD is not installed"
    )


def test_an_informer_that_may_read_no_more_fails_readiness_until_the_right_comes_back(script):
    refused = (403, failure(403, "Forbidden", 'pods is forbidden: User "me" cannot watch resource "pods"'))
    script.streams += [[*SYNCED, 10.0], *[refused] * 3, [event("ADDED", pod("c", 9)), FOREVER]]

    async def main(env):
        async with running(script, env) as cache:
            informer, check = cache.informer(PODS), cache_check(cache)
            await informer.wait_for_sync()
            before = check()
            await env.clock.sleep(10.5)
            during = check(), informer.synced
            await env.clock.sleep(60)
            return before, during, check(), len(informer)

    before, (problem, synced), after, objects = simulate(main)
    assert (before, synced, after, objects) == (None, True, None, 3)
    assert 'User "me" cannot watch resource "pods"' in problem


@pytest.mark.parametrize("ending", ["release", "wait"])
def test_a_released_informer_is_no_longer_waited_for(ending):
    async def main(env):
        informer = Informer(PODS, Scope())
        async with anyio.create_task_group() as tasks:

            async def wait():
                with pytest.raises(RuntimeError, match="informer of pods was released"):
                    await informer.wait_for_sync()

            tasks.start_soon(wait)
            await env.clock.sleep(1)
            informer.release()
        if ending == "wait":
            await informer.wait_for_decision()
        return informer.released

    assert simulate(main)
