"""
Puts nodes and pods on a plane and says where the pods went, or why not.

Recorded with the real kube-scheduler. It breaks ties at random, so no scenario leaves it a choice.
"""

from ktrain.api.core import NODES, PODS, untyped
from ktrain.api.meta import Key, Resource
from ktrain.framework.errors import AlreadyExists

ANY_NODES, ANY_PODS = untyped(NODES), untyped(PODS)
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False, type=dict)
GPU = "nvidia.com/gpu"
CLASSES = {"low": 10, "high": 1000}


class Stage:
    """The nodes and pods of one scenario."""

    def __init__(self, plane, scenario):
        self._plane = plane
        self._client = plane.client("scenario")
        self._scenario = scenario
        self._nodes = []

    async def set_up(self):
        """Create everything, pods in order, each when what became of the one before can be seen."""
        for name, value in CLASSES.items():
            await self._create_class(name, value)
        for name, node in self._scenario["nodes"].items():
            await self.add_node(name, node)

    def pods(self):
        """Return the bodies of the pods, in the order in which they are to be created."""
        found = []
        for name, given in self._scenario["pods"].items():
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
        elif "label" in step:
            await self._client.patch(ANY_NODES, Key("", step["label"]), {"metadata": {"labels": step["labels"]}})
        elif "uncordon" in step:
            await self._client.patch(ANY_NODES, Key("", step["uncordon"]), {"spec": {"unschedulable": None}})
        else:
            await self.add_node(step["node"], step)

    async def see(self):
        """Return what became of every pod: its node, or what its condition says."""
        listed = await self._client.list(ANY_PODS, self._plane.namespace)
        return {pod["metadata"]["name"]: self._fate(pod) for pod in listed.items}

    async def tear_down(self):
        """Remove the nodes, which other scenarios would see."""
        listed = await self._client.list(ANY_PODS, self._plane.namespace)
        for pod in listed.items:
            await self._client.delete(PODS, Key(self._plane.namespace, pod["metadata"]["name"]), grace_period_s=0)
        for name in self._nodes:
            await self._client.delete(NODES, Key("", name))

    async def _create_class(self, name, value):
        meta = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        try:
            await self._client.create(PRIORITY_CLASSES, {**meta, "value": value, "preemptionPolicy": "Never"})
        except AlreadyExists:
            return

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

    def _fate(self, pod):
        if node := pod["spec"].get("nodeName"):
            return f"on {node}"
        for condition in pod.get("status", {}).get("conditions", []):
            if condition["type"] == "PodScheduled":
                return f"{condition['reason']}: {condition['message']}"
        return "nothing"


def _amounts(given):
    return {GPU if name == "gpu" else name: str(amount) for name, amount in given.items()}
