"""Candidates for a lease that can be stopped as SIGSTOP stops them, and a journal of who wrote when."""

import asyncio
from contextlib import asynccontextmanager, suppress

import anyio
import msgspec
from prometheus_client import CollectorRegistry

from ktrain.api.core import CONFIG_MAPS, LEASES
from ktrain.api.meta import Key
from ktrain.framework.client.client import Client
from ktrain.framework.election.election import LeaderElection
from ktrain.framework.errors import FrameworkError
from ktrain.framework.metrics import Metrics
from ktrain.framework.parallel import unwrap
from ktrain.local.apiserver.server import ApiServer
from ktrain.testing.faults import FaultTransport
from ktrain.testing.time import Stoppable

LEASE = Key("default", "operator")


class Wire:
    """Where the server's side of one candidate's wire is written down: who holds the lease, and who writes."""

    def __init__(self, name, inner, journal):
        self._name = name
        self._inner = inner
        self._journal = journal

    async def request(self, method, path, **options):
        answer = await self._inner.request(method, path, **options)
        if method in ("POST", "PATCH", "PUT") and answer.status < 300:
            now = asyncio.get_running_loop().time()
            if "leases" in path:
                holder = msgspec.json.decode(answer.body)["spec"]["holderIdentity"]
                self._journal.append((now, "lease", holder))
            elif "configmaps" in path:
                self._journal.append((now, "write", self._name))
        return answer

    def stream(self, path, **options):
        return self._inner.stream(path, **options)


class Candidate:
    """A process that writes as fast as its guard lets it while it leads."""

    def __init__(self, name, env, server, journal, *, identity=""):
        self.name = name
        self.env = env
        self.process = Stoppable()
        self.weather = FaultTransport(Wire(name, server.transport(), journal), env)
        client = Client(self.weather, env, field_manager="election", max_in_flight=None)
        self.registry = CollectorRegistry()
        self.election = LeaderElection(
            client,
            env,
            name=LEASE.name,
            namespace=LEASE.namespace,
            identity=identity or name,
            metrics=Metrics(self.registry),
        )
        self.writer = Client(self.weather, env, field_manager="work", guard=self.election.guard, timeout_s=5)
        self.work = anyio.CancelScope()
        self.error = None

    async def run(self):
        try:
            await self.election.acquire()
            async with self.election.leading():
                with self.work:
                    # Several at a time: some are always on their way when the process is stopped.
                    async with anyio.create_task_group() as tasks:
                        for _ in range(3):
                            tasks.start_soon(self._write)
        except Exception as error:  # noqa: BLE001 - looked at by the tests
            self.error = unwrap(error)

    async def _write(self):
        while True:
            meta = {"generateName": "w-", "namespace": "default"}
            with suppress(FrameworkError):
                await self.writer.create(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
            await self.env.clock.sleep(1)


class World:
    def __init__(self, env, tasks):
        self.env = env
        self.server = ApiServer(env)
        self.journal = []
        self.client = Client(self.server.transport(), env, field_manager="somebody")
        self.candidates = []
        self._tasks = tasks

    def candidate(self, name, *, env=None, identity=""):
        one = Candidate(name, env or self.env, self.server, self.journal, identity=identity)
        self.candidates.append(one)
        with one.process.inside():
            self._tasks.start_soon(one.run)
        return one

    async def led(self, *others, for_s=30.0):
        """Have `a` lead for a while, and others wait to; returns the candidate `a`."""
        leader = self.candidate("a")
        await self.env.clock.sleep(1)
        for name in others:
            self.candidate(name)
        await self.env.clock.sleep(for_s)
        return leader

    async def lease(self):
        return await self.client.get(LEASES, LEASE.name, LEASE.namespace)

    async def edit(self, **spec):
        await self.client.patch(LEASES, LEASE, {"spec": spec})

    def first(self, kind, who, since_s=0.0):
        return next(when for when, what, name in self.journal if (what, name) == (kind, who) and when >= since_s)

    def writers(self, since_s=0.0):
        return {name for when, what, name in self.journal if what == "write" and when >= since_s}

    def check(self):
        """Nobody writes but the last one who stored itself as the holder."""
        holder = ""
        for when, what, name in self.journal:
            if what == "lease":
                holder = name
            else:
                assert name == holder, f"{name} wrote at {when:.2f} s, when {holder or 'nobody'} held the lease"


@asynccontextmanager
async def world(env):
    async with anyio.create_task_group() as tasks:
        made = World(env, tasks)
        yield made
        for candidate in made.candidates:
            candidate.process.resume()
        made.check()
        tasks.cancel_scope.cancel()
