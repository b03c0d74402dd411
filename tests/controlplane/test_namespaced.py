"""
`ktrain operator` with `watchNamespaces` as a process, with Roles only: those of the declared rights, and no others.

The API server is a real one. Its audit log shows every request that it refused.
"""

import json

import pytest
import yaml
from aiohttp import ClientError, ClientSession

from ktrain.api.core import JOBS, LEASES, PODS, untyped
from ktrain.api.jobset import JOBSETS
from ktrain.api.meta import Key, is_condition_true
from ktrain.api.trainer import ANCESTOR_LABEL, CLUSTER_TRAINING_RUNTIMES, TRAIN_JOBS, TRAINING_RUNTIMES
from ktrain.cli import rights
from ktrain.cli.config_file import load
from ktrain.pipeline import Registry
from ktrain.testing.envtest import Settings
from ktrain.testing.planes import real_plane
from ktrain.testing.realserver import real_server

from ..waiting import until
from .processes import end, grant, install, operating

pytestmark = pytest.mark.e2e
USER = "ktrain-operator"
POLICY = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata", "users": [USER]}]}
CONTAINER = {"name": "node", "image": "i"}
STEP = {
    "metadata": {"labels": {ANCESTOR_LABEL: "trainer"}},
    "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}},
}
SPEC = {"template": {"spec": {"replicatedJobs": [{"name": "node", "template": STEP}]}}}


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    """A server, and where it writes down each request of the operator."""
    binaries = Settings.of().binaries
    if not binaries:
        pytest.skip("needs kube-apiserver in KUBEBUILDER_ASSETS")
    folder = tmp_path_factory.mktemp("audit")
    policy, log = folder / "policy.yaml", folder / "audit.log"
    policy.write_text(yaml.safe_dump(POLICY))
    arguments = [
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
        f"--audit-policy-file={policy}",
        f"--audit-log-path={log}",
    ]
    with real_server(binaries, install, arguments={"kube-apiserver": arguments}) as server:
        yield server, log


def role(name, wanted, scope):
    rules = [right.rule.document for right in wanted if right.scope == scope]
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name}, "rules": rules}


async def create(client, resource, kind, name, namespace, spec):
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    body = {"apiVersion": resource.api_version, "kind": kind, "metadata": metadata, "spec": spec}
    await client.create(untyped(resource), body)


async def submit(client, namespace, name, kind="TrainingRuntime"):
    spec = {"runtimeRef": {"name": "rt", "kind": kind}, "trainer": {"numNodes": 1}}
    await create(client, TRAIN_JOBS, "TrainJob", name, namespace, spec)


async def succeed(client, namespace):
    """Let all pods of a namespace end well, as kubelets would."""
    for pod in (await client.list(PODS, namespace)).items:
        await client.patch(PODS, pod.key, {"status": {"phase": "Succeeded"}}, subresource="status")


async def status_of(url):
    async with ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.text()


