import asyncio
from contextlib import asynccontextmanager, suppress

import anyio
import pytest

from ktrain.api.core import CONFIG_MAPS, EVENTS, LEASES, untyped
from ktrain.framework.cache.cache import Cache
from ktrain.framework.client.client import Client
from ktrain.framework.controller.controller import Controller
from ktrain.framework.election.election import LeaderElection
from ktrain.framework.errors import CacheSyncTimeout, NotFound, ShutdownTimeout, TransportError
from ktrain.framework.events import EventRecorder
from ktrain.framework.manager.manager import Manager
from ktrain.testing.time import Stoppable, simulate

from .managing import Part, World, election, stopped


class Service:
    def __init__(self, name, journal, *, fails=None):
        self.name = name
        self.journal = journal
        self.fails = fails

    async def run(self, *, task_status=anyio.TASK_STATUS_IGNORED):
        if self.fails is not None:
            raise self.fails
        self.journal.append(f"start {self.name}")
        task_status.started()
        try:
            await anyio.sleep_forever()
        finally:
            self.journal.append(f"stop {self.name}")


def test_it_starts_in_order_and_stops_in_the_reverse_order_after_the_pass_under_way():
    async def scenario(env):
        world = World(env, work_s=5)
        await world.create()
        services = [Service("health", world.journal), Service("webhooks", world.journal)]
        async with anyio.create_task_group() as tasks:
            await tasks.start(world.manager(services=services).run)
            await env.clock.sleep(1)
            world.journal.append("cancel")
            tasks.cancel_scope.cancel()
        events = (await world.client.list(untyped(EVENTS))).items
        return world.journal, env.clock.monotonic(), [event["reason"] for event in events]

    journal, ended, events = simulate(scenario)
    assert journal == [
        "start health", "start webhooks", "begin", "cancel", "end", "stop webhooks", "stop health",
    ]  # fmt: skip
    assert ended == pytest.approx(5, abs=0.1)
    assert events == ["Done"]


def test_native_cancellation_of_the_task_stops_it_in_order_too():
    async def scenario(env):
        world = World(env)
        await world.create()
        task = asyncio.create_task(world.manager(services=[Service("health", world.journal)]).run())
        await env.clock.sleep(1)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        return world.journal, task.cancelled()

    assert simulate(scenario) == (["start health", "begin", "end", "stop health"], True)


def test_a_pass_that_outlives_the_grace_period_is_cancelled_and_its_controller_named():
    async def scenario(env):
        world = World(env, work_s=1000)
        await world.create()
        errors = []

        async def run():
            try:
                await world.manager(grace_s=10).run()
            except ShutdownTimeout as error:
                errors.append(str(error))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await env.clock.sleep(1)
            tasks.cancel_scope.cancel()
        return world.journal, errors, env.clock.monotonic()

    journal, errors, ended = simulate(scenario)
    assert journal == ["begin", "cancelled"]
    assert errors == ["reconciles of test were cancelled 10 s after the stop"]
    assert ended == pytest.approx(11, abs=0.1)


def test_the_first_fatal_error_surfaces_as_it_was_raised_and_everything_stops():
    async def scenario(env):
        world = World(env)
        services = [Service("health", world.journal), Service("x", world.journal, fails=OSError("port taken"))]
        with pytest.raises(OSError, match="port taken"):
            await world.manager(services=services).run()
        return world.journal

    assert simulate(scenario) == ["start health", "stop health"]


def test_a_cache_that_does_not_fill_ends_the_start_with_the_reason(script):
    async def scenario(env):
        script.streams += [(403, {"kind": "Status", "code": 403, "message": "you may not"})] * 30
        world = World(env, transport=script)
        with pytest.raises(CacheSyncTimeout, match=r"configmaps .*you may not"):
            await world.manager(sync_timeout_s=20).run()

    simulate(scenario)


def test_a_stop_while_the_cache_fills_is_quick_and_quiet(script):
    async def scenario(env):
        world = World(env, transport=script)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(world.manager().run)
            await env.clock.sleep(1)
            tasks.cancel_scope.cancel()
        return env.clock.monotonic()

    assert simulate(scenario) == 1.0


