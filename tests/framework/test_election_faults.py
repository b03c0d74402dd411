"""
Elections in bad weather: nobody writes while another may hold the lease, whatever happens to processes and calls.

Candidates can be stopped as SIGSTOP stops them; the server's side of the wire keeps the journal.
"""

import anyio
import pytest

from ktrain.api.core import EVENTS, LEASES, untyped
from ktrain.framework.client.client import Client
from ktrain.framework.election.election import LeaderElection
from ktrain.framework.env import Env
from ktrain.framework.errors import LeadershipLost
from ktrain.framework.events import EventRecorder
from ktrain.local.apiserver.server import ApiServer
from ktrain.testing.time import VirtualClock, simulate

from .electing import LEASE, world


@pytest.mark.parametrize("seed", range(4))
def test_after_a_crash_another_leads_within_the_lease_duration_and_one_retry(seed):
    async def scenario(env):
        async with world(env) as w:
            a = await w.led("b", for_s=30 + env.random.uniform(0, 4))
            a.process.stop()
            crashed = env.clock.monotonic()
            await env.clock.sleep(40)
            return w.first("write", "b") - crashed

    assert 12.9 < simulate(scenario, seed=seed) <= 15 + 2


@pytest.mark.parametrize("seed", range(4))
def test_an_end_in_order_hands_over_within_a_second(seed):
    async def scenario(env):
        async with world(env) as w:
            a = await w.led("b", "c", for_s=30 + env.random.uniform(0, 4))
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
            a = await w.led("b", "c", for_s=30 + env.random.uniform(0, 4))
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
