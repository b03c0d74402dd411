"""
TrainJobs of several kinds in one namespace, and what happens to them: users, Kueue and a kubelet, which are the test.

The kubelet only knows what shall become of the pods of a job: `scene.pods["job"] = "running"`, `"succeeded"`,
`"failed"`, or nothing as long as it is not said.
"""

import asyncio
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime

from ktrain.api.core import CONFIG_MAPS, JOBS, PODS, SECRETS, SERVICES, untyped
from ktrain.api.jobset import JOBSETS
from ktrain.api.meta import Key
from ktrain.api.trainer import ANCESTOR_LABEL, API_VERSION, TRAIN_JOBS, TRAINING_RUNTIMES
from ktrain.framework.client.client import PatchType
from ktrain.framework.errors import ApiError, Conflict, NotFound
from ktrain.framework.webhook.injection import MUTATING_WEBHOOK_CONFIGURATIONS, VALIDATING_WEBHOOK_CONFIGURATIONS
from ktrain.plugins.coscheduling import POD_GROUPS

from ..waiting import anything, until

PATIENCE_S = 90
KUEUE = "kueue.x-k8s.io/manager"
KINDS = [untyped(kind) for kind in (TRAIN_JOBS, JOBSETS, JOBS, CONFIG_MAPS, SECRETS, SERVICES, POD_GROUPS, PODS)]


def job(name, step="", **more):
    """Build a replicated job of a runtime."""
    container = {"name": step if "initializer" in step else "node", "image": "example.com/none"}
    if "initializer" in step:
        container["volumeMounts"] = [{"name": "initializer", "mountPath": "/workspace"}]
    volumes = [{"name": "initializer", "emptyDir": {}}] if "initializer" in step else []
    pod = {"restartPolicy": "Never", "containers": [container], "volumes": volumes}
    spec = {"backoffLimit": 0, "template": {"spec": pod}}
    return {
        "name": name,
        **more,
        "template": {"metadata": {"labels": {ANCESTOR_LABEL: step} if step else {}}, "spec": spec},
    }


def runtimes():
    """Return the specs of runtimes, by name."""
    node, data = job("node", "trainer"), job("dataset-initializer", "dataset-initializer")
    after = [{"name": "dataset-initializer", "status": "Complete"}]
    mpi = {"mpiImplementation": "OpenMPI", "numProcPerNode": 1}
    return {
        "plain": runtime({"numNodes": 1}, node),
        "torch": runtime({"numNodes": 2, "torch": {}}, node, failurePolicy={"maxRestarts": 1}),
        "once": runtime({"numNodes": 1, "torch": {}}, node),
        "mpi": runtime({"numNodes": 1, "mpi": mpi}, job("node"), job("launcher", "trainer")),
        "gang": runtime({"numNodes": 2}, node) | {"podGroupPolicy": {"coscheduling": {}}},
        "steps": runtime({"numNodes": 1, "torch": {}}, data, job("node", "trainer", dependsOn=after)),
        "short": runtime({"numNodes": 1}, node, ttlSecondsAfterFinished=0),
    }


def runtime(policy, *jobs, **more):
    return {"mlPolicy": policy, "template": {"spec": {"replicatedJobs": list(jobs), **more}}}


def patched(**pod):
    """Build the patch that Kueue makes when it admits a job of one replicated job."""
    entry = {"name": "node", "template": {"spec": {"template": pod}}} if pod else None
    return [
        {"manager": KUEUE, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [entry]} if entry else {}}}}
    ]


