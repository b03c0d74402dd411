"""How a controller comes to work: warm-up, the wait for content, kinds that are missing, the ways not to start."""

import asyncio

import anyio
import pytest
from structlog.testing import capture_logs

from ktrain.api.core import PODS
from ktrain.api.meta import Key
from ktrain.framework.cache.cache import Cache
from ktrain.framework.client.client import Client
from ktrain.framework.controller.controller import Controller
from ktrain.framework.errors import CacheSyncTimeout
from ktrain.testing.time import simulate

from .following import SYNCED, event, failure, pod

A, B, C = (Key("ns", name) for name in "abc")
ABSENT = (404, failure(404, "NotFound", "404 page not found"))
FORBIDDEN = (403, failure(403, "Forbidden", "pods is forbidden: User u cannot list resource pods"))
FOREVER = float("inf")


class World:
    """A cache on a scripted server, and a controller of pods."""

    def __init__(self, script, env, **options):
        self.cache = Cache(Client(script, env, field_manager="test"), env)
        self.passes = []
        self.env = env
        self.controller = Controller("test", self.reconcile, env=env, cache=self.cache, **options)
        self.pods = self.cache.informer(PODS)
        self.controller.for_(self.pods)

    async def reconcile(self, key):
        self.passes.append((key, round(self.env.clock.monotonic())))

    def depths(self):
        return self.controller.statistics().depths


def test_a_standby_is_warm_its_queue_fills_with_the_cache_and_work_begins_with_run(script):
    script.streams += [[*SYNCED, 5.0, event("ADDED", pod("c", 12)), FOREVER]]

    async def main(env):
        world = World(script, env)
        async with anyio.create_task_group() as tasks:
            await tasks.start(world.cache.run)
            await env.clock.sleep(10)
            before, depths = list(world.passes), world.depths()
            await tasks.start(world.controller.run)
            await env.clock.sleep(1)
            tasks.cancel_scope.cancel()
        return before, depths, world.passes, len(script.calls)

    before, depths, passes, calls = simulate(main)
    assert before == []
    assert depths == {0: 1, -100: 2}
    assert passes == [(C, 10), (A, 10), (B, 10)]
    assert calls == 1


def test_a_controller_runs_once(script):
    async def main(env):
        world = World(script, env)
        async with anyio.create_task_group() as tasks:
            await tasks.start(world.cache.run)
            script.streams.append([*SYNCED, FOREVER])
            await tasks.start(world.controller.run)
            with pytest.raises(RuntimeError, match="controller test ran before"):
                await world.controller.run()
            tasks.cancel_scope.cancel()
        with pytest.raises(RuntimeError, match="make another one"):
            await world.controller.run()

    simulate(main)


def test_content_that_does_not_come_names_the_controller_the_source_and_its_last_error(script):
    script.streams += [FORBIDDEN] * 100

    async def main(env):
        world = World(script, env, sync_timeout_s=30)
        async with anyio.create_task_group() as tasks:
            await tasks.start(world.cache.run)
            with pytest.raises(CacheSyncTimeout) as caught:
                await world.controller.run()
            tasks.cancel_scope.cancel()
        return str(caught.value), env.clock.monotonic()

    text, when = simulate(main)
    assert text.startswith("controller test: ")
    assert "pods" in text
    assert "cannot list resource pods" in text
    assert when == pytest.approx(30, abs=1)


@pytest.mark.parametrize("ending", ["cancel", "shut_down"])
def test_an_end_during_the_wait_for_content_is_a_quiet_one(script, ending):
    async def main(env):
        world = World(script, env)
        async with anyio.create_task_group() as tasks:
            await tasks.start(world.cache.run)
            running = asyncio.create_task(world.controller.run())
            await env.clock.sleep(1)
            if ending == "cancel":
                running.cancel()
            else:
                world.controller.shut_down()
            await asyncio.wait([running])
            tasks.cancel_scope.cancel()
        return running, env.clock.monotonic()

    with capture_logs() as logs:
        running, when = simulate(main)
    assert running.cancelled() if ending == "cancel" else running.result() is None
    assert when == 1
    assert [line for line in logs if line["event"].startswith("controller.")] == []


