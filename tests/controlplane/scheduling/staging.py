"""
Puts nodes and pods on a plane and says where the pods went, or why not.

Recorded with the real kube-scheduler. It breaks ties at random, so no scenario leaves it a choice.
"""

from ktrain.api.core import EVENTS, NODES, PODS, untyped
from ktrain.api.meta import Key, Resource
from ktrain.framework import PatchType
from ktrain.framework.errors import AlreadyExists

ANY_NODES, ANY_PODS, ANY_EVENTS = untyped(NODES), untyped(PODS), untyped(EVENTS)
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False, type=dict)
BUDGETS = Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", namespaced=True, type=dict)
GPU = "nvidia.com/gpu"
CLASSES = {
    "low": (10, "Never"),
    "high": (1000, "Never"),
    "mild": (50, None),
    "urgent": (2000, None),
    "vital": (3000, None),
}
"""Value and preemptionPolicy."""


class Stage:
    """The nodes and pods of one scenario."""

    def __init__(self, plane, scenario):
        self._plane = plane
        self._client = plane.client("scenario")
        self._scenario = scenario
        self._nodes = []

    async def set_up(self):
        """Create everything, pods in order, each when what became of the one before can be seen."""
        for name, (value, policy) in CLASSES.items():
            await self._create_class(name, value, policy)
        for name, node in self._scenario["nodes"].items():
            await self.add_node(name, node)
        for name, budget in self._scenario.get("budgets", {}).items():
            meta = {"name": name, "namespace": self._plane.namespace}
            body = {"apiVersion": BUDGETS.api_version, "kind": BUDGETS.kind, "metadata": meta, "spec": budget}
            await self._client.create(BUDGETS, body)

    def pods(self, described=None):
        """Return the bodies of pods, by default of the scenario's, in the order in which they are to be created."""
        found = []
        for name, given in (described or self._scenario["pods"]).items():
            count = given.get("count")
            names = [name] if count is None else [f"{name}-{number}" for number in range(count)]
            found += [self._pod(one, given) for one in names]
        return found

    async def create(self, body):
        await self._client.create(ANY_PODS, body)

    async def add_node(self, name, given):
        amounts = {
            "cpu": given.get("cpu", "4"),
            "memory": given.get("memory", "8Gi"),
            "pods": str(given.get("pods", 110)),
            **({GPU: str(given["gpu"])} if "gpu" in given else {}),
        }
        labels = {"kubernetes.io/hostname": name, **given.get("labels", {})}
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
        await self._client.create(ANY_NODES, {**body, "spec": {"unschedulable": True}})
        self._nodes.append(name)
        ready = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
        status = {"status": {"capacity": amounts, "allocatable": amounts, "conditions": ready}}
        await self._client.patch(ANY_NODES, Key("", name), status, subresource="status")
        # A real server gives every new node a taint, that it is not ready.
        spec = {"taints": given.get("taints"), "unschedulable": given.get("unschedulable")}
        await self._client.patch(ANY_NODES, Key("", name), {"spec": spec})

    async def change(self, step):
        """Do what a step of `then` says."""
        if "end" in step:
            key = Key(self._plane.namespace, step["end"])
            await self._client.patch(ANY_PODS, key, {"status": {"phase": "Succeeded"}}, subresource="status")
        elif "start" in step:
            for name, second in step["start"].items():
                await self._start(Key(self._plane.namespace, name), second)
        elif "allow" in step:
            # The real plane has nobody who counts; here it is what was counted already.
            status = {"status": {"disruptionsAllowed": step["disruptions"]}}
            key = Key(self._plane.namespace, step["allow"])
            await self._client.patch(BUDGETS, key, status, subresource="status")
        elif "gone" in step:
            for name in step["gone"]:
                await self._client.delete(PODS, Key(self._plane.namespace, name), grace_period_s=0)
        elif "label" in step:
            await self._client.patch(ANY_NODES, Key("", step["label"]), {"metadata": {"labels": step["labels"]}})
        elif "uncordon" in step:
            await self._client.patch(ANY_NODES, Key("", step["uncordon"]), {"spec": {"unschedulable": None}})
        else:
            await self.add_node(step["node"], step)

    async def see(self):
        """Return what became of every pod: its node, or what its condition says, and for whom it has to go."""
        listed = await self._client.list(ANY_PODS, self._plane.namespace)
        names = {pod["metadata"]["uid"]: pod["metadata"]["name"] for pod in listed.items}
        fates = {pod["metadata"]["name"]: fate(pod) for pod in listed.items}
        for event in (await self._client.list(ANY_EVENTS, self._plane.namespace)).items:
            name = event["regarding"]["name"]
            if event["reason"] == "Preempted" and name in fates:
                words = [names.get(word, word) for word in event["note"].split(" ")]
                fates[name] += f"; {event['type']} {event['action']}: {' '.join(words)}"
        return fates

    async def tear_down(self):
        """Remove the nodes, which other scenarios would see."""
        listed = await self._client.list(ANY_PODS, self._plane.namespace)
        for pod in listed.items:
            await self._client.delete(PODS, Key(self._plane.namespace, pod["metadata"]["name"]), grace_period_s=0)
        for name in self._nodes:
            await self._client.delete(NODES, Key("", name))

    async def _create_class(self, name, value, policy):
        meta = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        try:
            await self._client.create(PRIORITY_CLASSES, {**meta, "value": value, "preemptionPolicy": policy})
        except AlreadyExists:
            return

    async def _start(self, key, second):
        """Let a pod run, since that second of an hour, as a kubelet would."""
        ready = {"type": "Ready", "status": "True"}
        status = {"phase": "Running", "startTime": f"2026-01-01T00:00:{second:02}Z", "conditions": [ready]}
        await self._client.patch(ANY_PODS, key, {"status": status}, type=PatchType.STRATEGIC, subresource="status")

    def _pod(self, name, given):
        given = dict(given)
        given.pop("count", None)
        labels = given.pop("labels", {})
        resources = {part: _amounts(given.pop(part)) for part in ("requests", "limits") if part in given}
        if "requests" in resources and GPU in resources["requests"]:
            resources["limits"] = {GPU: resources["requests"][GPU]}
        container = {"name": "c", "image": "i", "resources": resources, "ports": given.pop("ports", [])}
        spec = {"containers": [container], **given}
        if "initRequests" in spec:
            requests = {"requests": _amounts(spec.pop("initRequests"))}
            spec["initContainers"] = [{"name": "i", "image": "i", "resources": requests}]
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": self._plane.namespace, "labels": labels},
            "spec": spec,
        }


def fate(pod):
    """Say what became of one pod."""
    status = pod.get("status", {})
    conditions = {one["type"]: one for one in status.get("conditions", [])}
    if node := pod["spec"].get("nodeName"):
        told = f"on {node}"
    elif "PodScheduled" in conditions:
        told = f"{conditions['PodScheduled']['reason']}: {conditions['PodScheduled']['message']}"
    else:
        told = "nothing"
    if nominated := status.get("nominatedNodeName"):
        told += f"; nominated to {nominated}"
    if target := conditions.get("DisruptionTarget"):
        told += f"; {target['reason']}: {target['message']}"
    return told + ("; stopping" if "deletionTimestamp" in pod["metadata"] else "")


def _amounts(given):
    return {GPU if name == "gpu" else name: str(amount) for name, amount in given.items()}