class Scene:
    """A namespace of the stack."""

    def __init__(self, stack, namespace="team"):
        self.stack = stack
        self.client = stack.client
        self.namespace = namespace
        self.pods = {}

    # What users do

    async def prepare(self, more=()):
        """Create runtimes: specs by name, and `more` of them. Kubeflow's webhooks ask a cache whether there is one."""
        head = {"apiVersion": API_VERSION, "kind": "TrainingRuntime"}
        for name, spec in (runtimes() | dict(more)).items():
            await self.client.create(untyped(TRAINING_RUNTIMES), head | {"metadata": self._named(name), "spec": spec})
        await asyncio.sleep(1)

    async def create(self, name, runtime="torch", *, metadata=None, kind="TrainingRuntime", **spec):
        reference = {"runtimeRef": {"name": runtime, "kind": kind}}
        head = {"apiVersion": API_VERSION, "kind": "TrainJob", "metadata": self._named(name) | (metadata or {})}
        return await self.client.create(untyped(TRAIN_JOBS), head | {"spec": reference | spec})

    async def create_unseen(self, name, runtime):
        """Create a job while nobody serves the webhooks, as a chart with `webhook.failurePolicy: Ignore` lets one."""
        callers = [(MUTATING_WEBHOOK_CONFIGURATIONS, "defaulter"), (VALIDATING_WEBHOOK_CONFIGURATIONS, "validator")]
        for kind, which in callers:
            await self._on_failure(kind, f"{which}.trainer.kubeflow.org", "Ignore")
        # API servers read configurations from caches.
        await until(lambda: self.create(name, runtime), anything, despite=ApiError, within_s=PATIENCE_S)
        for kind, which in callers:
            await self._on_failure(kind, f"{which}.trainer.kubeflow.org", "Fail")

    async def _on_failure(self, kind, name, policy):
        webhooks = (await self.client.get(kind, name))["webhooks"]
        changes = [
            {"op": "replace", "path": f"/webhooks/{n}/failurePolicy", "value": policy} for n in range(len(webhooks))
        ]
        await self.client.patch(kind, Key("", name), changes, type=PatchType.JSON)

    async def change(self, name, resource=TRAIN_JOBS, **fields):
        return await self.client.patch(untyped(resource), self.key(name), fields)

    async def suspend(self, *names, suspend=True):
        for name in names:
            await self.change(name, spec={"suspend": suspend})

    async def delete(self, name, resource=TRAIN_JOBS, propagation="Background"):
        await self.client.delete(resource, self.key(name), propagation=propagation)

    # What there is

    def key(self, name):
        return Key(self.namespace, name)

    async def get(self, name, resource=TRAIN_JOBS):
        """Return an object; None if there is none."""
        with suppress(NotFound):
            return await self.client.get(untyped(resource), name, self.namespace)

    async def until(self, name, condition, resource=TRAIN_JOBS):
        """Wait until an object, or None, is as wanted."""
        return await until(lambda: self.get(name, resource), condition, within_s=PATIENCE_S, every_s=0.2)

    async def until_conditions(self, name, **wanted):
        """Wait until a TrainJob has exactly these conditions, by their reasons."""
        return await self.until(name, lambda found: conditions(found) == wanted)

    async def until_counted(self, name, **wanted):
        """Wait until the counters of all of a job's steps add up to these; those that are not named are 0."""
        names = ("active", "ready", "succeeded", "failed", "suspended")

        def counted(found):
            steps = found.get("status", {}).get("jobsStatus") or []
            sums = {name: sum(step[name] for step in steps) for name in names}
            return steps and sums == dict.fromkeys(names, 0) | wanted

        return await self.until(name, counted)

    async def job_set(self, name):
        return await self.get(name, JOBSETS)

    async def snapshot(self, kinds=KINDS):
        """Return all that is stored, as it is stored, by kind and name; but for what the cluster puts there itself."""
        found = {}
        for kind in kinds:
            for one in (await self.client.list(kind, namespace=self.namespace)).items:
                found[kind.kind, one["metadata"]["name"]] = one
        return {key: one for key, one in found.items() if key != ("ConfigMap", "kube-root-ca.crt")}

    async def quiet(self, seconds=3.0):
        """Wait until nothing has changed for so long."""
        before = None
        async with asyncio.timeout(PATIENCE_S):
            while before != (before := versions(await self.snapshot())):  # noqa: ASYNC110 -- it is silence that is awaited
                await asyncio.sleep(seconds)
        return await self.snapshot()

    # What the kubelet does

    @asynccontextmanager
    async def kubelet(self):
        async with asyncio.TaskGroup() as tasks:
            beating = tasks.create_task(self._beat())
            yield
            beating.cancel()

    async def _beat(self):
        pods = untyped(PODS)
        while True:
            for pod in (await self.client.list(pods, namespace=self.namespace)).items:
                labels = pod["metadata"].get("labels", {})
                owner, step = (
                    labels.get(f"jobset.sigs.k8s.io/{name}", "") for name in ("jobset-name", "replicatedjob-name")
                )
                wanted = self.pods.get(f"{owner}/{step}", self.pods.get(owner))
                phase = wanted.capitalize() if wanted else None
                if not phase or pod["status"].get("phase") in (phase, "Succeeded", "Failed"):
                    continue
                with suppress(NotFound, Conflict):
                    key = Key(self.namespace, pod["metadata"]["name"])
                    await self.client.patch(pods, key, {"status": pod_status(pod, phase)}, subresource="status")
            await asyncio.sleep(0.2)

    def _named(self, name):
        return {"name": name, "namespace": self.namespace}


def pod_status(pod, phase):
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    running = phase == "Running"
    ended = {"exitCode": 0 if phase == "Succeeded" else 1, "reason": "Ended", "startedAt": now, "finishedAt": now}
    state = {"running": {"startedAt": now}} if running else {"terminated": ended}
    containers = [
        {"name": one["name"], "image": one["image"], "imageID": "", "ready": running, "restartCount": 0, "state": state}
        for one in pod["spec"]["containers"]
    ]
    ready = [{"type": name, "status": str(running), "lastTransitionTime": now} for name in ("Ready", "ContainersReady")]
    return {"phase": phase, "startTime": now, "conditions": ready, "containerStatuses": containers}


def conditions(found):
    """Return the reasons of a TrainJob's conditions by their types."""
    return {one["type"]: one["reason"] for one in ((found or {}).get("status") or {}).get("conditions") or ()}


def versions(stored):
    return {which: (one["metadata"]["uid"], one["metadata"]["resourceVersion"]) for which, one in stored.items()}


def pod_template(job_set):
    """Return the pod template of the first step."""
    return job_set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]


OWN_STATUS = ("state", "nodes", "restarts")
"""Fields of a TrainJob's status that only ktrain's definition has: under Kubeflow's they are pruned when read."""


def contents(stored):
    """Return objects without the record of who wrote what, and TrainJobs without the fields of ktrain's definition."""
    return {which: content(one) for which, one in stored.items()}


def content(body):
    """Return one object as `contents` has it."""
    unsaid = ("managedFields", "resourceVersion")
    metadata = {key: value for key, value in body["metadata"].items() if key not in unsaid}
    if body["kind"] != "TrainJob":
        return body | {"metadata": metadata}
    status = {key: value for key, value in (body.get("status") or {}).items() if key not in OWN_STATUS}
    return body | {"metadata": metadata, "status": status}
