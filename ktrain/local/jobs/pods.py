"""A pod from a Job's template, and which pods are surplus."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ktrain.api.meta import Json, owner_reference

from .counting import index_failures, valid_index
from .failure_policy import judge
from .types import INDEX_FAILURE_COUNT, INDEX_IGNORED_COUNT, INDEX_KEY, TRACKING_FINALIZER, Job

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ktrain.api.core import Pod

GENERATED_PREFIX_LIMIT = 58
"""The API server appends five characters to generateName, and a pod's name is at most 63 long."""


def build(job: Job, index: int | None, *, replaces: Pod | None = None) -> Json:
    """
    Build the body of one pod of `job`, to be created with a generated name.

    `replaces` is the failed pod of the same index that this one comes after; with backoffLimitPerIndex its number of
    failures is carried on.
    """
    template: Json = msgspec.json.decode(job.spec.template)
    metadata: Json = template.get("metadata") or {}
    labels = dict(metadata.get("labels") or {})
    annotations = dict(metadata.get("annotations") or {})
    spec: Json = dict(template.get("spec") or {})
    prefix = f"{job.metadata.name}-"
    if index is not None:
        suffix = f"-{index}-"
        prefix = job.metadata.name[: GENERATED_PREFIX_LIMIT - len(suffix)] + suffix
        labels[INDEX_KEY] = annotations[INDEX_KEY] = str(index)
        spec["hostname"] = f"{job.metadata.name}-{index}"
        for kind in ("initContainers", "containers"):
            if spec.get(kind):
                spec[kind] = [_with_index_env(container) for container in spec[kind]]
        if job.spec.backoff_limit_per_index is not None:
            annotations |= _failure_counts(job, replaces)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": prefix,
            "namespace": job.metadata.namespace,
            "labels": labels,
            "annotations": annotations,
            "finalizers": [*(metadata.get("finalizers") or []), TRACKING_FINALIZER],
            "ownerReferences": [owner_reference("batch/v1", "Job", job.metadata.name, job.metadata.uid)],
        },
        "spec": spec,
    }


def _failure_counts(job: Job, replaces: Pod | None) -> dict[str, str]:
    counted, ignored = (0, 0) if replaces is None else index_failures(replaces)
    if replaces is not None and judge(job, replaces).counts:
        counted += 1
    elif replaces is not None:
        ignored += 1
    return {INDEX_FAILURE_COUNT: str(counted), **({INDEX_IGNORED_COUNT: str(ignored)} if ignored else {})}


def _with_index_env(container: Json) -> Json:
    env = container.get("env") or []
    if any(entry.get("name") == "JOB_COMPLETION_INDEX" for entry in env):
        return container
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX_KEY}']"}}
    return {**container, "env": [*env, {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}]}


def surplus(job: Job, active: Sequence[Pod], at_least: int) -> list[Pod]:
    """
    Return the active pods that must go, `at_least` so many.

    Indexed Jobs lose all pods whose index is missing, out of range or a duplicate. Then those go that are furthest from
    being useful: not scheduled, pending, not ready, ready for a shorter time, restarted more often, younger.
    """
    doomed: list[Pod] = []
    kept: list[Pod] = []
    seen: set[int] = set()
    for pod in sorted(active, key=_usefulness, reverse=True):
        index = valid_index(job, pod) if job.is_indexed else None
        if job.is_indexed and (index is None or index in seen):
            doomed.append(pod)
            continue
        if index is not None:
            seen.add(index)
        kept.append(pod)
    more = max(at_least - len(doomed), 0)
    return doomed + kept[len(kept) - more :]


def _usefulness(pod: Pod) -> tuple[bool, bool, bool, float, int, float]:
    ready = next((c for c in pod.status.conditions if c.type == "Ready" and c.is_true), None)
    restarts = max((status.restart_count for status in pod.status.container_statuses), default=0)
    return (
        bool(pod.spec.node_name),
        pod.status.phase == "Running",
        ready is not None,
        -_seconds(ready.last_transition_time) if ready is not None else 0.0,
        -restarts,
        -_seconds(pod.metadata.creation_timestamp),
    )


def _seconds(time: datetime | None) -> float:
    return time.timestamp() if time is not None else 0.0
