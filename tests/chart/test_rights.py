"""
The chart's roles are sufficient and minimal: everything that the operator does is allowed, and nothing else is.

The operator runs as the chart deploys it, two replicas under their own service account, with every feature on. What the
API server's audit log has of that account is compared with the roles that Helm installed.
"""

import json
from contextlib import asynccontextmanager
from itertools import product

import aiohttp
import pytest
import yaml

from ktrain.api import assets
from ktrain.api.meta import Key
from ktrain.api.trainer import ANCESTOR_LABEL, IN_USE_FINALIZER
from ktrain.testing.envtest import Settings

from .deployed import SYSTEM, deployed
from .network import missing
from .programs import CHART, find
from .test_life import MANAGER, complete, holder, train_job

ACCOUNT = f"system:serviceaccount:{SYSTEM}:{MANAGER}"
AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "Panic"],
    "rules": [{"level": "Metadata", "users": [ACCOUNT]}, {"level": "None"}],
}
API_SERVER = [
    "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
    "--feature-gates=GenericWorkload=true,GangScheduling=true",
    "--runtime-config=scheduling.k8s.io/v1alpha2=true",
]
VALUES = {
    "manager": {
        "config": {
            "snapshots": "shared",
            "featureGates": {"TrainJobStatus": True},
            "metrics": {"secureServing": True, "authorize": True},
        }
    }
}
METRIC = {"type": "Resource", "resource": {"name": "cpu"}}
METRIC["resource"]["target"] = {"type": "Utilization", "averageUtilization": 80}
TORCH = {"mlPolicy": {"torch": {}}}
POLICIES = {
    "torch": TORCH,
    "elastic": {"mlPolicy": {"torch": {"elasticPolicy": {"minNodes": 1, "maxNodes": 4, "metrics": [METRIC]}}}},
    "mpi": {"mlPolicy": {"mpi": {}}},
    "flux": {"mlPolicy": {"flux": {}}},
    "coscheduling": {"podGroupPolicy": {"coscheduling": {}}},
    "volcano": {"podGroupPolicy": {"volcano": {}}},
    "workload": {"podGroupPolicy": {"workload": {}}},
}
NODES = "only exclusive placement that a pod missed, with the nodes of a topology"
RESIZED = "only for a gang whose size has changed, as that field of it is immutable"
OWNERS = "asked by the admission plugin OwnerReferencesPermissionEnforcement, which makes no request of it"
UNUSED = {
    ("", "configmaps", "delete"): "shared snapshots are collected ten minutes after their last TrainJob",
    ("", "pods", "delete"): NODES,
    ("", "pods/status", "patch"): NODES,
    ("autoscaling", "horizontalpodautoscalers", "get"): "only after a restart, for an elastic TrainJob that runs",
    ("batch", "jobs", "get"): "only for a Job that exists and that the cache does not show yet",
    ("batch", "jobs/status", "patch"): "only with the JobSet feature gate RestartJob",
    ("coordination.k8s.io", "leases", "create"): "the chart brings the Lease; it is made anew if it was deleted",
    ("events.k8s.io", "events", "patch"): "only for an event that is repeated for minutes",
    ("jobset.x-k8s.io", "jobsets/finalizers", "update"): OWNERS,
    ("scheduling.k8s.io", "podgroups", "delete"): RESIZED,
    ("scheduling.k8s.io", "workloads", "delete"): RESIZED,
    ("trainer.kubeflow.org", "trainjobs/finalizers", "update"): OWNERS,
}
"""Granted and not used here, each (group, resource, verb) with its reason."""
OWN, EVERYWHERE = "in the operator's namespace", "where TrainJobs are"


@pytest.fixture(autouse=True)
def programs():
    if not Settings.of().binaries or find("kubectl") is None or find("helm") is None:
        pytest.skip("needs kube-apiserver and kubectl in KUBEBUILDER_ASSETS, and helm in KTRAIN_TOOLS")
    if why := missing():
        pytest.skip(why)


