"""A namespace whose TrainJobs wait in a queue of Kueue's: what users and administrators do there, and kubelets."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from ktrain.api import core, jobset
from ktrain.api import trainer as api
from ktrain.api.meta import Key, Resource
from ktrain.framework.errors import NotFound
from ktrain.testing.envtest import Settings

from ...waiting import until

JOBSETS, PODS = core.untyped(jobset.JOBSETS), core.untyped(core.PODS)
TRAIN_JOBS, RUNTIMES = core.untyped(api.TRAIN_JOBS), core.untyped(api.TRAINING_RUNTIMES)
MANAGER = "kueue.x-k8s.io/manager"
AGENTS = ("trainer", "kueue")
PATIENCE_S = 60.0


def kind(name: str, plural: str, *, namespaced: bool = False) -> Resource[dict]:
    return Resource("kueue.x-k8s.io", "v1beta2", name, plural, namespaced, dict)


TOPOLOGIES, NODES = kind("Topology", "topologies"), core.untyped(core.NODES)
FLAVORS, CLUSTER_QUEUES = kind("ResourceFlavor", "resourceflavors"), kind("ClusterQueue", "clusterqueues")
PRIORITIES = kind("WorkloadPriorityClass", "workloadpriorityclasses")
LOCAL_QUEUES = kind("LocalQueue", "localqueues", namespaced=True)
WORKLOADS = kind("Workload", "workloads", namespaced=True)
CHECKS = kind("AdmissionCheck", "admissionchecks")
CLUSTERS, CLUSTER_SETS = kind("MultiKueueCluster", "multikueueclusters"), kind("MultiKueueConfig", "multikueueconfigs")


class Team:
    """A namespace, its queue, and how its pods are."""

    def __init__(self, plane, client, namespace) -> None:
        self.plane = plane
        self.client = client
        self.namespace = namespace

    async def beside(self, namespace):
        """Make a namespace of this name in the same cluster."""
        await self.create(core.untyped(core.NAMESPACES), namespace)
        return Team(self.plane, self.client, namespace)

    async def create(self, resource, name, **content):
        metadata = {"name": name, **content.pop("metadata", {})}
        if resource.namespaced:
            metadata["namespace"] = self.namespace
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **content}
        return await self.client.create(resource, body)

    async def open_queue(self, *checks, **flavor) -> None:
        """Open a queue with room for four CPUs."""
        name = self.namespace
        toleration = {"key": "pool", "operator": "Equal", "value": name, "effect": "NoSchedule"}
        await self.create(FLAVORS, name, spec={"nodeLabels": {"pool": name}, "tolerations": [toleration], **flavor})
        quota = {"name": name, "resources": [{"name": "cpu", "nominalQuota": 4}]}
        spec = {
            "namespaceSelector": {},
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}],
            "preemption": {"withinClusterQueue": "LowerPriority"},
        }
        if checks:
            spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": check} for check in checks]}
        await self.create(CLUSTER_QUEUES, name, spec=spec)
        await self.create(LOCAL_QUEUES, "queue", spec={"clusterQueue": name})
        for level, value in (("low", 1), ("high", 2)):
            await self.create(PRIORITIES, f"{name}-{level}", value=value)

    async def send_to(self, other) -> str:
        """Have another team's cluster run the jobs of a queue; returns the check that the queue needs."""
        name = self.namespace
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "kueue-system"}}
        secret["stringData"] = {"kubeconfig": other.plane.portable_kubeconfig()}
        await self.client.create(core.untyped(core.SECRETS), secret)
        source = {"kubeConfig": {"locationType": "Secret", "location": name}}
        await self.create(CLUSTERS, name, spec={"clusterSource": source})
        await self.create(CLUSTER_SETS, name, spec={"clusters": [name]})
        parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": name}
        await self.create(CHECKS, name, spec={"controllerName": "kueue.x-k8s.io/multikueue", "parameters": parameters})
        return name

    async def build_racks(self) -> None:
        """Build two racks of two nodes with a CPU each, and say how they are laid out."""
        levels = [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]
        await self.create(TOPOLOGIES, self.namespace, spec={"levels": levels})
        for number in range(4):
            name = f"{self.namespace}-{number}"
            labels = {"pool": self.namespace, "rack": f"r{number // 2}", "kubernetes.io/hostname": name}
            await self.create(NODES, name, metadata={"labels": labels})
            taints = {"spec": {"taints": None}}
            await self.client.patch(NODES, Key("", name), taints)
            size = {"cpu": "1", "pods": "9"}
            status = {"allocatable": size, "capacity": size, "conditions": [{"type": "Ready", "status": "True"}]}
            await self.client.patch(NODES, Key("", name), {"status": status}, subresource="status")

    async def submit(self, name, runtime, *, priority="", **spec):
        """Create a runtime of the same name, and a TrainJob of it in the queue."""
        await self.create(RUNTIMES, name, spec=runtime)
        labels = {"kueue.x-k8s.io/queue-name": "queue"}
        if priority:
            labels["kueue.x-k8s.io/priority-class"] = f"{self.namespace}-{priority}"
        spec = {"runtimeRef": {"kind": "TrainingRuntime", "name": name}, **spec}
        return await self.create(TRAIN_JOBS, name, metadata={"labels": labels}, spec=spec)

    async def until(self, condition):
        """Wait until an awaited condition gives something that is true, and return that."""
        return await until(condition, within_s=PATIENCE_S)

    def writes(self, *agents):
        """What they wrote in this namespace."""
        return [write for agent in agents for write in self.plane.writes(agent, self.namespace)]

    def refused(self):
        """What either manager wrote and the API server, or a webhook, did not take; conflicts are no refusals."""
        return [write for write in self.writes(*AGENTS) if write[-1] >= 400 and write[-1] not in (404, 409)]

    async def running_job_set(self, job):
        found = await self.get(JOBSETS, job)
        return None if found is None or found["spec"].get("suspend") else found

    async def kubectl(self, *arguments):
        """Run kubectl as a user does."""
        command = [Settings.of().binaries.kubectl, "--kubeconfig", self.plane.server.kubeconfig, *arguments]
        process = await asyncio.create_subprocess_exec(*map(str, command))
        return await process.wait() == 0

    async def has_ended(self, job):
        return state(await self.get(TRAIN_JOBS, job), "Complete") == "True"

    async def has_freed(self, job, pods):
        """Whether Kueue counts these pods no more."""
        return (await self.workload(job))["status"].get("reclaimablePods") == pods

    async def is_unpatched(self, job):
        """Whether Kueue has taken back what it had patched."""
        patches = (await self.get(TRAIN_JOBS, job))["spec"]["runtimePatches"]
        mine = next(patch for patch in patches if patch["manager"] == MANAGER)
        return not mine["trainingRuntimeSpec"]["template"]["spec"].get("replicatedJobs")

    async def get(self, resource, name):
        try:
            return await self.client.get(resource, name, self.namespace)
        except NotFound:
            return None

    async def workload(self, job):
        """The Workload of a TrainJob."""
        for found in (await self.client.list(WORKLOADS, self.namespace)).items:
            if any(owner["name"] == job for owner in found["metadata"].get("ownerReferences", ())):
                return found
        return None

    async def until_workload(self, job, condition, status="True"):
        async def reached():
            found = await self.workload(job)
            return found if found and state(found, condition) == status else None

        return await self.until(reached)

    async def pods(self, job):
        found = await self.client.list(PODS, self.namespace, label_selector=f"jobset.sigs.k8s.io/jobset-name={job}")
        return found.items

    async def until_pods(self, job, count, condition=lambda pod: True):
        """Wait until there are so many pods, all of them as expected."""

        async def made():
            found = await self.pods(job)
            return [found] if len(found) == count and all(map(condition, found)) else None

        return (await self.until(made))[0]

    async def let_pods(self, job, phase):
        """Do the kubelet's part for all pods of a job."""
        for pod in await self.pods(job):
            if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
                continue
            await self.client.patch(
                PODS, Key(self.namespace, pod["metadata"]["name"]), in_phase(pod, phase), subresource="status"
            )