@pytest.mark.parametrize("stopped_s", [5, 12, 60])
def test_who_stood_still_in_the_moment_of_winning_works_all_the_same(stopped_s):
    async def scenario(env):
        process, stopped = Stoppable(), asyncio.Event()
        world = World(env)
        await world.create()

        class StopsWhenWon:
            def __init__(self, inner):
                self.stream = inner.stream
                self.inner = inner

            async def request(self, method, path, **options):
                answer = await self.inner.request(method, path, **options)
                if method == "POST" and not stopped.is_set():
                    process.stop()
                    stopped.set()
                return answer

        client = Client(StopsWhenWon(world.server.transport()), env, field_manager="me")
        election = LeaderElection(client, env, name="op", namespace="default", identity="me")
        with process.inside():
            running = asyncio.create_task(world.manager(leader_election=election).run())
        await stopped.wait()
        await env.clock.sleep(stopped_s)
        process.resume()
        await env.clock.sleep(10)
        ended = running.done()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return ended, world.journal

    assert simulate(scenario) == (False, ["begin", "end"])


def test_controllers_wait_for_the_lease_and_it_is_given_up_only_when_they_have_ended():
    async def scenario(env):
        world = World(env, work_s=5)
        await world.create()
        held = []

        def election(identity):
            client = Client(world.server.transport(), env, field_manager=identity)
            return LeaderElection(client, env, name="op", namespace="default", identity=identity)

        other = election("other")
        await other.acquire()
        async with anyio.create_task_group() as tasks:
            async with other.leading():
                await tasks.start(world.manager(leader_election=election("me")).run)
                await env.clock.sleep(20)
                held.append(list(world.journal))
            await env.clock.sleep(1)
            held.append(list(world.journal))
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await env.clock.sleep(1)
                held.append((await world.client.get(LEASES, "op", "default")).spec.holder_identity)
        held.append((await world.client.get(LEASES, "op", "default")).spec.holder_identity)
        return held, world.journal

    held, journal = simulate(scenario)
    assert held == [[], ["begin"], "me", ""]
    assert journal == ["begin", "end"]


def test_an_event_that_is_still_to_be_sent_does_not_keep_the_lease_and_is_sent_after_it():
    order = []

    class Ordered:
        """Does not take the first event."""

        def __init__(self, inner):
            self.inner = inner

        async def request(self, method, path, **options):
            if method != "GET":
                order.append("event" if "events" in path else "lease")
            if order == ["event"]:
                raise TransportError("no answer")
            return await self.inner.request(method, path, **options)

        def stream(self, *args, **options):
            return self.inner.stream(*args, **options)

    async def scenario(env):
        world = World(env, work_s=1)
        await world.create()
        transport = Ordered(world.server.transport())
        client = Client(transport, env, field_manager="test")
        election = LeaderElection(client, env, name="op", namespace="default", identity="me")
        world.recorder = EventRecorder(client, env, component="test")
        async with anyio.create_task_group() as tasks:
            await tasks.start(world.manager(leader_election=election).run)
            while not world.journal:
                await env.clock.sleep(0.01)
            order.clear()
            tasks.cancel_scope.cancel()
        return [event["reason"] for event in (await world.client.list(untyped(EVENTS))).items]

    assert simulate(scenario) == ["Done"]
    assert order == ["event", "lease", "event"]


def test_what_needs_no_leader_runs_in_a_standby_and_the_rest_does_not():
    async def scenario(env):
        world = World(env)
        async with other_leader(world, env):
            runnables = [Part("leader", world.journal), Part("follower", world.journal, needs_leader=False)]
            manager = world.manager(leader_election=election(world), runnables=runnables)
            error = await stopped(env, manager, 30)
            return error, world.journal, manager.elected.is_set()

    assert simulate(scenario) == (None, ["start follower", "stop follower"], False)


@asynccontextmanager
async def other_leader(world, env):
    other = election(world, "other")
    await other.acquire()
    async with other.leading():
        yield other