def runtime(name, policy, *, kind="TrainingRuntime", job_set=None, mounts=(), volumes=(), account="default", **job):
    """A runtime with one container; `job_set` is more of its JobSet's spec."""
    resources = {"requests": {"cpu": "1"}}
    pod = {
        "restartPolicy": "Never",
        "serviceAccountName": account,
        "volumes": [*volumes],
        "containers": [{"name": "node", "image": "i"}],
    }
    pod["containers"][0] |= {"resources": resources, "volumeMounts": [*mounts]}
    template = {
        "metadata": {"labels": {ANCESTOR_LABEL: "trainer"}},
        "spec": {"backoffLimit": 0, "template": {"spec": pod}},
    }
    metadata = {"name": name, **({"namespace": "default"} if kind == "TrainingRuntime" else {})}
    spec = {"replicatedJobs": [{"name": "node", "template": template, **job}], **(job_set or {})}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": kind,
        "metadata": {**metadata, "finalizers": [IN_USE_FINALIZER]},
        "spec": {**policy, "template": {"spec": spec}},
    }


def job(name, **spec):
    found = train_job(name, name, trainer={"numNodes": 2}, **spec)
    found["spec"]["runtimeRef"]["kind"] = "TrainingRuntime"
    return found


async def each_policy(cluster):
    """A job of each policy is made, survives a change of the leader, is resumed, taken back and run to its end."""
    cluster.kubelet.finish = False
    await cluster.apply(*(runtime(name, policy) for name, policy in POLICIES.items()))
    await cluster.apply(*(job(name, suspend=True) for name in POLICIES))
    for name in POLICIES:
        await cluster.until(lambda name=name: cluster.found("jobsets", "--field-selector", f"metadata.name={name}"))
    await hand_over(cluster)
    for suspend in (False, True, False):
        for name in POLICIES:
            await change(cluster, name, {"suspend": suspend})
        for name in POLICIES:
            wanted = f"jsonpath={{.spec.suspend}}={str(suspend).lower()}"
            await cluster.kubectl("wait", f"--for={wanted}", "--timeout=60s", f"jobset/{name}")
    cluster.kubelet.finish = True
    await complete(cluster, *POLICIES)
    await cluster.kubectl("delete", "trainjobs", "--all")


async def change(cluster, name, spec):
    await cluster.kubectl("patch", "trainjob", name, "--type=merge", "-p", json.dumps({"spec": spec}))