def state(obj, condition):
    """The status of a condition, empty if there is none."""
    return next((c["status"] for c in obj.get("status", {}).get("conditions", ()) if c["type"] == condition), "")


def in_phase(pod, phase):
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    running = phase == "Running"
    ended = {"exitCode": 0 if phase == "Succeeded" else 1, "reason": "Done", "startedAt": now, "finishedAt": now}
    statuses = [
        {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": running,
            "restartCount": 0,
            "state": {"running": {"startedAt": now}} if running else {"terminated": ended},
        }
        for container in pod["spec"]["containers"]
    ]
    ready = {"status": "True" if running else "False", "lastTransitionTime": now}
    conditions = [{"type": kind, **ready} for kind in ("Ready", "ContainersReady")]
    return {"status": {"phase": phase, "startTime": now, "conditions": conditions, "containerStatuses": statuses}}


def node(name="node", *, cpu=1, replicas=1, step="", container="node", **spec):
    """A replicated job of one container."""
    container = {"name": container, "image": "none", "command": ["train"]}
    if cpu:
        container["resources"] = {"requests": {"cpu": str(cpu)}}
    template = {"spec": {**spec, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}}
    if step:
        template["metadata"] = {"labels": {api.ANCESTOR_LABEL: step}}
    return {"name": name, "replicas": replicas, "template": template}


def trainer(name="node", *, cpu=1):
    """A replicated job whose pods train."""
    return node(name, cpu=cpu, step="trainer")


def requests(template):
    """What each pod of a template asks for."""
    return [each.get("resources", {}).get("requests", {}) for each in template["template"]["spec"]["containers"]]


def runtime(*replicated_jobs, **policy):
    """A runtime's spec: two nodes."""
    return {"mlPolicy": {"numNodes": 2, **policy}, "template": {"spec": {"replicatedJobs": list(replicated_jobs)}}}
