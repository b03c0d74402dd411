"""A manager with parts that write down when they start and stop."""

import asyncio

import anyio

from ktrain.api.core import CONFIG_MAPS
from ktrain.framework.cache.cache import Cache
from ktrain.framework.client.client import Client
from ktrain.framework.controller.controller import Controller
from ktrain.framework.election.election import LeaderElection
from ktrain.framework.events import EventRecorder
from ktrain.framework.manager.manager import Manager
from ktrain.local.apiserver.server import ApiServer


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


class Part:
    """A runnable that writes down its life; `ends` is what it does when it runs."""

    def __init__(self, name, journal, ends=None, *, needs_leader=True):
        self.name = name
        self.journal = journal
        self.ends = ends
        self.needs_leader = needs_leader

    async def run(self, *, task_status=anyio.TASK_STATUS_IGNORED):
        self.journal.append(f"start {self.name}")
        task_status.started()
        try:
            await (self.ends or anyio.sleep_forever)()
        finally:
            self.journal.append(f"stop {self.name}")


async def stopped(env, manager, after_s):
    """Run a manager, ask it to stop after a while, and return the error it ended with."""
    error = None

    async def run(*, task_status):
        nonlocal error
        try:
            await manager.run(task_status=task_status)
        except Exception as raised:  # noqa: BLE001 - returned below
            error = raised

    async with anyio.create_task_group() as tasks:
        await tasks.start(run)
        await env.clock.sleep(after_s)
        manager.stop()
    return error


def election(world, identity="me"):
    client = Client(world.server.transport(), world.env, field_manager=identity)
    return LeaderElection(client, world.env, name="op", namespace="default", identity=identity)
