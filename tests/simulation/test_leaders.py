"""Faults F17 and F20: more than one process, processes that stand still, clocks that are wrong."""

import pytest

from ktrain.api.core import CONFIG_MAPS, LEASES
from ktrain.api.meta import Key
from ktrain.framework import Client, LeaderElection

from .widgets import WIDGETS, Operator, converged, create, say

NAMES = [f"w{number}" for number in range(10)]


class Candidate:
    """A replica with an election; notes nothing itself: the server's log has who wrote."""

    def __init__(self, name):
        self.name = name
        self.operator = Operator(workers=4)

    async def main(self, transport, env):
        election_client = Client(transport, env, field_manager=f"election-{self.name}")
        election = LeaderElection(
            election_client, env, name="widgets", namespace="default", identity=f"{self.name}-{env.random.random()}"
        )
        manager = self.operator.manager(transport, env, guard=election.guard, leader_election=election)
        await manager.run()


def holder(world):
    """The candidate that has the lease."""
    for lease in world.objects(LEASES):
        return lease["spec"].get("holderIdentity", "").partition("-")[0]
    return ""


@pytest.fixture
def replicas():
    """Start candidates, and note for each write who made it and who had the lease at that time."""

    async def start(world, *names, **options):
        writes = []

        def by(name):
            candidate = Candidate(name)

            async def main(transport, env):
                await candidate.main(_Noting(transport, world, name, writes), env)

            return world.start(main, name, **options)

        processes = {name: by(name) for name in names}
        await world.until(lambda: holder(world) != "")
        return processes, writes

    return start


class _Noting:
    """A transport that notes writes that are no lease's at the moment they reach the server."""

    def __init__(self, inner, world, name, writes):
        self._inner = inner
        self._world = world
        self._name = name
        self._writes = writes
        self.stream = inner.stream
        self.aclose = inner.aclose

    async def request(self, method, path, **options):
        if method != "GET" and "/leases" not in path:
            self._writes.append((self._name, holder(self._world), self._world.env.clock.monotonic()))
        return await self._inner.request(method, path, **options)


@pytest.mark.parametrize("candidates", [2, 3])
@pytest.mark.parametrize("stopped_s", [5, 12, 16, 20, 60])
@pytest.mark.parametrize("seed", range(2))
def test_a_leader_that_stood_still_past_its_lease_writes_nothing_more(in_world, replicas, candidates, stopped_s, seed):
    async def scenario(world):
        processes, writes = await replicas(world, *"abc"[:candidates])
        await create(world, *NAMES)
        await world.settled(quiet_s=1)
        for turn in range(4):
            old = holder(world)
            for name in NAMES:
                await say(world, name, f"hello {turn}")
            # In the middle of its work, with calls under way.
            await world.env.clock.sleep(world.env.random.uniform(0, 0.01))
            processes[old].stop()
            await world.env.clock.sleep(stopped_s)
            if stopped_s >= 20:
                await world.until(lambda old=old: holder(world) not in ("", old), timeout_s=30)
            processes[old].resume()
            await world.until(lambda: converged(world), timeout_s=60)
            await world.env.clock.sleep(5)
        return [write for write in writes if write[0] != write[1]], len(writes)

    foreign, total = in_world(scenario, seed=seed)
    assert foreign == []
    assert total >= 10 + 10 * 4


def test_a_leader_that_is_told_to_end_hands_over_within_a_second(in_world, replicas):
    async def scenario(world):
        processes, writes = await replicas(world, "a", "b")
        await create(world, *NAMES)
        await world.settled(quiet_s=3)
        first = holder(world)
        processes[first].restart_s = None
        processes[first].terminate()
        said_s = world.env.clock.monotonic()
        await say(world, "w0", "hello again")
        await world.until(lambda: converged(world), timeout_s=30)
        writer, _, at_s = writes[-1]
        return writer != first, at_s - said_s

    handed_over, seconds = in_world(scenario)
    assert handed_over
    assert seconds <= 1


def test_after_a_crash_another_leads_after_the_lease_and_one_retry(in_world, replicas):
    async def scenario(world):
        processes, _ = await replicas(world, "a", "b", restart_s=None)
        await create(world, *NAMES)
        await world.settled(quiet_s=3)
        first = holder(world)
        processes[first].kill()
        return await world.until(lambda: holder(world) not in ("", first), timeout_s=60)

    assert in_world(scenario) <= 15 + 2.2 * 2


@pytest.mark.parametrize("skews_s", [(-300, 300), (86400, 0), (0, -86400)])
def test_wall_clocks_that_are_wrong_or_jump_do_no_harm(in_world, replicas, skews_s):
    async def scenario(world):
        processes, writes = await replicas(world, "a", "b")
        for turn, skew_s in enumerate((*skews_s, 0, *reversed(skews_s))):
            for number, process in enumerate(processes.values()):
                process.clock.skew_s = skew_s * (1 if number else -1)
            leader = holder(world)
            await create(world, f"w{turn}")
            await world.until(lambda: converged(world), timeout_s=60)
            await world.env.clock.sleep(60)
            assert holder(world) == leader
        return [write for write in writes if write[0] != write[1]], len(list(world.objects(CONFIG_MAPS)))

    assert in_world(scenario) == ([], 5)


def test_a_lease_that_was_deleted_or_given_to_a_stranger_is_won_again(in_world, replicas):
    async def scenario(world):
        _, writes = await replicas(world, "a", "b")
        patch = {"spec": {"holderIdentity": "stranger", "leaseDurationSeconds": 15}}
        lease = next(world.objects(LEASES))["metadata"]
        key = Key(lease["namespace"], lease["name"])
        await world.client.patch(LEASES, key, patch)
        # Nobody is told; the leader finds out when it renews.
        await world.env.clock.sleep(3)
        await create(world, "a")
        await world.until(lambda: converged(world), timeout_s=60)
        await world.client.delete(LEASES, key)
        await world.env.clock.sleep(3)
        await create(world, "b")
        await world.until(lambda: converged(world), timeout_s=60)
        return [write for write in writes if write[0] != write[1]]

    assert in_world(scenario) == []


def test_nobody_but_the_holder_writes_while_calls_of_the_election_get_lost(in_world, replicas):
    async def scenario(world):
        _, writes = await replicas(world, "a", "b", "c")
        world.faults.on("write", LEASES, probability=0.5).lose_answer()
        world.faults.on(resource=LEASES, probability=0.2).answer(500)
        for turn in range(10):
            await create(world, f"w{turn}")
            await world.env.clock.sleep(30)
        world.faults.clear()
        await world.until(lambda: converged(world), timeout_s=90)
        return [write for write in writes if write[0] != write[1]], len(list(world.objects(WIDGETS)))

    assert in_world(scenario) == ([], 10)