def test_who_is_shut_down_before_it_starts_reports_its_start_and_ends(script):
    async def main(env):
        world = World(script, env)
        world.controller.shut_down()
        async with anyio.create_task_group() as tasks:
            await tasks.start(world.controller.run)

    simulate(main)


def test_a_kind_that_is_missing_is_waited_for_while_others_go_on(script):
    script.streams += [*[ABSENT] * 20, [*SYNCED, FOREVER]]

    async def main(env):
        world = World(script, env, sync_timeout_s=5)
        async with anyio.create_task_group() as tasks:
            await tasks.start(world.cache.run)
            await tasks.start(world.controller.run)
            started = env.clock.monotonic()
            world.controller.enqueue(C)
            await env.clock.sleep(10)
            early = list(world.passes)
            await env.clock.sleep(600)
            tasks.cancel_scope.cancel()
        return started, early, sorted({key for key, _ in world.passes})

    with capture_logs() as logs:
        started, early, passes = simulate(main)
    assert started < 5
    assert early == []
    assert passes == [A, B, C]
    (line,) = [line for line in logs if line["event"] == "controller.waiting"]
    assert (line["controller"], line["missing"]) == ("test", ["pods"])
    assert [line["event"] for line in logs].count("controller.started") == 1


def test_somebody_can_be_told_what_is_missing_for_as_long_as_it_is(script):
    script.streams += [*[ABSENT] * 20, [*SYNCED, FOREVER]]
    told = []

    async def main(env):
        async def tell(missing):
            told.extend(informer.resource.qualified_name for informer in missing)
            try:
                await anyio.sleep_forever()
            finally:
                told.append(world.pods.synced)

        world = World(script, env, while_missing=tell)
        async with anyio.create_task_group() as tasks:
            await tasks.start(world.cache.run)
            await tasks.start(world.controller.run)
            await env.clock.sleep(10)
            early = list(told)
            await env.clock.sleep(600)
            tasks.cancel_scope.cancel()
        return early

    assert simulate(main) == ["pods"]
    assert told == ["pods", True]


def test_after_the_end_nothing_is_left_queued_no_timer_runs_and_events_pile_up_nowhere(script):
    async def main(env):
        script.streams += [[*SYNCED, 10.0, event("ADDED", pod("c", 12)), FOREVER]]
        world = World(script, env)
        async with anyio.create_task_group() as tasks:
            await tasks.start(world.cache.run)
            running = asyncio.create_task(world.controller.run())
            await env.clock.sleep(5)
            world.controller.enqueue(A, after_s=3600)
            running.cancel()
            await asyncio.wait([running])
            await env.clock.sleep(10)
            with pytest.raises(ValueError, match="not a number"):
                world.controller.enqueue(A, after_s=float("nan"))
            world.controller.enqueue(A, after_s=1)
            statistics = world.controller.statistics()
            timers = [handle for handle in asyncio.get_running_loop()._scheduled if not handle.cancelled()]
            tasks.cancel_scope.cancel()
        left = [repr(handle) for handle in timers if "Delays" in repr(handle) or "Passes" in repr(handle)]
        return statistics, left, world.controller._due

    statistics, timers, due = simulate(main)
    assert due.keys() <= {A, B}
    assert (statistics.ready, statistics.delayed, statistics.processing) == (0, 0, 0)
    assert timers == []


def test_a_source_added_while_the_controller_works_begins_at_once(script):
    script.streams += [[*SYNCED, FOREVER], [*SYNCED, FOREVER]]

    async def main(env):
        world = World(script, env)
        async with anyio.create_task_group() as tasks:
            await tasks.start(world.cache.run)
            await tasks.start(world.controller.run)
            world.controller.watches(world.cache.informer(PODS, namespace="ns"), lambda obj: [C])
            await env.clock.sleep(1)
            tasks.cancel_scope.cancel()
        return {key for key, _ in world.passes}

    assert simulate(main) == {A, B, C}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"max_concurrent_reconciles": 0}, "max_concurrent_reconciles is 0"),
        ({"reconcile_timeout_s": 0}, "reconcile_timeout_s is 0"),
        ({"reconcile_timeout_s": float("nan")}, "reconcile_timeout_s is nan"),
    ],
)
def test_a_controller_that_could_never_reconcile_is_refused(script, options, text):
    async def scenario(env):
        with pytest.raises(ValueError, match=text):
            World(script, env, **options)

    simulate(scenario)
