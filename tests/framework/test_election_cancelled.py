"""An election that is cancelled at each of its waits, and one outside of a pod."""

import asyncio
from contextlib import suppress

import pytest

from ktrain.api.core import LEASES
from ktrain.api.meta import Key
from ktrain.framework.client.client import Client
from ktrain.framework.election import lease
from ktrain.framework.election.election import LeaderElection
from ktrain.framework.env import Env
from ktrain.framework.errors import LeadershipLost, NotFound
from ktrain.local.apiserver.server import ApiServer
from ktrain.testing.time import simulate

from .electing import LEASE, Candidate


def test_outside_of_a_pod_the_namespace_of_the_lease_must_be_said(monkeypatch, tmp_path):
    monkeypatch.delenv("POD_NAMESPACE", raising=False)
    monkeypatch.setattr(lease, "NAMESPACE_FILE", tmp_path / "none")  # pods of this machine may have left one
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
