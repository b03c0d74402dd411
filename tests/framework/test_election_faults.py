"""
Elections in bad weather: nobody writes while another may hold the lease, whatever happens to processes and calls.

Candidates can be stopped as SIGSTOP stops them; the server's side of the wire keeps the journal.
"""

import asyncio
from contextlib import asynccontextmanager, suppress

import anyio
import msgspec
import pytest
from prometheus_client import CollectorRegistry

from ktrain.api.core import CONFIG_MAPS, EVENTS, LEASES, untyped
from ktrain.api.meta import Key
from ktrain.framework.client.client import Client
from ktrain.framework.election.election import LeaderElection
from ktrain.framework.env import Env
from ktrain.framework.errors import FrameworkError, LeadershipLost, NotFound
from ktrain.framework.events import EventRecorder
from ktrain.framework.metrics import Metrics
from ktrain.framework.parallel import unwrap
from ktrain.local.apiserver.server import ApiServer
from ktrain.testing.faults import FaultTransport
from ktrain.testing.time import Stoppable, VirtualClock, simulate

LEASE = Key("default", "operator")


class Wire:
    """Where the server's side of one candidate's wire is written down: who holds the lease, and who writes."""

    def __init__(self, name, inner, journal):
        self._name = name
        self._inner = inner
        self._journal = journal

    async def request(self, method, path, **options):
        answer = await self._inner.request(method, path, **options)
        if method in ("POST", "PATCH") and answer.status < 300:
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


@pytest.mark.parametrize("seed", range(4))
def test_after_a_crash_another_leads_within_the_lease_duration_and_one_retry(seed):
    async def scenario(env):
        async with world(env) as w:
            a = w.candidate("a")
            await env.clock.sleep(1)
            w.candidate("b")
            await env.clock.sleep(30 + env.random.uniform(0, 4))
            a.process.stop()
            crashed = env.clock.monotonic()
            await env.clock.sleep(40)
            return w.first("write", "b") - crashed

    assert 12.9 < simulate(scenario, seed=seed) <= 15 + 2


@pytest.mark.parametrize("seed", range(4))
def test_an_end_in_order_hands_over_within_a_second(seed):
    async def scenario(env):
        async with world(env) as w:
            a = w.candidate("a")
            await env.clock.sleep(1)
            w.candidate("b"), w.candidate("c")
            await env.clock.sleep(30 + env.random.uniform(0, 4))
            ended = env.clock.monotonic()
            a.work.cancel()
            await env.clock.sleep(10)
            return min(w.first("write", name, ended) for name in w.writers(ended) - {"a"}) - ended

    assert simulate(scenario, seed=seed) < 1


@pytest.mark.parametrize("seed", range(3))
def test_three_candidates_that_are_stopped_and_continued_never_write_side_by_side(seed):
    async def scenario(env):
        async with world(env) as w:
            for name in "abc":
                w.candidate(name)
            draw = env.random
            for number in range(20):
                victim = draw.choice(w.candidates)
                victim.process.stop()
                await env.clock.sleep(draw.uniform(0, 25))
                victim.process.resume()
                await env.clock.sleep(draw.uniform(0, 3))
                for one in [one for one in w.candidates if one.error is not None]:
                    w.candidates.remove(one)
                    w.candidate(f"{one.name}{number}")
            await env.clock.sleep(60)
            return len(w.writers())

    assert simulate(scenario, seed=seed) > 1


@pytest.mark.parametrize("seed", range(3))
def test_they_never_write_side_by_side_when_the_servers_answers_fail_are_late_or_get_lost(seed):
    async def scenario(env):
        async with world(env) as w:
            for name in "abc":
                weather = w.candidate(name).weather
                weather.on(probability=0.2).answer(500)
                weather.on(probability=0.2).delay((0, 3), answer_s=(0, 3))
                weather.on("write", probability=0.1).lose_answer()
                weather.on("write", probability=0.1).reset()
                weather.on("watch", probability=0.5).lag(3)
            for number in range(8):
                await env.clock.sleep(30)
                for one in [one for one in w.candidates if one.error is not None]:
                    assert isinstance(one.error, LeadershipLost)
                    w.candidates.remove(one)
                    w.candidate(f"{one.name}{number}")
            for one in w.candidates:
                one.weather.clear()
            since = env.clock.monotonic()
            await env.clock.sleep(40)
            return len(w.writers(since + 35))

    assert simulate(scenario, seed=seed) == 1


