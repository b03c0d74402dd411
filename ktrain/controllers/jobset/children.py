"""
Build what a JobSet owns: its Jobs, their headless Service, its claims.

All pure: a JobSet and a slot in, the object to post out. Templates are decoded for each Job anew, which costs less than
copying them and leaves nothing shared to be changed by accident.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import msgspec

from ktrain.api.jobset import (
    EXCLUSIVE_TOPOLOGY,
    JOB_INDEX,
    JOB_KEY,
    JOB_RESTART_ATTEMPT,
    JOBSET_NAME,
    JOBSETS,
    NODE_SELECTOR_STRATEGY,
    REPLICATED_JOB_NAME,
    RESTART_ATTEMPT,
    JobSet,
    ReplicatedJob,
)
from ktrain.api.meta import Json, owner_reference

from .volumes import add_volumes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .attempts import JobAttempts

_PREFIX: Final = "jobset.sigs.k8s.io/"
_NAMESPACED_JOB: Final = "alpha.jobset.sigs.k8s.io/namespaced-job"
_NO_SCHEDULE: Final = "alpha.jobset.sigs.k8s.io/no-schedule"


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of one Job in a JobSet: which replicated job, and the index within it."""

    replicated_job: ReplicatedJob
    index: int
    name: str


def slots(jobset: JobSet, rj: ReplicatedJob) -> Iterator[Slot]:
    """Every slot of a replicated job, by index."""
    return (Slot(rj, index, f"{jobset.metadata.name}-{rj.name}-{index}") for index in range(rj.replicas))


def owner(jobset: JobSet) -> Json:
    """The reference that makes an object a child of the JobSet."""
    return owner_reference(JOBSETS.api_version, JOBSETS.kind, jobset.metadata.name, jobset.metadata.uid)


def subdomain(jobset: JobSet) -> str:
    """Name of the headless Service. Not defaulted at admission, when a generated name is not known yet."""
    network = jobset.spec.network
    return (network.subdomain if network is not None else "") or jobset.metadata.name


def has_dns(jobset: JobSet) -> bool:
    """Whether pods find each other by name. Without a `network`, as when admission was bypassed, they do not."""
    return jobset.spec.network is not None and jobset.spec.network.enable_dns_hostnames is True


def build_service(jobset: JobSet) -> Json:
    """The one headless Service for all pods of the JobSet."""
    publish = jobset.spec.network.publish_not_ready_addresses if jobset.spec.network is not None else None
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": subdomain(jobset),
            "namespace": jobset.metadata.namespace,
            "ownerReferences": [owner(jobset)],
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": publish is not False,
            "selector": {JOBSET_NAME: jobset.metadata.name},
        },
    }