def test_elected_is_told_when_the_leaders_have_started():
    async def scenario(env):
        world = World(env)
        manager = world.manager(leader_election=election(world), runnables=[Part("leader", world.journal)])

        async def note(*, task_status=None):
            await manager.elected.wait()
            world.journal.append("elected")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(note)
            await tasks.start(manager.run)
            await env.clock.sleep(1)
            manager.stop()
        return world.journal

    assert simulate(scenario) == ["start leader", "elected", "stop leader"]


def test_what_is_added_to_a_standby_waits_for_its_turn():
    async def scenario(env):
        world = World(env)
        manager = world.manager(leader_election=election(world))
        async with anyio.create_task_group() as tasks:
            async with other_leader(world, env):
                await tasks.start(manager.run)
                manager.add(Part("leader", world.journal))
                manager.add(Part("follower", world.journal, needs_leader=False))
                await env.clock.sleep(30)
                world.journal.append("handed over")
            await env.clock.sleep(1)
            manager.stop()
        return world.journal

    assert simulate(scenario)[:3] == ["start follower", "handed over", "start leader"]


def test_a_controller_that_waits_for_its_informer_does_not_hold_up_the_others(script):
    async def scenario(env):
        world = World(env)
        await world.create()
        # A cache of its own for a kind that never comes; the manager waits for the main one only.
        script.streams += [(403, {"kind": "Status", "code": 403, "message": "you may not"})] * 1000
        silent = Cache(Client(script, env, field_manager="t"), env)
        waiting = Controller("waiting", world.reconcile, env=env, cache=silent, sync_timeout_s=1000)
        waiting.watches(silent.informer(CONFIG_MAPS))
        manager = Manager(cache=world.cache, controllers=[waiting, world.controller], services=[silent])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(manager.run)
            await env.clock.sleep(60)
            manager.stop()
        return world.journal

    assert simulate(scenario) == ["begin", "end"]


def test_the_caches_of_all_clusters_are_filled_before_any_controller_works(script):
    async def scenario(env):
        script.streams += [(403, {"kind": "Status", "code": 403, "message": "you may not"})] * 100
        edge = Cache(Client(script, env, field_manager="t"), env)
        edge.informer(CONFIG_MAPS)
        world = World(env)
        await world.create()
        with pytest.raises(CacheSyncTimeout, match="you may not"):
            await world.manager(caches=[edge], sync_timeout_s=20).run()
        return world.journal

    assert simulate(scenario) == []


def test_a_runnable_that_ends_by_itself_or_reports_nothing_is_no_error():
    async def scenario(env):
        class Short:
            async def run(self, *, task_status):
                return

        world = World(env)
        return await stopped(env, world.manager(runnables=[Short()], services=[Short()]), 10)

    assert simulate(scenario) is None


@pytest.mark.parametrize("steps", range(0, 60, 1))
def test_a_cancellation_at_any_step_of_the_start_stops_what_has_started_in_order(steps):
    async def scenario(env):
        world = World(env)
        await world.create()
        services = [Part("health", world.journal), Part("webhooks", world.journal)]
        runnables = [Part("leader", world.journal), Part("follower", world.journal, needs_leader=False)]
        manager = world.manager(services=services, runnables=runnables, leader_election=election(world))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(manager.run)
            for _ in range(steps):
                await asyncio.sleep(0)
            tasks.cancel_scope.cancel()
        lives = [line for line in world.journal if line.startswith(("start", "stop"))]
        with suppress(NotFound):
            world.journal.append((await world.client.get(LEASES, "op", "default")).spec.holder_identity)
        return lives, world.journal[-1:]

    lives, holder = simulate(scenario)
    started = [line.removeprefix("start ") for line in lives if line.startswith("start")]
    ended = [line.removeprefix("stop ") for line in lives if line.startswith("stop")]
    assert sorted(started) == sorted(ended)
    services = [name for name in started if name in ("health", "webhooks")]
    assert [name for name in ended if name in services] == services[::-1]
    assert holder != ["me"]