def test_errors_of_the_api_for_less_than_the_renew_deadline_cost_nothing_and_for_longer_the_lease():
    async def scenario(env):
        async with world(env) as w:
            a = w.candidate("a")
            await env.clock.sleep(10)
            a.weather.on(None, LEASES, for_s=7).answer(500)
            await env.clock.sleep(20)
            kept = a.election.is_leader
            a.weather.on(None, LEASES).answer(500)
            await env.clock.sleep(20)
            return kept, type(a.error), str(a.error)

    kept, kind, text = simulate(scenario)
    assert (kept, kind) == (True, LeadershipLost)
    assert text == "the lease default/operator was not renewed within 10 s; its last known holder is a"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("how", ["deleted", "emptied"])
def test_a_lease_that_somebody_deletes_or_empties_goes_back_to_its_leader(how, seed):
    async def scenario(env):
        async with world(env) as w:
            a = w.candidate("a")
            await env.clock.sleep(1)
            w.candidate("b"), w.candidate("c")
            await env.clock.sleep(30 + env.random.uniform(0, 4))
            if how == "deleted":
                await w.client.delete(LEASES, LEASE)
            else:
                await w.edit(holderIdentity="")
            await env.clock.sleep(60)
            return (
                w.writers(),
                a.error,
                a.registry.get_sample_value("leader_election_slowpath_total", {"name": "operator"}),
            )

    assert simulate(scenario, seed=seed) == ({"a"}, None, 1)


@pytest.mark.parametrize("how", ["deleted", "emptied"])
def test_a_lease_that_loses_its_leader_and_its_record_at_once_is_taken_one_duration_later(how):
    async def scenario(env):
        async with world(env) as w:
            a = w.candidate("a")
            await env.clock.sleep(1)
            w.candidate("b")
            await env.clock.sleep(30)
            a.process.stop()
            edited = env.clock.monotonic()
            if how == "deleted":
                await w.client.delete(LEASES, LEASE)
            else:
                await w.edit(holderIdentity="")
            await env.clock.sleep(40)
            return w.first("write", "b") - edited

    assert 15 <= simulate(scenario) <= 15 + 2


def test_a_lease_that_is_given_to_another_by_hand_ends_the_leader_at_its_next_renewal_and_nobody_overlaps():
    async def scenario(env):
        async with world(env) as w:
            a = w.candidate("a")
            await env.clock.sleep(1)
            w.candidate("b")
            await env.clock.sleep(30)
            edited = env.clock.monotonic()
            await w.edit(holderIdentity="b")
            await env.clock.sleep(40)
            last = max(when for when, what, name in w.journal if (what, name) == ("write", "a"))
            return type(a.error), last - edited, w.first("write", "b") - edited

    kind, last, first = simulate(scenario)
    assert kind is LeadershipLost
    assert last <= 2.1
    assert first >= 15


def test_two_installs_under_one_name_share_one_leader_even_if_they_share_the_identity():
    async def scenario(env):
        async with world(env) as w:
            a = w.candidate("a", identity="one")
            await env.clock.sleep(1)
            w.candidate("b", identity="one")
            await env.clock.sleep(120)
            a.process.stop()
            paused = env.clock.monotonic()

            await env.clock.sleep(30)
            writers = w.writers(), w.writers(paused + 5)
            # Their names are not the identity that the Lease has, so the journal cannot tell them apart.
            w.journal.clear()
            return writers

    both, later = simulate(scenario)
    assert later == {"b"}
    assert both == {"a", "b"}


def test_wall_clocks_that_jump_by_a_day_while_leading_and_waiting_change_nothing():
    async def scenario(env):
        clocks = [VirtualClock(), VirtualClock()]
        async with world(env) as w:
            a = w.candidate("a", env=Env(clocks[0], env.random))
            await env.clock.sleep(1)
            w.candidate("b", env=Env(clocks[1], env.random))
            for skew_s in (86400, -86400, 0, 3e9, -9e8):
                for clock in clocks:
                    clock.skew_s = skew_s
                    await env.clock.sleep(20)
            return w.writers(), a.error

    assert simulate(scenario) == ({"a"}, None)


def test_a_machine_that_was_suspended_past_its_lease_wakes_without_the_right_to_write():
    """Its monotonic clock knows nothing of it: to that one the lease is as good as before."""

    async def scenario(env):
        clock = VirtualClock()
        async with world(env) as w:
            a = w.candidate("a", env=Env(clock, env.random))
            await env.clock.sleep(1)
            w.candidate("b")
            await env.clock.sleep(30)
            a.process.stop()
            await env.clock.sleep(60)
            clock.slept_s = 60
            led = a.election.is_leader
            a.process.resume()
            await env.clock.sleep(30)
            return led, type(a.error)

    assert simulate(scenario) == (False, LeadershipLost)