class JobBuilder:
    """
    Builds the Jobs of one JobSet at one attempt.

    What all Jobs share (sums over replicated jobs, the coordinator's address) is computed once. `attempts`: those of
    single slots, where these count.
    """

    def __init__(self, jobset: JobSet, restarts: int, attempts: JobAttempts | None = None) -> None:
        self._jobset = jobset
        self._restarts = restarts
        self._attempts = attempts
        self._positions = dict(_positions(jobset.spec.replicated_jobs))

    def build(self, slot: Slot) -> Json:
        """Build the Job for a slot. `suspend` is always written out, whatever the template says."""
        jobset = self._jobset
        template: Json = msgspec.json.decode(slot.replicated_job.template)
        keys = self._keys(slot)
        exclusive = self._exclusive(template)
        spec: Json = template.setdefault("spec", {})
        pod: Json = spec.setdefault("template", {})
        pod["metadata"] = {**(pod.get("metadata") or {}), **_marked(pod.get("metadata"), keys, exclusive)}
        metadata = _marked(template.get("metadata"), keys, exclusive)
        self._complete_pod(pod.setdefault("spec", {}), slot, annotations=metadata["annotations"])
        spec["suspend"] = jobset.spec.suspend
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": slot.name,
                "namespace": jobset.metadata.namespace,
                "ownerReferences": [owner(jobset)],
                **metadata,
            },
            "spec": spec,
        }

    def _complete_pod(self, pod: Json, slot: Slot, *, annotations: dict[str, str]) -> None:
        if has_dns(self._jobset):
            pod["subdomain"] = subdomain(self._jobset)
        if EXCLUSIVE_TOPOLOGY in annotations and NODE_SELECTOR_STRATEGY in annotations:
            selector = pod["nodeSelector"] = pod.get("nodeSelector") or {}
            selector[_NAMESPACED_JOB] = f"{self._jobset.metadata.namespace}_{slot.name}"
            tolerations = pod["tolerations"] = pod.get("tolerations") or []
            tolerations.append({"key": _NO_SCHEDULE, "operator": "Exists", "effect": "NoSchedule"})
        add_volumes(pod, self._jobset)

    def _keys(self, slot: Slot) -> dict[str, str]:
        """The keys that every Job and pod carries, as labels and as annotations."""
        metadata, rj = self._jobset.metadata, slot.replicated_job
        position = self._positions[rj.name]
        keys = {
            JOBSET_NAME: metadata.name,
            f"{_PREFIX}jobset-uid": metadata.uid,
            REPLICATED_JOB_NAME: rj.name,
            f"{_PREFIX}replicatedjob-replicas": str(rj.replicas),
            f"{_PREFIX}global-replicas": str(position.global_replicas),
            JOB_INDEX: str(slot.index),
            f"{_PREFIX}job-global-index": str(position.global_start + slot.index),
            f"{_PREFIX}group-name": rj.group_name,
            f"{_PREFIX}group-replicas": str(position.group_replicas),
            f"{_PREFIX}job-group-index": str(position.group_start + slot.index),
            # The digest is an identifier on the wire that others compute, too; nothing relies on its strength.
            JOB_KEY: hashlib.sha1(f"{metadata.namespace}/{slot.name}".encode(), usedforsecurity=False).hexdigest(),
            RESTART_ATTEMPT: str(self._restarts),
        }
        if self._attempts is not None:
            keys[JOB_RESTART_ATTEMPT] = str(self._attempts.of(rj.name, slot.index) or 0)
        if self._coordinator is not None:
            keys[f"{_PREFIX}coordinator"] = self._coordinator
        return keys

    @cached_property
    def _coordinator(self) -> str | None:
        coordinator = self._jobset.spec.coordinator
        if coordinator is None:
            return None
        pod = f"{coordinator.replicated_job}-{coordinator.job_index}-{coordinator.pod_index}"
        return f"{self._jobset.metadata.name}-{pod}.{subdomain(self._jobset)}"

    def _exclusive(self, template: Json) -> dict[str, str]:
        """The placement annotations: the JobSet's, under the Job template's. The strategy goes with its topology."""
        found: dict[str, str] = {}
        for given in (self._jobset.metadata.annotations, _map(template.get("metadata"), "annotations")):
            if EXCLUSIVE_TOPOLOGY in given:
                found.update({key: given[key] for key in (EXCLUSIVE_TOPOLOGY, NODE_SELECTOR_STRATEGY) if key in given})
        return found


@dataclass(frozen=True, slots=True)
class _Position:
    """Where a replicated job's indexes start, in the whole JobSet and in its group, and how many Jobs those have."""

    global_start: int
    global_replicas: int
    group_start: int
    group_replicas: int


def _positions(replicated_jobs: Iterable[ReplicatedJob]) -> Iterator[tuple[str, _Position]]:
    everyone = tuple(replicated_jobs)
    total = sum(rj.replicas for rj in everyone)
    groups: dict[str, int] = {}
    for rj in everyone:
        groups[rj.group_name] = groups.get(rj.group_name, 0) + rj.replicas
    start = 0
    group_start = dict.fromkeys(groups, 0)
    for rj in everyone:
        yield rj.name, _Position(start, total, group_start[rj.group_name], groups[rj.group_name])
        start += rj.replicas
        group_start[rj.group_name] += rj.replicas


def _marked(metadata: Json | None, keys: dict[str, str], exclusive: dict[str, str]) -> dict[str, dict[str, str]]:
    """Labels and annotations of a template, under the controller's own keys."""
    return {
        "labels": {**_map(metadata, "labels"), **keys},
        "annotations": {**_map(metadata, "annotations"), **keys, **exclusive},
    }


def _map(metadata: Json | None, field: str) -> dict[str, str]:
    found: dict[str, str] | None = (metadata or {}).get(field)
    return found or {}
