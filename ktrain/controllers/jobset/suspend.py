"""
Suspending and resuming the Jobs of a JobSet.

A resume is also the one moment when changes of the pod template reach Jobs that exist: a queueing controller writes
node selectors and the like while the JobSet is suspended. Template values win, and keys are never removed. Labels,
annotations and node selectors merge by themselves in a merge patch; the two lists are joined here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from ktrain.api.jobset import REPLICATED_JOB_NAME, ChildJob

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ktrain.api.jobset import ReplicatedJob
    from ktrain.api.meta import Json


@dataclass(frozen=True, slots=True)
class Wake:
    """
    A Job of a replicated job, to resume.

    `reset_start`: older API servers freeze the template until the start time is cleared.
    """

    job: ChildJob
    replicated_job: str
    patch: Json
    reset_start: bool


def to_suspend(active: Iterable[ChildJob]) -> tuple[ChildJob, ...]:
    """Unfinished Jobs that still run."""
    return tuple(job for job in active if not job.spec.suspend)


def to_resume(active: Iterable[ChildJob], allowed: Iterable[ReplicatedJob]) -> Iterator[Wake]:
    """
    Suspended Jobs of the replicated jobs that may run, with the patch that brings each up to date and wakes it.

    In the order of *allowed*, that of the spec.
    """
    sleeping: dict[str, list[ChildJob]] = {}
    for job in active:
        if job.spec.suspend:
            sleeping.setdefault(job.metadata.labels.get(REPLICATED_JOB_NAME, ""), []).append(job)
    for rj in allowed:
        for job in sleeping.get(rj.name, ()):
            patch = {"spec": {"suspend": False, **_template_patch(job, msgspec.json.decode(rj.template))}}
            yield Wake(job, rj.name, patch, reset_start=job.status.start_time is not None)


def _template_patch(job: ChildJob, job_template: Json) -> Json:
    pod: Json = (job_template.get("spec") or {}).get("template") or {}
    wanted: Json = pod.get("metadata") or {}
    pod_spec: Json = pod.get("spec") or {}
    metadata = {field: wanted[field] for field in ("labels", "annotations") if wanted.get(field)}
    spec: Json = {"nodeSelector": pod_spec["nodeSelector"]} if pod_spec.get("nodeSelector") else {}
    for field, present in (
        ("tolerations", job.spec.template.spec.tolerations),
        ("schedulingGates", job.spec.template.spec.scheduling_gates),
    ):
        missing = _missing(present, pod_spec.get(field) or [])
        if missing:
            spec[field] = [*present, *missing]
    patch: Json = {}
    if metadata:
        patch["metadata"] = metadata
    if spec:
        patch["spec"] = spec
    return {"template": patch} if patch else {}


def _missing(present: Sequence[Json], wanted: Iterable[Json]) -> list[Json]:
    """Entries to add, compared by value; twice in the template is once."""
    seen = list(present)
    added: list[Json] = []
    for entry in wanted:
        if entry not in seen:
            seen.append(entry)
            added.append(entry)
    return added
