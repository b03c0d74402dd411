"""`ktrain operator` as a process: over HTTP and TLS, with a kubeconfig, elected."""

import socket
import ssl
from contextlib import asynccontextmanager

import aiohttp
import pytest
import trustme
import yaml

from ktrain.api.core import LEASES
from ktrain.api.jobset import JOBSETS

from ..waiting import until
from .processes import end, operating

pytestmark = pytest.mark.e2e
LEASE = "trainer.kubeflow.org"


@pytest.fixture
def operator(control_plane, tmp_path):
    """`async with operator() as process:` runs a replica; it is killed if it has not ended by itself."""

    @asynccontextmanager
    async def run(*options, **environment):
        kubeconfig, log = await control_plane.kubeconfig(), tmp_path / "operator.log"
        async with operating(control_plane, kubeconfig, "--leader-elect", *options, log=log, **environment) as process:
            yield process

    return run


async def test_a_replica_works_until_sigterm_and_then_the_other_one_does(control_plane, operator, create_train_job):
    async with operator() as first:
        held = await control_plane.wait_for(LEASES, LEASE, lambda lease: lease is not None)
        async with operator() as second:
            await create_train_job("one")
            await control_plane.wait_for(JOBSETS, "one", lambda found: found is not None)

            await end(first)
            others = {"", held.spec.holder_identity}
            await control_plane.wait_for(LEASES, LEASE, lambda lease: lease.spec.holder_identity not in others)
            await create_train_job("two")
            await control_plane.wait_for(JOBSETS, "two", lambda found: found is not None)

            await end(second)
            await control_plane.wait_for(LEASES, LEASE, lambda lease: lease.spec.holder_identity == "")


async def test_metrics_are_for_those_with_the_right_and_their_certificate_may_change(control_plane, operator, tmp_path):
    certificates = tmp_path / "certs"
    certificates.mkdir()

    def issue():
        authority = trustme.CA()
        pair = authority.issue_cert("127.0.0.1")
        pair.private_key_pem.write_to_path(certificates / "tls.key")
        pair.cert_chain_pems[0].write_to_path(certificates / "tls.crt")
        authority.cert_pem.write_to_path(tmp_path / "ca.crt")

    issue()
    config = tmp_path / "config.yaml"
    config.write_text(f"metrics: {{secureServing: true, certDir: {certificates}, authorize: true}}")
    user = yaml.safe_load((await control_plane.kubeconfig()).read_text())["users"][0]["user"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    async def ask(token):
        """Return the status, and whether there were metrics; nothing while nobody serves who can be trusted."""
        trusting = ssl.create_default_context(cafile=tmp_path / "ca.crt")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"https://127.0.0.1:{port}/metrics", ssl=trusting, headers=headers) as answer,
            ):
                return answer.status, b"controller_runtime" in await answer.read()
        except aiohttp.ClientError:
            return None

    async with operator("--config", config, "--metrics-bind-address", f"127.0.0.1:{port}"):
        nobody = await until(lambda: ask(""), within_s=60)
        stranger, reader = await ask("made-up"), await ask(user["token"])
        issue()
        later = await until(lambda: ask(user["token"]), within_s=60)

    assert [nobody[0], stranger[0], reader, later] == [401, 401, (200, True), (200, True)]