async def failures(cluster, kind="ClusterTrainingRuntime"):
    """Jobs fail, restart, claim volumes, stand still, and go when they are over; `kind` is that of one runtime."""
    cluster.kubelet.finish = False
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claims = [{"templates": [{"metadata": {"name": "data"}, "spec": claim}]}]
    restarts = {"failurePolicy": {"maxRestarts": 1}, "volumeClaimPolicies": claims}
    # A token without an account: the API server takes the Job, and none of its pods.
    token = {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
    over = train_job("over", "over")
    over["spec"]["runtimeRef"]["kind"] = kind
    await cluster.apply(
        runtime("restarts", TORCH, job_set=restarts, mounts=[{"name": "data", "mountPath": "/data"}]),
        runtime("over", TORCH, kind=kind, job_set={"ttlSecondsAfterFinished": 0}),
        runtime("stalls", TORCH, account="", volumes=[token]),
        *(job("restarts"), job("stalls"), over),
    )
    failed = set()
    for _ in range(2):
        for pod in await cluster.until(lambda: running_pods(cluster, "restarts", failed)):
            failed.add(pod["metadata"]["uid"])
            key = Key("default", pod["metadata"]["name"])
            await cluster.kubelet.report(key, "Failed", pod["spec"], ready=False)
    await cluster.kubectl("wait", "--for=condition=Failed", "--timeout=60s", "trainjob/restarts")
    await cluster.kubectl("wait", "--for=jsonpath={.status.diagnosis.reason}=FailedCreate", "trainjob/stalls")
    cluster.kubelet.finish = True
    await complete(cluster, "over")
    await cluster.kubectl("wait", "--for=delete", "--timeout=60s", "jobset/over")


async def running_pods(cluster, job_set, but):
    """Return the pods of a JobSet that run, without these."""
    pods = await cluster.found("pods", "-l", f"jobset.sigs.k8s.io/jobset-name={job_set}")
    return [one for one in pods if one["status"].get("phase") == "Running" and one["metadata"]["uid"] not in but]


async def metrics_are_read(cluster):
    """A token is asked for, who may not read is refused, and who may reads."""
    may = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "reads-metrics"}}
    await cluster.apply({**may, "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]})
    await cluster.kubectl("create", "serviceaccount", "reader")
    token = (await cluster.kubectl("create", "token", "reader")).strip()
    url = f"https://{cluster.operators()[0].address}:8080/metrics"
    headers = {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession() as session:
        async with session.get(url, headers=headers, ssl=False) as answer:
            assert answer.status == 403
        binding = ("create", "clusterrolebinding", "reads-metrics", "--clusterrole=reads-metrics")
        await cluster.kubectl(*binding, "--serviceaccount=default:reader")

        async def status():
            async with session.get(url, headers=headers, ssl=False) as answer:
                return answer.status

        await cluster.until(status, lambda found: found == 200)


async def hand_over(cluster):
    """The replica that leads ends, and the other one takes over."""
    first = await holder(cluster)
    await cluster.kubectl("delete", "pod", first, "--namespace", SYSTEM, "--wait=false")

    async def second():
        now = await holder(cluster)
        return now if now not in (None, first) else None

    await cluster.until(second)
    await cluster.rolled_out(MANAGER)


def asked(cluster):
    """Return what the operator asked for, as (group, resource, verb, where), and what was refused."""
    used, refused = set(), []
    for event in cluster.audited():
        reference, answer = event.get("objectRef"), event.get("responseStatus", {})
        if answer.get("code") == 403 and "admission webhook" not in answer.get("message", ""):
            refused.append((event["verb"], event["requestURI"], answer.get("message", "")))
        if reference is None:
            continue
        kind = reference.get("apiGroup", ""), "/".join(filter(None, map(reference.get, ("resource", "subresource"))))
        where = OWN if reference.get("namespace") == SYSTEM else EVERYWHERE
        used.add((*kind, event["verb"], where))
        if event["verb"] == "patch" and answer.get("code") == 201:
            used.add((*kind, "create", where))  # an apply that creates is asked for this right, too
        if event["verb"] == "watch":
            used.add((*kind, "list", where))  # which takes the place of a streaming list on other API servers
    return used, refused


async def granted(cluster):
    """Return what the roles of the release allow, and their kinds."""
    roles = await cluster.found("clusterroles,roles", "--all-namespaces", "-l", "app.kubernetes.io/instance=ktrain")
    ours = [one for one in roles if one["metadata"]["name"].startswith(MANAGER)]
    allowed = {
        access
        for role in ours
        for where in [OWN if role["metadata"].get("namespace") == SYSTEM else EVERYWHERE]
        for rule in role["rules"]
        for access in product(rule["apiGroups"], rule["resources"], rule["verbs"], [where])
    }
    return allowed, {role["kind"] for role in ours}


@asynccontextmanager
async def installed(directory, values):
    """Install the chart on a cluster with the kinds of all gang schedulers."""
    groups = directory / "podgroups.yaml"
    groups.write_text(yaml.safe_dump_all(assets.pod_group_crds()))
    async with deployed(directory, groups, audit_policy=AUDIT, api_server=API_SERVER) as cluster:
        await cluster.helm("install", "ktrain", CHART, "--create-namespace", values=values)
        await cluster.rolled_out(MANAGER)
        yield cluster


def compare(allowed, used, unused=UNUSED):
    """Say which rights were not used, and which exceptions are none."""
    left = sorted(access for access in allowed - used if access[:3] not in unused)
    assert not left, "\n".join(map(str, left))
    stale = sorted(access for access in allowed & used if access[:3] in unused and access[3] == EVERYWHERE)
    assert stale == [], "they are used: take them off the list of exceptions"


async def test_nothing_is_refused_and_every_right_is_used(tmp_path):
    async with installed(tmp_path, VALUES) as cluster:
        await each_policy(cluster)
        await failures(cluster)
        await metrics_are_read(cluster)
        allowed, kinds = await granted(cluster)
        used, refused = asked(cluster)

    assert refused == []
    assert kinds == {"ClusterRole", "Role"}
    compare(allowed, used)
    assert sorted(UNUSED.keys() - {access[:3] for access in allowed}) == [], "they are not granted any more"


async def test_in_namespaced_mode_roles_are_enough_and_every_right_is_used(tmp_path):
    values = {
        "watchNamespaces": ["default"],
        "webhook": {"enabled": False},
        "manager": {"config": {"snapshots": "shared"}},
    }
    async with installed(tmp_path, values) as cluster:
        await each_policy(cluster)
        await failures(cluster, kind="TrainingRuntime")
        allowed, kinds = await granted(cluster)
        used, refused = asked(cluster)

    assert refused == []
    assert kinds == {"Role"}
    compare(allowed, used, UNUSED | {("", "persistentvolumeclaims", "get"): "only by the webhooks, which are off"})
