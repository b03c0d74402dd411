"""
`ktrain operator` as a process, with the rights of config/trainer/rbac.yaml and no others.

The API server is a real one that looks closely: owner references that block a deletion need rights of their own.
"""

from pathlib import Path

import pytest
import yaml

from ktrain.api.core import LEASES, untyped
from ktrain.api.jobset import JOBSETS
from ktrain.api.meta import Key
from ktrain.api.trainer import ANCESTOR_LABEL, TRAIN_JOBS, TRAINING_RUNTIMES
from ktrain.testing.envtest import Settings
from ktrain.testing.planes import real_plane
from ktrain.testing.realserver import real_server

from .processes import end, grant, install, operating, roles_of

pytestmark = pytest.mark.e2e
RIGHTS = Path(__file__).parents[2] / "config" / "trainer" / "rbac.yaml"
USER = "ktrain-operator"
SERVER = [
    "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
    "--feature-gates=GenericWorkload=true,GangScheduling=true",
    "--runtime-config=scheduling.k8s.io/v1alpha2=true",
]
ELASTIC = {"minNodes": 1, "maxNodes": 4, "metrics": [{"type": "Resource", "resource": {"name": "cpu"}}]}
ELASTIC["metrics"][0]["resource"]["target"] = {"type": "Utilization", "averageUtilization": 80}
POLICIES = {
    "torch": {"mlPolicy": {"torch": {}}},
    "elastic": {"mlPolicy": {"torch": {"elasticPolicy": ELASTIC}}},
    "mpi": {"mlPolicy": {"mpi": {}}},
    "flux": {"mlPolicy": {"flux": {}}},
    "coscheduling": {"podGroupPolicy": {"coscheduling": {}}},
    "volcano": {"podGroupPolicy": {"volcano": {}}},
    "workload": {"podGroupPolicy": {"workload": {}}},
}


@pytest.fixture(scope="module")
def cluster():
    binaries = Settings.of().binaries
    if not binaries:
        pytest.skip("needs kube-apiserver in KUBEBUILDER_ASSETS")
    with real_server(binaries, install, arguments={"kube-apiserver": SERVER}) as server:
        yield server


def configured(plane, port):
    """A file's content: elected, with shared snapshots and webhooks."""
    return {
        "apiVersion": "config.trainer.kubeflow.org/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": True, "resourceNamespace": plane.namespace},
        "snapshots": "shared",
        "webhook": {"enable": True, "host": "127.0.0.1", "port": port},
        # The Secret of Kubeflow Trainer, which the Role names.
        "certManagement": {"enable": True, "webhookSecretName": "kubeflow-trainer-webhook-cert"},
    }


async def submit(client, namespace, name, policy):
    resources = {"requests": {"cpu": "1"}}
    pod = {"restartPolicy": "Never", "containers": [{"name": "node", "image": "i", "resources": resources}]}
    template = {"metadata": {"labels": {ANCESTOR_LABEL: "trainer"}}, "spec": {"template": {"spec": pod}}}
    spec = {**policy, "template": {"spec": {"replicatedJobs": [{"name": "node", "template": template}]}}}
    where = {"metadata": {"name": name, "namespace": namespace}}
    runtime = {"apiVersion": TRAINING_RUNTIMES.api_version, "kind": "TrainingRuntime", **where, "spec": spec}
    await client.create(untyped(TRAINING_RUNTIMES), runtime)
    wanted = {"runtimeRef": {"kind": "TrainingRuntime", "name": name}, "trainer": {"numNodes": 2}, "suspend": True}
    await client.create(
        untyped(TRAIN_JOBS), {"apiVersion": TRAIN_JOBS.api_version, "kind": "TrainJob", **where, "spec": wanted}
    )


async def test_every_plugin_works_with_the_rights_that_we_ask_for(cluster, tmp_path, unused_tcp_port):
    log, file = tmp_path / "operator.log", tmp_path / "config.yaml"
    async with real_plane(cluster) as plane:
        client, namespace = plane.client(), plane.namespace
        await grant(client, USER, roles_of(RIGHTS), namespace)
        kubeconfig = cluster.add_user(USER)
        file.write_text(yaml.safe_dump(configured(plane, unused_tcp_port)))
        async with operating(plane, kubeconfig, "--config", file, log=log) as process:
            for name, policy in POLICIES.items():
                await submit(client, namespace, name, policy)
            for name in POLICIES:
                await plane.wait_for(JOBSETS, name, lambda found: found is not None)
                await client.patch(TRAIN_JOBS, Key(namespace, name), {"spec": {"suspend": False}})
                await plane.wait_for(JOBSETS, name, lambda found: not found.spec.suspend)
                # Also what is compared with what is there, and what goes when a job is suspended.
                await client.patch(TRAIN_JOBS, Key(namespace, name), {"spec": {"suspend": True}})
                await plane.wait_for(JOBSETS, name, lambda found: found.spec.suspend)
            assert (await client.get(LEASES, "trainer.kubeflow.org", namespace)).spec.holder_identity
            await end(process)
        async with operating(plane, kubeconfig, "--config", file, log=log) as process:
            for name in POLICIES:
                await client.patch(TRAIN_JOBS, Key(namespace, name), {"spec": {"suspend": False}})
                await plane.wait_for(JOBSETS, name, lambda found: not found.spec.suspend)
            await end(process)

    said = log.read_text()
    assert "forbidden" not in said.lower()
    assert "kind_left_out" not in said


def without_native_gangs(roles):
    """The roles without the rule for Workloads and PodGroups of Kubernetes."""
    for role in roles:
        role["rules"] = [rule for rule in role["rules"] if "workloads" not in rule["resources"]]
    return roles


async def test_with_the_gate_of_native_gangs_off_no_right_to_them_is_needed(cluster, tmp_path):
    log = tmp_path / "operator.log"
    async with real_plane(cluster) as plane:
        client, namespace = plane.client(), plane.namespace
        await grant(client, USER, without_native_gangs(roles_of(RIGHTS)), namespace)
        kubeconfig = cluster.add_user(USER)
        gates = ("--feature-gates", "GenericWorkload=false")
        async with operating(plane, kubeconfig, *gates, log=log) as process:
            for name in ("torch", "workload"):
                await submit(client, namespace, name, POLICIES[name])
            await plane.wait_for(JOBSETS, "torch", lambda found: found is not None)
            refused = await plane.wait_for(TRAIN_JOBS, "workload", lambda found: found.status.diagnosis is not None)
            assert "feature gate GenericWorkload, which is off" in refused.status.diagnosis.message
            await end(process)

    said = log.read_text()
    assert "workloads.scheduling.k8s.io" not in said
    assert "podgroups.scheduling.k8s.io" not in said
