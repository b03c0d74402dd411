"""A pod from a Job's template, and which pods are surplus."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ktrain.api.meta import Json, owner_reference

from .counting import completion_index, index_failures
from .types import INDEX_FAILURE_COUNT, INDEX_KEY, TRACKING_FINALIZER, Job

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.core import Pod

GENERATED_PREFIX_LIMIT = 58
"""The API server appends five characters to generateName, and a pod's name is at most 63 long."""


def build(job: Job, index: int | None, *, previous: Pod | None = None) -> Json:
    """
    Build the body of one pod of `job`, to be created with a generated name.

    `previous` is the failed pod of the same index that this one replaces; with backoffLimitPerIndex it carries the
    number of failures on.
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
            annotations[INDEX_FAILURE_COUNT] = str(index_failures(previous) + 1 if previous else 0)
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


def _with_index_env(container: Json) -> Json:
    env = container.get("env") or []
    if any(entry.get("name") == "JOB_COMPLETION_INDEX" for entry in env):
        return container
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX_KEY}']"}}
    return {**container, "env": [*env, {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}]}


def surplus(job: Job, active: Sequence[Pod], wanted: int) -> list[Pod]:
    """
    Return the active pods that must go so that `wanted` remain.

    Indexed Jobs first lose pods whose index is missing, out of range or a duplicate; then those furthest from being
    useful go first: not scheduled, pending, not ready.
    """
    doomed: list[Pod] = []
    kept: list[Pod] = []
    seen: set[int] = set()
    for pod in sorted(active, key=_usefulness, reverse=True):
        index = completion_index(pod)
        if job.is_indexed and (index is None or index >= (job.spec.completions or 0) or index in seen):
            doomed.append(pod)
            continue
        if index is not None:
            seen.add(index)
        kept.append(pod)
    return doomed + kept[wanted:]


def _usefulness(pod: Pod) -> tuple[bool, bool, bool]:
    ready = any(c.type == "Ready" and c.is_true for c in pod.status.conditions)
    return bool(pod.spec.node_name), pod.status.phase == "Running", ready
