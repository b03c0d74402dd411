"""`ktrain operator` as a process: over HTTP and TLS, with a kubeconfig, elected."""

import asyncio
import os
import re
import signal
import sys
from contextlib import asynccontextmanager

import pytest

from ktrain.api.core import LEASES
from ktrain.api.jobset import JOBSETS

pytestmark = pytest.mark.e2e
LEASE = "trainer.kubeflow.org"


@pytest.fixture
def operator(control_plane, tmp_path):
    """`async with operator() as process:` runs a replica; it is killed if it has not ended by itself."""

    @asynccontextmanager
    async def run(**environment):
        options = ["--kubeconfig", await control_plane.kubeconfig(), "--leader-elect"]
        options += ["--metrics-bind-address", "0", "--health-probe-bind-address", "0"]
        with (tmp_path / "operator.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "ktrain", "operator"),
                *options,
                env={**os.environ, "POD_NAMESPACE": control_plane.namespace, **environment},
                stderr=log,
            )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    return run


async def test_a_replica_works_until_sigterm_and_then_the_other_one_does(control_plane, operator, create_train_job):
    async with operator() as first:
        held = await control_plane.wait_for(LEASES, LEASE, lambda lease: lease is not None)
        async with operator() as second:
            await create_train_job("one")
            await control_plane.wait_for(JOBSETS, "one", lambda found: found is not None)

            first.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(first.wait(), 20) == 0
            others = {"", held.spec.holder_identity}
            await control_plane.wait_for(LEASES, LEASE, lambda lease: lease.spec.holder_identity not in others)
            await create_train_job("two")
            await control_plane.wait_for(JOBSETS, "two", lambda found: found is not None)

            second.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(second.wait(), 20) == 0
            await control_plane.wait_for(LEASES, LEASE, lambda lease: lease.spec.holder_identity == "")


async def test_passes_and_calls_are_traced_where_the_environment_asks_for_it(
    control_plane, operator, create_train_job, tmp_path
):
    async with operator(OTEL_TRACES_EXPORTER="console") as process:
        await create_train_job("traced")
        await control_plane.wait_for(JOBSETS, "traced", lambda found: found is not None)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 20) == 0

    log = (tmp_path / "operator.log").read_text()
    assert '"name": "reconcile trainjob_controller"' in log
    assert '"name": "PATCH /apis/jobset.x-k8s.io/v1alpha2/namespaces/{namespace}/jobsets/{name}"' in log
    assert re.search(r'"ktrain.reason": "Train(Job|ingRuntime) \S+ (existed|added)"', log)
