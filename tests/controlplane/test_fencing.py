"""Leaders as processes, over sockets: stopped past their lease with writes on the way, continued, asked to end."""

import asyncio
import signal
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ktrain.api.core import CONFIG_MAPS, LEASES

from ..waiting import until
from .processes import program

pytestmark = pytest.mark.e2e
CANDIDATE = Path(__file__).with_name("candidate.py")
LEASE = "candidates"


@pytest.fixture
def candidate(control_plane, tmp_path):
    """`async with candidate("a") as process:` runs a replica; it is killed if it has not ended by itself."""

    @asynccontextmanager
    async def run(name, *options):
        arguments = [CANDIDATE, await control_plane.kubeconfig(), control_plane.namespace, name, *options]
        async with program(*arguments, log=tmp_path / f"{name}.log", stdout=asyncio.subprocess.PIPE) as process:
            yield process

    return run


@pytest.fixture
def held(control_plane):
    """Wait until one of these candidates holds the lease; the lease as it was first seen so."""

    async def wait(*names):
        return await control_plane.wait_for(
            LEASES, LEASE, lambda lease: lease is not None and lease.spec.holder_identity in names
        )

    return wait


@pytest.fixture
def writes(control_plane):
    """The resource versions of all writes of a candidate so far."""

    async def find(name):
        client = control_plane.client()
        found = await client.list(CONFIG_MAPS, control_plane.namespace, label_selector=f"by={name}")
        return [int(one.metadata.resource_version) for one in found.items]

    return find


async def written(find, name):
    """Wait for some writes of a candidate."""
    await until(lambda: find(name), lambda versions: len(versions) >= 20, within_s=30)


async def test_a_leader_that_is_stopped_past_its_lease_writes_nothing_after_another_holds_it(candidate, held, writes):
    async with candidate("a") as a:
        await held("a")
        async with candidate("b") as b:
            await written(writes, "a")
            a.send_signal(signal.SIGSTOP)
            taken = await held("b")
            await written(writes, "b")
            a.send_signal(signal.SIGCONT)
            assert await asyncio.wait_for(a.wait(), 20) != 0
            await written(writes, "b")
            b.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(b.wait(), 20) == 0

    assert taken.spec.lease_transitions == 1
    assert max(await writes("a")) < int(taken.metadata.resource_version) < min(await writes("b"))


async def test_two_former_leaders_that_wake_together_write_nothing_beside_the_third(candidate, held, writes):
    async with candidate("a") as a, candidate("b") as b, candidate("c") as c:
        processes = {"a": a, "b": b, "c": c}
        taken = {}
        for _ in range(2):
            lease = await held(*(processes.keys() - taken.keys()))
            name = lease.spec.holder_identity
            taken[name] = lease
            await written(writes, name)
            processes[name].send_signal(signal.SIGSTOP)
        lease = await held(*(processes.keys() - taken.keys()))
        taken[lease.spec.holder_identity] = lease
        first, second, third = taken
        await written(writes, third)
        for name in (first, second):
            processes[name].send_signal(signal.SIGCONT)
        for name in (first, second):
            assert await asyncio.wait_for(processes[name].wait(), 20) != 0
        await written(writes, third)

    since = {name: int(lease.metadata.resource_version) for name, lease in taken.items()}
    assert since[first] < min(await writes(first)) < max(await writes(first)) < since[second]
    assert since[second] < min(await writes(second)) < max(await writes(second)) < since[third]
    assert since[third] < min(await writes(third))


async def test_sigterm_in_the_middle_of_a_pass_lets_it_write_gives_the_lease_up_and_exits_with_0(
    control_plane, candidate, held, config_map
):
    client = control_plane.client()
    async with candidate("a", "2") as a:
        await client.create(CONFIG_MAPS, config_map("slow"))
        assert await asyncio.wait_for(a.stdout.readline(), 20) == b"begun\n"
        a.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(a.wait(), 20) == 0
    assert (await client.get(CONFIG_MAPS, "slow-done", control_plane.namespace)).metadata.name == "slow-done"
    assert (await client.get(LEASES, LEASE, control_plane.namespace)).spec.holder_identity == ""


async def test_a_second_sigterm_does_not_wait_and_exits_with_1(control_plane, candidate, config_map, tmp_path):
    async with candidate("a", "60") as a:
        await control_plane.client().create(CONFIG_MAPS, config_map("slow"))
        assert await asyncio.wait_for(a.stdout.readline(), 20) == b"begun\n"
        a.send_signal(signal.SIGTERM)
        await until((tmp_path / "a.log").read_text, lambda log: "operator.stopping" in log)
        a.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(a.wait(), 5) == 1