async def test_jobs_of_the_watched_namespaces_run_with_roles_only(audited, tmp_path, unused_tcp_port):
    cluster, audit = audited
    log, file = tmp_path / "operator.log", tmp_path / "config.yaml"
    async with real_plane(cluster) as home, real_plane(cluster) as one, real_plane(cluster) as two:
        client, watched = home.client(), [one.namespace, two.namespace]
        configured = {
            "apiVersion": "config.trainer.kubeflow.org/v1alpha1",
            "kind": "Configuration",
            "watchNamespaces": watched,
            "leaderElection": {"leaderElect": True},
            "snapshots": "shared",
            "jobset": {"enable": True},
        }
        file.write_text(yaml.safe_dump(configured))
        wanted = rights.needed(load(str(file)), Registry.load())
        await grant(client, USER, [role("ktrain-own", wanted, "own")], home.namespace)
        for namespace in watched:
            await grant(client, USER, [role("ktrain", wanted, "watched")], namespace)
        await create(client, CLUSTER_TRAINING_RUNTIMES, "ClusterTrainingRuntime", "rt", "", SPEC)
        for plane in (home, one, two):
            await create(client, TRAINING_RUNTIMES, "TrainingRuntime", "rt", plane.namespace, SPEC)
            await submit(client, plane.namespace, "job")
            await submit(client, plane.namespace, "cluster", "ClusterTrainingRuntime")

        health = ("--health-probe-bind-address", f"127.0.0.1:{unused_tcp_port}")
        async with operating(home, cluster.add_user(USER), "--config", file, *health, log=log) as process:
            for plane in (one, two):
                await plane.wait_for(JOBS, "job-node-0", lambda job: job is not None and job.status.active == 1)
                await succeed(client, plane.namespace)
                await plane.wait_for(
                    TRAIN_JOBS, "job", lambda job: is_condition_true(job.status.conditions, "Complete")
                )
                told = await plane.wait_for(TRAIN_JOBS, "cluster", lambda job: job.status.diagnosis is not None)
                assert told.status.diagnosis.message == (
                    "the operator watches single namespaces only (watchNamespaces) and may not read"
                    f' ClusterTrainingRuntimes: create "rt" as a TrainingRuntime in namespace {plane.namespace}, and'
                    " refer to that"
                )
            ready, text = await status_of(f"http://127.0.0.1:{unused_tcp_port}/readyz?verbose")
            assert ready == 200, text
            assert (await client.get(LEASES, "trainer.kubeflow.org", home.namespace)).spec.holder_identity
            assert (await client.list(JOBSETS, home.namespace)).items == []
            await end(process)
        await client.delete(CLUSTER_TRAINING_RUNTIMES, Key("", "rt"))

    requests = [json.loads(line) for line in audit.read_text().splitlines()]
    answered = [each for each in requests if each["stage"] == "ResponseComplete"]
    assert len(answered) > 20
    assert [each["requestURI"] for each in answered if each["responseStatus"]["code"] == 403] == []
    assert "forbidden" not in log.read_text().lower()
    assert '"event":"operator.namespaced"' in log.read_text().replace('": "', '":"')


async def test_a_namespace_that_it_may_not_read_is_named_and_stops_no_other(audited, tmp_path, unused_tcp_port):
    cluster, _ = audited
    log, file = tmp_path / "operator.log", tmp_path / "config.yaml"
    async with real_plane(cluster) as one, real_plane(cluster) as two:
        client = one.client()
        watched = [one.namespace, two.namespace]
        configured = {"apiVersion": "config.trainer.kubeflow.org/v1alpha1", "kind": "Configuration"}
        file.write_text(yaml.safe_dump({**configured, "watchNamespaces": watched}))
        wanted = rights.needed(load(str(file)), Registry.load())
        await grant(client, "ktrain-other", [role("ktrain", wanted, "watched")], one.namespace)
        health = ("--health-probe-bind-address", f"127.0.0.1:{unused_tcp_port}")
        kubeconfig = cluster.add_user("ktrain-other")
        async with operating(one, kubeconfig, "--config", file, *health, log=log) as process:
            forbidden = f"trainjobs.trainer.kubeflow.org in {', '.join(watched)}: namespace {two.namespace}: "
            status, _ = await until(
                lambda: status_of(f"http://127.0.0.1:{unused_tcp_port}/readyz?verbose"),
                lambda answer: forbidden in answer[1],
                despite=(ClientError,),
            )
            assert status == 200
            for plane in (one, two):
                await create(client, TRAINING_RUNTIMES, "TrainingRuntime", "rt", plane.namespace, SPEC)
                await submit(client, plane.namespace, "job")
            await one.wait_for(JOBSETS, "job", lambda found: found is not None)
            assert (await client.list(JOBSETS, two.namespace)).items == []
            await grant(client, "ktrain-other", [role("ktrain", wanted, "watched")], two.namespace)
            await two.wait_for(JOBSETS, "job", lambda found: found is not None)
            await end(process)