def test_who_comes_to_lead_and_who_leaves_is_told_on_the_lease():
    async def scenario(env):
        client = Client(ApiServer(env).transport(), env, field_manager="t")
        recorder = EventRecorder(client, env, component="t")
        election = LeaderElection(
            client, env, name="op", namespace="default", identity="me", recorder=recorder, labels={"app": "op"}
        )
        async with anyio.create_task_group() as tasks:
            await tasks.start(recorder.run)
            await election.acquire()
            async with election.leading():
                await env.clock.sleep(5)
            tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            events = (await client.list(untyped(EVENTS))).items
            lease = await client.get(LEASES, "op", "default")
        return [(one["reason"], one["note"], one["regarding"]["name"]) for one in events], lease.metadata.labels

    events, labels = simulate(scenario)
    assert sorted(events) == [
        ("LeaderElection", "me became leader", "op"),
        ("LeaderElection", "me stopped leading", "op"),
    ]
    assert labels == {"app": "op"}


def test_a_leader_that_works_on_long_after_its_lease_is_unhealthy():
    async def scenario(env):
        async with world(env) as w:
            a = w.candidate("a")
            await env.clock.sleep(10)
            well = a.election.check()
            a.process.stop()
            await env.clock.sleep(30)
            late = a.election.check()
            await env.clock.sleep(10)
            return well, late, a.election.check()

    well, late, dead = simulate(scenario)
    assert (well, late) == (None, None)
    assert "its work goes on" in dead


def test_outside_of_a_pod_the_namespace_of_the_lease_must_be_said(monkeypatch):
    monkeypatch.delenv("POD_NAMESPACE", raising=False)
    with pytest.raises(ValueError, match="where the Lease of the leader election lives"):
        LeaderElection(None, None, name="x", identity="x")
    monkeypatch.setenv("POD_NAMESPACE", "here")
    assert LeaderElection(None, Env(), name="x", identity="x")._key == Key("here", "x")


class Steps:
    """Counts how often tasks of an election wait, and cancels its owner at one of these times."""

    def __init__(self, at):
        self._at = at
        self.count = 0
        self.owner = None

    def factory(self, loop, coroutine, **options):
        return asyncio.Task(self._counted(coroutine), loop=loop, **options)

    async def _counted(self, coroutine):
        return await _Counted(coroutine, self)

    def step(self):
        self.count += 1
        if self.count == self._at and self.owner is not None:
            self.owner.cancel()


class _Counted:
    def __init__(self, coroutine, steps):
        self._coroutine = coroutine
        self._steps = steps

    def __await__(self):
        waiting = self._coroutine.__await__() if not asyncio.iscoroutine(self._coroutine) else self._coroutine
        send, value = waiting.send, None
        while True:
            try:
                found = send(value)
            except StopIteration as end:
                return end.value
            self._steps.step()
            try:
                value = yield found
                send = waiting.send
            except BaseException as error:  # noqa: BLE001 - thrown into what it belongs to
                send, value = waiting.throw, error


def cancelled_at(step):
    """Cancel an election at its nth wait, from a busy start to a release; say how it left things."""

    async def scenario(env):
        server, journal = ApiServer(env), []
        client = Client(server.transport(), env, field_manager="somebody")
        steps = Steps(step)

        async def live():
            await candidate.election.acquire()
            async with candidate.election.leading():
                await candidate._write()

        loop = asyncio.get_running_loop()
        loop.set_task_factory(steps.factory)
        candidate = Candidate("a", env, server, journal)
        # So there are waits between what is sent, what is done, and what is known.
        candidate.weather.on().delay(0.01, answer_s=0.01)
        steps.owner = asyncio.create_task(live())
        with suppress(asyncio.CancelledError):
            async with asyncio.timeout(30):
                await asyncio.wait({steps.owner}, timeout=5)
        loop.set_task_factory(None)
        was_cancelled = steps.owner.done()
        if not was_cancelled:
            steps.owner.cancel()
        with suppress(asyncio.CancelledError):
            await steps.owner
        with pytest.raises(LeadershipLost):
            candidate.election.guard()
        try:
            holder = (await client.get(LEASES, LEASE.name, LEASE.namespace)).spec.holder_identity
        except NotFound:
            holder = ""
        successor = LeaderElection(client, env, name=LEASE.name, namespace=LEASE.namespace, identity="b")
        began = env.clock.monotonic()
        await successor.acquire()
        return was_cancelled, holder, env.clock.monotonic() - began, steps.count

    return simulate(scenario)


def test_a_cancellation_at_any_wait_of_an_election_leaves_the_lease_to_the_next():
    step = 0
    while True:
        step += 1
        was_cancelled, holder, waited_s, _ = cancelled_at(step)
        assert holder == "", f"cancelled at step {step}, {holder} still holds the lease"
        assert waited_s < 1, f"cancelled at step {step}, the next one waited for {waited_s} s"
        if not was_cancelled:
            break
    assert step > 40
