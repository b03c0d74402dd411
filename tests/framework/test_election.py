import asyncio
from contextlib import asynccontextmanager, suppress

import anyio
import msgspec
import pytest

from ktrain.api.core import CONFIG_MAPS, LEASES
from ktrain.api.meta import Key
from ktrain.framework.client.client import Client
from ktrain.framework.election.election import LeaderElection, Timing
from ktrain.framework.env import Env
from ktrain.framework.errors import FrameworkError, LeadershipLost, TransportError
from ktrain.framework.parallel import unwrap
from ktrain.local.apiserver.server import ApiServer
from ktrain.testing.time import VirtualClock, simulate

LEASE = Key("default", "operator")


class Process:
    """One candidate with its own election client and a worker that writes as fast as its guard lets it."""

    def __init__(self, name, env, server, journal, *, skew_s=0.0):
        self.name = name
        self.awake = asyncio.Event()
        self.awake.set()
        self.reachable = True
        self.env = Env(_Clock(self, skew_s), env.random)
        transport = _Transport(self, server.transport(), journal)
        client = Client(transport, self.env, field_manager="election")
        self.election = LeaderElection(
            client, self.env, name=LEASE.name, namespace=LEASE.namespace, identity=name, timing=Timing()
        )
        self.writer = Client(transport, self.env, field_manager="work", guard=self.election.guard, timeout_s=5)
        self.working = anyio.CancelScope()
        self.ended = None

    async def run(self):
        try:
            await self.election.acquire()
            async with self.election.leading():
                with self.working:
                    await self._work()
        except BaseException as error:
            self.ended = unwrap(error)
            if isinstance(self.ended, asyncio.CancelledError):
                raise

    async def _work(self):
        while True:
            meta = {"generateName": "w-", "namespace": "default", "labels": {"by": self.name}}
            with suppress(FrameworkError):
                await self.writer.create(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
            await self.env.clock.sleep(0.05)


class _Clock(VirtualClock):
    def __init__(self, process, skew_s):
        super().__init__(skew_s=skew_s)
        self._process = process

    async def sleep(self, seconds):
        await super().sleep(seconds)
        await self._process.awake.wait()


class _Transport:
    """Nothing of a stopped process moves: requests wait before they leave, answers before they are read."""

    def __init__(self, process, inner, journal):
        self._process = process
        self._inner = inner
        self._journal = journal

    async def request(self, method, path, *, body=None, timeout_s=30.0, **options):
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        await self._process.awake.wait()
        await asyncio.sleep(0.005)
        await self._process.awake.wait()
        if loop.time() >= deadline:
            raise TransportError("too late to be sent")
        if not self._process.reachable:
            await asyncio.sleep(deadline - loop.time())
            raise TransportError("no answer")
        answer = await self._inner.request(method, path, body=body, timeout_s=timeout_s, **options)
        if method == "POST" and "configmaps" in path:
            self._journal.append((loop.time(), self._process.name))
        if "leases" in path and method in ("POST", "PATCH") and answer.status < 300:
            holder = msgspec.json.decode(answer.body)["spec"]["holderIdentity"]
            self._journal.append((loop.time(), f"lease:{holder}"))
        await self._process.awake.wait()
        return answer

    @asynccontextmanager
    async def stream(self, path, **options):
        async with self._inner.stream(path, **options) as stream:
            yield stream._replace(lines=self._slow(stream.lines))

    async def _slow(self, lines):
        async for line in lines:
            await self._process.awake.wait()
            yield line


@asynccontextmanager
async def candidates(env, *names, skews=()):
    server, journal = ApiServer(env), []
    skews = {**dict.fromkeys(names, 0.0), **dict(skews)}
    processes = [Process(name, env, server, journal, skew_s=skews[name]) for name in names]
    async with anyio.create_task_group() as tasks:
        for process in processes:
            tasks.start_soon(process.run)
            await env.clock.sleep(1)
        yield processes, journal, server
        for process in processes:
            process.awake.set()
        tasks.cancel_scope.cancel()


def first(journal, who):
    return next(when for when, name in journal if name == who)


def last(journal, who):
    return max(when for when, name in journal if name == who)


def assert_fenced(journal):
    """No write by anyone once another holds the lease, and none later than 10 s after its holder's last renewal."""
    holder, renewed = "", 0.0
    for when, name in journal:
        if name.startswith("lease:"):
            holder, renewed = name.removeprefix("lease:"), when
        else:
            assert name == holder
            assert when - renewed < 10.1


def test_one_of_three_leads_and_the_others_do_not_write():
    async def scenario(env):
        async with candidates(env, "a", "b", "c") as (_, journal, _):
            await env.clock.sleep(120)
            return {name for _, name in journal}

    assert simulate(scenario) == {"a", "lease:a"}


@pytest.mark.parametrize("seed", range(5))
def test_a_paused_leader_writes_nothing_when_it_wakes_after_its_lease(seed):
    async def scenario(env):
        async with candidates(env, "a", "b") as ((a, _), journal, _):
            await env.clock.sleep(30 + env.random.uniform(0, 2))
            a.awake.clear()
            paused = env.clock.monotonic()
            await env.clock.sleep(60)
            a.awake.set()
            await env.clock.sleep(30)
            return paused, journal, a.ended

    paused, journal, ended = simulate(scenario, seed=seed)
    assert_fenced(journal)
    assert last(journal, "a") <= paused
    assert isinstance(ended, LeadershipLost)
    assert 13 <= first(journal, "lease:b") - paused <= 15 + 5


def test_a_leader_that_is_cut_off_stops_writing_before_another_may_lead():
    async def scenario(env):
        async with candidates(env, "a", "b") as ((a, _), journal, _):
            await env.clock.sleep(30)
            a.reachable = False
            await env.clock.sleep(60)
            return journal, a.ended

    journal, ended = simulate(scenario)
    assert_fenced(journal)
    assert isinstance(ended, LeadershipLost)
    assert "was not renewed within 10 s" in str(ended)
    assert last(journal, "a") < first(journal, "lease:b")


def test_a_short_pause_costs_nothing():
    async def scenario(env):
        async with candidates(env, "a", "b") as ((a, _), journal, _):
            await env.clock.sleep(30)
            a.awake.clear()
            await env.clock.sleep(5)
            a.awake.set()
            await env.clock.sleep(60)
            return {name for _, name in journal}, a.ended

    assert simulate(scenario) == ({"a", "lease:a"}, None)


@pytest.mark.parametrize("seed", range(5))
def test_a_graceful_end_hands_over_within_a_second(seed):
    async def scenario(env):
        async with candidates(env, "a", "b") as ((a, _), journal, _):
            await env.clock.sleep(30 + env.random.uniform(0, 4))
            stopped = env.clock.monotonic()
            a.working.cancel()
            await env.clock.sleep(5)
            return stopped, journal

    stopped, journal = simulate(scenario, seed=seed)
    assert_fenced(journal)
    assert first(journal, "lease:b") - stopped < 1


def test_wall_clocks_that_are_wrong_change_nothing():
    async def scenario(env):
        async with candidates(env, "a", "b", skews=[("a", -86400.0), ("b", 86400.0)]) as (_, journal, _):
            await env.clock.sleep(120)
            return {name for _, name in journal}

    assert simulate(scenario) == {"a", "lease:a"}


def test_a_lease_that_somebody_deletes_is_made_again_by_its_holder():
    async def scenario(env):
        async with candidates(env, "a") as ((a,), _, server):
            client = Client(server.transport(), env, field_manager="somebody")
            await env.clock.sleep(10)
            await client.delete(LEASES, LEASE)
            await env.clock.sleep(10)
            return (await client.get(LEASES, *reversed(LEASE))).spec.holder_identity, a.ended

    assert simulate(scenario) == ("a", None)


def test_fields_of_the_lease_that_are_not_ours_stay():
    async def scenario(env):
        async with candidates(env, "a") as (_, _, server):
            client = Client(server.transport(), env, field_manager="somebody")
            await client.patch(LEASES, LEASE, {"metadata": {"labels": {"x": "y"}, "annotations": {"a": "b"}}})
            await env.clock.sleep(10)
            stored = await client.get(LEASES, *reversed(LEASE))
            return stored.metadata.labels, stored.metadata.annotations

    assert simulate(scenario) == ({"x": "y"}, {"a": "b"})


def test_times_under_which_two_could_lead_are_refused():
    with pytest.raises(ValueError, match="lease duration > renew deadline"):
        Timing(lease_duration_s=10, renew_deadline_s=10)
    with pytest.raises(ValueError, match=r"1\.2 x retry period"):
        Timing(renew_deadline_s=2.2)
