"""Nodes, pods and groups to plan with."""

import msgspec

from ktrain.local.kubelet.node import ADVISORY
from ktrain.local.scheduler.gangs import COSCHEDULING, KUBERNETES, VOLCANO
from ktrain.local.scheduler.objects import Node, Pod, PodGroup
from ktrain.local.scheduler.planning import Cluster, make_plan

GPU = "nvidia.com/gpu"


def a_node(name, *, labels=None, taints=(), advisory=(), **amounts):
    allocatable = {"pods": "110", **{GPU if key == "gpu" else key: str(value) for key, value in amounts.items()}}
    meta = {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}}
    if advisory:
        meta["annotations"] = {ADVISORY: ",".join(advisory)}
    return msgspec.convert(
        {"metadata": meta, "spec": {"taints": list(taints)}, "status": {"allocatable": allocatable}}, Node
    )


def a_pod(name, *, gpu=0, node="", labels=None, annotations=None, created=0, phase="Pending", **spec):
    resources = {"requests": {GPU: str(gpu)}} if gpu else {}
    for amount in ("cpu", "memory"):
        if amount in spec:
            resources.setdefault("requests", {})[amount] = spec.pop(amount)
    meta = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "labels": labels or {},
        "annotations": annotations or {},
        "creationTimestamp": f"2026-01-01T00:00:{created:02}Z",
    }
    body = {"containers": [{"resources": resources}], "nodeName": node, **spec}
    # By way of JSON: selectors stay as they came.
    return msgspec.json.decode(
        msgspec.json.encode({"metadata": meta, "spec": body, "status": {"phase": phase}}), type=Pod
    )


def a_group(name, least, api=KUBERNETES):
    policy = {"schedulingPolicy": {"gang": {"minCount": least}}} if api == KUBERNETES else {"minMember": least}
    return api, msgspec.convert({"metadata": {"name": name, "namespace": "default"}, "spec": policy}, PodGroup)


def in_group(name, api=KUBERNETES):
    """Return what a pod has that belongs to a group."""
    if api == COSCHEDULING:
        return {"labels": {"scheduling.x-k8s.io/pod-group": name}}
    if api == VOLCANO:
        return {"annotations": {"scheduling.k8s.io/group-name": name}, "schedulerName": "volcano"}
    return {"schedulingGroup": {"podGroupName": name}}


def plan(nodes, pods, *groups, served=(KUBERNETES, COSCHEDULING, VOLCANO)):
    known = {api: {} for api in served}
    for api, group in groups:
        known[api][group.key] = group
    return make_plan(Cluster(pods=pods, nodes=nodes, groups=known))


def bound(made):
    return {pod.metadata.name: node for pod, node in made.bind}


def waiting(made):
    return {pod.metadata.name: message for pod, _, message in made.explain}
