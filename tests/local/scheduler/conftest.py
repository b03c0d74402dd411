"""Nodes, pods and groups to plan with."""

from datetime import UTC, datetime

import msgspec

from ktrain.api.meta import Condition
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


def a_pod(name, *, gpu=0, node="", labels=None, annotations=None, created=0, phase="Pending", status=None, **spec):
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
        msgspec.json.encode({"metadata": meta, "spec": body, "status": {"phase": phase, **(status or {})}}), type=Pod
    )


def stopping(pod):
    """Return a pod that was told to make room and has not gone yet."""
    target = Condition("DisruptionTarget", "True", "PreemptionByScheduler")
    meta = msgspec.structs.replace(pod.metadata, deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC))
    status = msgspec.structs.replace(pod.status, conditions=(target,))
    return msgspec.structs.replace(pod, metadata=meta, status=status)


def on(pod, node):
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node))


def nominated(pod, node):
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, nominated_node_name=node))


def a_group(name, least, api=KUBERNETES, mode="Pod"):
    policy = {"schedulingPolicy": {"gang": {"minCount": least}}, "disruptionMode": mode}
    if api != KUBERNETES:
        policy = {"minMember": least}
    return api, msgspec.convert({"metadata": {"name": name, "namespace": "default"}, "spec": policy}, PodGroup)


def in_group(name, api=KUBERNETES):
    """Return what a pod has that belongs to a group."""
    if api == COSCHEDULING:
        return {"labels": {"scheduling.x-k8s.io/pod-group": name}}
    if api == VOLCANO:
        return {"annotations": {"scheduling.k8s.io/group-name": name}, "schedulerName": "volcano"}
    return {"schedulingGroup": {"podGroupName": name}}


def plan(nodes, pods, *groups, served=(KUBERNETES, COSCHEDULING, VOLCANO), **rest):
    known = {api: {} for api in served}
    for api, group in groups:
        known[api][group.key] = group
    return make_plan(Cluster(pods=pods, nodes=nodes, groups=known, **rest))


def bound(made):
    return {pod.metadata.name: node for pod, node in made.bind}


def evicted(made):
    return {eviction.victim.metadata.name: eviction.pod.metadata.name for eviction in made.evict}


def promised(made):
    """Return the nodes that are kept for pods."""
    return {entry.pod.metadata.name: entry.node for entry in made.explain if entry.node}


def waiting(made):
    return {pod.metadata.name: message for pod, _, message, *_ in made.explain}
