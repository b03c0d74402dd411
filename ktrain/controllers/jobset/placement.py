"""
Exclusive placement: one Job to a topology domain, a rack say, and no other Job's pods in it.

The pod with completion index 0 leads. Its affinity takes a domain that no other JobSet pod of its priority is in; the
other pods follow by a node selector for the leader's domain. A follower is refused until its leader has a node: the Job
controller tries again and again, which is all the waiting there is. So the scheduler works out affinity for one pod of
a Job only.

Where nodes were labelled by hand (the node-selector annotation), none of this is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from ktrain.api.jobset import (
    COMPLETION_INDEX,
    EXCLUSIVE_TOPOLOGY,
    JOB_INDEX,
    JOB_KEY,
    JOBSET_NAME,
    NODE_SELECTOR_STRATEGY,
    PRIORITY,
    REPLICATED_JOB_NAME,
    JobSetPod,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ktrain.api.meta import Json, Object

_TRANSIENT: Final = "this is an expected, transient error"
_LEADER: Final = "0"


class Cluster(Protocol):
    """What placement looks up."""

    def pods_of(self, namespace: str, jobset: str) -> Iterable[JobSetPod]:
        """Return the pods labelled as those of a JobSet."""

    def node(self, name: str) -> Object | None:
        """Return a node."""


class Misplaced(Exception):
    """A pod may not be created, or not yet; the message says why."""


def place(pod: Json, namespace: str, cluster: Cluster) -> Json:
    """
    Return a new pod with what placement adds: its priority as label, and its affinity or node selector.

    Raises:
        Misplaced: The domain of its leader cannot be told.
    """
    metadata: Json = pod.get("metadata") or {}
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    if JOBSET_NAME not in annotations or NODE_SELECTOR_STRATEGY in annotations:
        return pod
    spec: Json = pod.get("spec") or {}
    labels: dict[str, str] = metadata.get("labels") or {}
    if spec.get("priority") is not None:
        labels = {**labels, PRIORITY: str(spec["priority"])}
        pod = {**pod, "metadata": {**metadata, "labels": labels}}
    topology = annotations.get(EXCLUSIVE_TOPOLOGY)
    if topology is None:
        return pod
    if annotations.get(COMPLETION_INDEX) == _LEADER:
        return {**pod, "spec": _with_affinity(spec, topology, labels)}
    domain = _leader_domain(metadata, namespace, topology, cluster)
    if domain is None:
        return pod
    return {**pod, "spec": {**spec, "nodeSelector": {**(spec.get("nodeSelector") or {}), topology: domain}}}


def check(pod: Json, namespace: str, cluster: Cluster) -> None:
    """
    Check that a new follower goes where its leader is.

    Raises:
        Misplaced: It would not; mostly as its leader has no node yet.
    """
    metadata: Json = pod.get("metadata") or {}
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    topology = annotations.get(EXCLUSIVE_TOPOLOGY)
    if JOBSET_NAME not in annotations or NODE_SELECTOR_STRATEGY in annotations or topology is None:
        return
    if annotations.get(COMPLETION_INDEX) == _LEADER:
        return
    selector: Mapping[str, str] = (pod.get("spec") or {}).get("nodeSelector") or {}
    if not selector:
        raise Misplaced("follower pod node selector not set")
    if topology not in selector:
        raise Misplaced(f"follower pod node selector for topology domain not found. missing selector: {topology}")
    if not _leader(metadata, namespace, cluster).spec.node_name:
        raise Misplaced(f"leader pod not yet scheduled, not creating follower pod. {_TRANSIENT}")


def is_leader(pod: JobSetPod) -> bool:
    """Whether the others of its Job follow this pod."""
    annotations = pod.metadata.annotations
    exclusive = EXCLUSIVE_TOPOLOGY in annotations and NODE_SELECTOR_STRATEGY not in annotations
    return exclusive and annotations.get(COMPLETION_INDEX) == _LEADER


def domain_of(node: Object | None, name: str, topology: str) -> str:
    """
    Return the domain that a node is in.

    Raises:
        Misplaced: There is no such node, or it is in none.
    """
    if node is None:
        raise Misplaced(f'leader topology is unknown (node not found): node "{name}" has no object')
    domain = node.metadata.labels.get(topology)
    if domain is None:
        raise Misplaced(f'leader topology is unknown: node "{name}" lacks the label {topology}')
    return domain


def _leader_domain(metadata: Json, namespace: str, topology: str, cluster: Cluster) -> str | None:
    """The domain of the leader; None while it has no node."""
    try:
        node = _leader(metadata, namespace, cluster).spec.node_name
    except Misplaced:
        return None
    return domain_of(cluster.node(node), node, topology) if node else None


def _leader(metadata: Json, namespace: str, cluster: Cluster) -> JobSetPod:
    """The one pod that leads, of the same Job object as the follower."""
    annotations: Mapping[str, str] = metadata["annotations"]
    jobset = annotations[JOBSET_NAME]
    job = f"{jobset}-{annotations.get(REPLICATED_JOB_NAME, '')}-{annotations.get(JOB_INDEX, '')}"
    name = f"{job}-{_LEADER}"
    found = [
        pod
        for pod in cluster.pods_of(namespace, jobset)
        if pod.metadata.name.rpartition("-")[0] == name
        and pod.metadata.deletion_timestamp is None
        and pod.status.phase not in ("Failed", "Succeeded")
    ]
    if len(found) != 1:
        raise Misplaced(f"expected 1 leader pod ({name}), but got {len(found)}. {_TRANSIENT}")
    owners = [owner for owner in metadata.get("ownerReferences") or [] if owner.get("controller")]
    if not owners or not found[0].metadata.is_controlled_by(owners[0].get("uid", "")):
        raise Misplaced(f"leader pod {found[0].metadata.name} belongs to another Job object. {_TRANSIENT}")
    return found[0]


def _with_affinity(spec: Json, topology: str, labels: Mapping[str, str]) -> Json:
    """Near the pods of its own Job, and far from those of all others with the same priority, in all namespaces."""
    key = labels.get(JOB_KEY, "")
    near: list[Json] = [{"key": JOB_KEY, "operator": "In", "values": [key]}]
    far: list[Json] = [
        {"key": JOB_KEY, "operator": "Exists"},
        {"key": JOB_KEY, "operator": "NotIn", "values": [key]},
        {"key": PRIORITY, "operator": "In", "values": [labels.get(PRIORITY, "")]},
    ]
    affinity: Json = spec.get("affinity") or {}
    return {
        **spec,
        "affinity": {
            **affinity,
            "podAffinity": _with_term(affinity.get("podAffinity"), topology, near),
            "podAntiAffinity": _with_term(affinity.get("podAntiAffinity"), topology, far),
        },
    }


def _with_term(given: Json | None, topology: str, expressions: list[Json]) -> Json:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    term = {"labelSelector": {"matchExpressions": expressions}, "topologyKey": topology, "namespaceSelector": {}}
    affinity = given or {}
    return {**affinity, required: [*(affinity.get(required) or []), term]}
