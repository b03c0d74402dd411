import asyncio
from contextlib import suppress

import anyio
import pytest

from ktrain.api.core import CONFIG_MAPS, EVENTS, LEASES, untyped
from ktrain.framework.cache.cache import Cache
from ktrain.framework.client.client import Client
from ktrain.framework.controller import Controller
from ktrain.framework.election import LeaderElection
from ktrain.framework.errors import CacheSyncTimeout, ShutdownTimeout, TransportError
from ktrain.framework.events import EventRecorder
from ktrain.framework.manager import Manager
from ktrain.local.apiserver.server import ApiServer
from ktrain.testing.time import simulate


class World:
    """An embedded server with one config map, a controller that takes `work_s` per pass, and a journal."""

    def __init__(self, env, *, work_s=0.0, transport=None):
        self.env = env
        self.journal = []
        self.server = ApiServer(env)
        self.client = Client(transport or self.server.transport(), env, field_manager="test")
        self.cache = Cache(self.client, env)
        self.recorder = EventRecorder(self.client, env, component="test")
        self.work_s = work_s
        self.controller = Controller("test", self.reconcile, env=env, cache=self.cache)
        self.config_maps = self.cache.informer(CONFIG_MAPS)
        self.controller.watches(self.config_maps)

    async def reconcile(self, key):
        self.journal.append("begin")
        try:
            await self.env.clock.sleep(self.work_s)
        except asyncio.CancelledError:
            self.journal.append("cancelled")
            raise
        self.recorder.event(CONFIG_MAPS, self.config_maps.get(key), reason="Done", message="done")
        self.journal.append("end")

    async def create(self, name="a"):
        meta = {"name": name, "namespace": "default"}
        await self.client.create(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})

    def manager(self, **options):
        return Manager(cache=self.cache, controllers=[self.controller], recorder=self.recorder, **options)


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
