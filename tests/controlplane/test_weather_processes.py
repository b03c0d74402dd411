"""`ktrain operator` as processes in bad weather: who may write, who takes over, and what it costs to do nothing."""

import asyncio
import os
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from ktrain.api.core import CONFIG_MAPS, LEASES, SECRETS
from ktrain.api.jobset import JOBSETS
from ktrain.testing.proxy import FaultProxy, fault_proxy

from ..waiting import until
from .processes import end, operating

pytestmark = pytest.mark.e2e
LEASE = "trainer.kubeflow.org"
# On a busy machine a write may be under way for a while: the lease outlasts the right to send one by that.
LEASE_S, RENEW_S, RETRY_S = 5, 2.5, 0.5


class Replica(NamedTuple):
    """An operator, and the proxy through which it alone reaches the API server."""

    process: asyncio.subprocess.Process
    proxy: FaultProxy


@pytest.fixture
async def replicas(control_plane, tmp_path):
    """`leader, standby = await replicas(2)` starts operators; returns when one leads and all know what there is."""
    election = {"leaderElect": True, "resourceNamespace": control_plane.namespace}
    election |= {"leaseDuration": f"{LEASE_S}s", "renewDeadline": f"{RENEW_S}s", "retryPeriod": f"{RETRY_S}s"}
    kind = {"apiVersion": "config.trainer.kubeflow.org/v1alpha1", "kind": "Configuration"}
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump({**kind, "leaderElection": election}))
    async with AsyncExitStack() as stack:

        async def start():
            proxy = await stack.enter_async_context(fault_proxy(await control_plane.kubeconfig()))
            running = operating(control_plane, proxy.kubeconfig, "--config", config, log=tmp_path / "operator.log")
            process = await stack.enter_async_context(running)
            # Whoever follows the lease is a candidate, and has read what it needs.
            await until(
                lambda: proxy.calls("watch", LEASES) and proxy.calls("watch", JOBSETS), within_s=60, every_s=0.02
            )
            return Replica(process, proxy)

        async def run(number):
            found = await asyncio.gather(*(start() for _ in range(number)))
            await until(lambda: any(map(leads, found)), within_s=60, every_s=0.02)
            return sorted(found, key=leads, reverse=True)

        yield run


def leads(replica):
    return bool(replica.proxy.calls("write", LEASES, where=lambda call: call.status in (200, 201)))


async def holder(weather, *others):
    """Wait until somebody else has the lease; returns who."""
    lease = await weather.plane.wait_for(
        LEASES, LEASE, lambda lease: lease is not None and lease.spec.holder_identity not in ("", *others)
    )
    return lease.spec.holder_identity


def writes(weather, proxy, *, since_s=0.0):
    return proxy.calls("write", since_s=since_s, where=weather.is_ours)


async def test_a_leader_that_wakes_after_its_lease_with_work_queued_writes_nothing(weather, replicas):
    names = [f"job-{number}" for number in range(60)]
    (old, old_proxy), (_, new_proxy) = await replicas(2)
    first = await holder(weather)
    old_proxy.on("write", where=weather.is_ours).delay(0.4)
    await weather.create(*names)
    await until(lambda: len(writes(weather, old_proxy)) > 20, within_s=60, every_s=0.02)
    old.send_signal(signal.SIGSTOP)
    stopped_s = weather.now()
    await holder(weather, first)
    taken_s = weather.now()
    await weather.until_job_sets(*names)
    old.send_signal(signal.SIGCONT)
    await asyncio.wait_for(old.wait(), 20)

    assert old.returncode != 0
    assert list(map(str, writes(weather, old_proxy, since_s=taken_s))) == []
    assert writes(weather, new_proxy)[0].at_s > stopped_s + LEASE_S - RETRY_S - 1
    assert taken_s - stopped_s < LEASE_S + 3


async def test_a_leader_that_is_asked_to_end_hands_over_within_a_second_and_idle_replicas_ask_for_nothing(
    weather, replicas
):
    (leader, _), (_, proxy) = await replicas(2)
    first = await holder(weather)
    begun_s = weather.now()
    await weather.create("before")
    await weather.until_job_sets("before")
    usual_s = weather.now() - begun_s
    leader.send_signal(signal.SIGTERM)
    said_s = weather.now()
    await weather.create("after")
    await holder(weather, first)
    await until(lambda: proxy.calls("apply", JOBSETS, name="after"), within_s=60, every_s=0.02)
    first_s = proxy.calls("apply", JOBSETS, name="after")[0].at_s
    assert await asyncio.wait_for(leader.wait(), 20) == 0
    await weather.until_job_sets("after")
    await asyncio.sleep(1)  # what the last job leads to comes at once, and nothing tells from outside that it was all
    idle_s = weather.now()
    await asyncio.sleep(2)  # four renewals of the lease, to see that nothing else is asked

    assert first_s - said_s < 1 + usual_s
    # On a real server, namespaces of tests before may still be ending, with TrainJobs that can get no JobSet.
    here = ("", weather.plane.namespace)
    idle = [call for call in proxy.calls(since_s=idle_s) if call.route is None or call.route.namespace in here]
    assert [str(call) for call in idle if not call.concerns(LEASES)] == []


async def test_thirty_megabytes_of_other_peoples_objects_cost_less_than_five(weather, replicas, config_map):
    ((process, _),) = await replicas(1)
    await weather.create("before")
    await weather.until_job_sets("before")
    alone = resident_bytes(process)
    for number in range(100):
        body = config_map(f"foreign-{number}", {"data": "x" * 150_000})
        await weather.client.create(CONFIG_MAPS, body)
        await weather.client.create(SECRETS, {**body, "kind": "Secret", "data": {"data": "eHh4" * 37_500}})
    await weather.create("after")
    await weather.until_job_sets("after")
    beside = resident_bytes(process)
    await end(process)
    ((later, _),) = await replicas(1)

    assert beside - alone < 5e6
    assert resident_bytes(later) - alone < 5e6


def resident_bytes(process):
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
