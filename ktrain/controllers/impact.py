"""
Which TrainJobs a change of a runtime touches. Pure: the objects come in, an answer for each job comes out.

Jobs run on the snapshot that their first reconcile took (KEP-2599), so a change touches only those that have none yet.
The others run on as they began, suspended or not; that they are behind the runtime is told, and touches nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from ktrain import pipeline
from ktrain.api import trainer as api
from ktrain.pipeline.errors import PipelineError

from .trainjob.snapshot import canonical

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ktrain.api.meta import Json, JsonValue, Key
    from ktrain.pipeline import Context, Registry

    from .trainjob.snapshot import Snapshot


class Standing(StrEnum):
    """How a job stands to its runtime."""

    FINISHED = "finished"
    FIXED = "on its snapshot"
    WAITING = "takes it yet"
    """It has no snapshot: its first pass is still to come, or could not be made."""
    ELSEWHERE = "managed elsewhere"


@dataclass(frozen=True, slots=True)
class Impact:
    """What a change of the runtime means for one job."""

    job: Key
    standing: Standing
    behind: bool = False
    """Whether its snapshot differs from the runtime as it is now."""
    changes: tuple[str, ...] = ()
    """Paths of the JobSet that would be different; only of jobs that are touched."""
    refusal: str = ""
    """Why the job could not run on the changed runtime."""

    @property
    def is_touched(self) -> bool:
        """Whether the change reaches the job."""
        return self.standing is Standing.WAITING


def refers_to(job: api.TrainJob, runtime: api.Runtime) -> bool:
    """Whether a job names this runtime, which for a TrainingRuntime is one of its own namespace."""
    ref = job.spec.runtime_ref
    same = (ref.kind, ref.name, ref.api_group) == (runtime.kind, runtime.metadata.name, api.GROUP)
    return same and runtime.metadata.namespace in ("", job.metadata.namespace)


def impacts(
    registry: Registry,
    runtime: api.Runtime,
    proposed: api.RuntimeSpec | None,
    jobs: Iterable[api.TrainJob],
    snapshots: Mapping[Key, Snapshot],
    ctx: Context,
) -> list[Impact]:
    """
    Return what replacing the runtime's spec by *proposed* (None: some change) means for each of *jobs*, in their order.

    `snapshots` holds those that the jobs have, by the jobs' keys.
    """
    live = msgspec.json.decode(runtime.spec, type=api.RuntimeSpec)
    present = canonical(live)
    found = []
    for job in jobs:
        snapshot = snapshots.get(job.key)
        if job.is_finished:
            found.append(Impact(job.key, Standing.FINISHED))
        elif not job.is_managed_here:
            found.append(Impact(job.key, Standing.ELSEWHERE))
        elif snapshot:
            found.append(Impact(job.key, Standing.FIXED, behind=canonical(snapshot.spec) != present))
        elif proposed is None:
            found.append(Impact(job.key, Standing.WAITING))
        else:
            found.append(_compared(registry, job, live, proposed, ctx))
    return found


def _compared(
    registry: Registry, job: api.TrainJob, live: api.RuntimeSpec, proposed: api.RuntimeSpec, ctx: Context
) -> Impact:
    try:
        refusal = pipeline.validate(registry, job, None, proposed, ctx).message
        new = {} if refusal else _objects(registry, job, proposed, ctx)
    except PipelineError as error:
        refusal = str(error)
    if refusal:
        return Impact(job.key, Standing.WAITING, refusal=refusal)
    try:
        old = _objects(registry, job, live, ctx)
    except PipelineError:
        old = {}  # the change mends it
    return Impact(job.key, Standing.WAITING, changes=tuple(_differences(old, new)))


def _objects(registry: Registry, job: api.TrainJob, spec: api.RuntimeSpec, ctx: Context) -> Json:
    """Return the specs of what would be built, by kind."""
    plan = pipeline.plan(registry, job, spec, ctx)
    return {c.resource.kind: c.body.get("spec") or c.body.get("data") or {} for c in plan.components}


def _differences(old: JsonValue, new: JsonValue, path: str = "") -> Iterator[str]:
    """Yield the paths at which two values differ; of lists that hold named items, by the names."""
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from _differences(old.get(key), new.get(key), f"{path}.{key}" if path else key)
    elif _is_named(old) and _is_named(new):
        before, after = ({item["name"]: item for item in items} for items in (old, new))
        for name in before | after:
            yield from _differences(before.get(name), after.get(name), f"{path}[{name}]")
    else:
        yield path


def _is_named(value: JsonValue) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(i, dict) and "name" in i for i in value)
