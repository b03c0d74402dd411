"""
What a TrainJob may say in the shapes of Kubeflow Trainer 2.0 and 2.1, which `pipeline/older.py` translates.

The texts are those releases'. What contradicts a runtime patch is refused: the order in which both apply is our own,
and nobody who wrote the one had the other in mind.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from ktrain.api import trainer as api
from ktrain.pipeline.findings import FieldError, forbidden, invalid
from ktrain.pipeline.journal import leaves
from ktrain.pipeline.older import OVERRIDES, overrides, patch_templates, pod_patch, targets

from .pods import pod_patch_errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ktrain.api.meta import Json
    from ktrain.api.schema import Schema

    from .state import JobSetState

_ONE_OF_BOTH: Final = "must not be set together with podTemplateOverrides; say all of it in runtimePatches"


def speaks(job: api.TrainJob) -> bool:
    """Whether the TrainJob says anything in an older shape."""
    spec = job.spec
    return bool(spec.labels or spec.annotations or spec.pod_spec_overrides or spec.pod_template_overrides)


def shapes(job: api.TrainJob) -> Iterator[FieldError]:
    """Yield what is wrong with the overrides themselves, whatever the runtime is."""
    for key in (api.ANCESTOR_LABEL, api.ELASTIC_LABEL):
        if key in (job.spec.labels or {}):
            yield forbidden(f"spec.labels[{key}]", "must not be set: it would be a label of all Jobs and pods")
    for name in OVERRIDES:
        for index, entry in enumerate(overrides(job.spec, name)):
            yield from _shape(name, entry, f"spec.{name}[{index}]")


def check(job: api.TrainJob, by_name: Mapping[str, Json]) -> Iterator[FieldError]:
    """Yield what is wrong else. `by_name` has the pod specs of the runtime's jobs, before any patch."""
    if job.spec.pod_spec_overrides and job.spec.pod_template_overrides:
        yield forbidden("spec.podSpecOverrides", _ONE_OF_BOTH)
    for name in OVERRIDES:
        entries = overrides(job.spec, name)
        for entry in entries:
            for detail in _targets(name, entry, by_name):
                yield invalid(f"spec.{name}", entries, detail)
    yield from _contradictions(job, list(by_name))


def late_changes(job: api.TrainJob, old: api.TrainJob, job_set: JobSetState | None) -> Iterator[FieldError]:
    """Yield what may not change the way it did. JobSet lets no label or annotation of its Jobs change."""
    for name in ("labels", "annotations"):
        if job_set and (getattr(job.spec, name) or {}) != (getattr(old.spec, name) or {}):
            yield forbidden(f"spec.{name}", "must not change once the TrainJob has a JobSet: its Jobs have them, too")
    for name in OVERRIDES:
        if overrides(job.spec, name) == overrides(old.spec, name):
            continue
        shown = f"{name[0].upper()}{name[1:]}"
        if not (job.is_suspended or old.is_suspended):
            yield forbidden(f"spec.{name}", f"{shown} can only be modified when the TrainJob is suspended")
            continue
        for status in job_set.status.replicated_jobs_status if job_set and job_set.status else ():
            if status.active > 0:
                detail = f"{shown} cannot be modified when the JobSet's ReplicatedJob {status.name} is still active"
                yield forbidden(f"spec.{name}", detail)


def _targets(name: str, entry: Json, by_name: Mapping[str, Json]) -> Iterator[str]:
    for target in targets(entry, list(by_name)):
        if target not in by_name:
            yield "must not have targetJob that doesn't exist in the runtime job template"
        else:
            yield from pod_patch_errors(pod_patch(name, entry).get("spec") or {}, target, by_name[target])


def _shape(name: str, entry: Json, path: str) -> Iterator[FieldError]:
    """The definition leaves the pod spec open; here it meets the schema of what may be patched."""
    named = entry.get("targetJobs") or []
    if not isinstance(named, list) or not all(_names_a_job(job) for job in named):
        yield invalid(f"{path}.targetJobs", named, "must be a list of objects, each with the name of a job")
    spec = pod_patch(name, entry).get("spec") or {}
    prefix = f"{path}.spec" if name == "podTemplateOverrides" else path
    _, unknown = _schema().prune(spec)
    for field in unknown:
        yield forbidden(f"{prefix}.{field}", "cannot be overridden")
    for cause in _schema().validate_shape(spec):
        if cause.reason == "FieldValueRequired":
            yield FieldError(f"{prefix}.{cause.field}", "Required value", "")
        else:
            yield invalid(f"{prefix}.{cause.field}", None, str(cause))


def _names_a_job(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, dict) and isinstance(value.get("name"), str))


@lru_cache(maxsize=1)
def _schema() -> Schema:
    from ktrain.api.crds.patches import pod_spec_patch  # with the built-in schemas 20 ms, for those few jobs
    from ktrain.api.schema import Schema

    return Schema.from_crd(pod_spec_patch())


def _contradictions(job: api.TrainJob, replicated_jobs: list[str]) -> Iterator[FieldError]:
    older = [
        (template.author, path, value)
        for template in patch_templates(job.spec, replicated_jobs)
        for path, value in leaves({"metadata": template.metadata, "spec": template.spec})
    ]
    if not older:
        return
    patched: dict[str, tuple[str, object]] = {}
    for patch in job.spec.runtime_patches:
        spec: Json = msgspec.json.decode(patch.training_runtime_spec) if patch.training_runtime_spec else {}
        for path, value in leaves(spec.get("template") or {}):
            patched[path] = (patch.manager, value)
    for author, path, value in older:
        manager, other = patched.get(path, ("", value))
        if other != value:
            detail = f"sets {path} to another value than the runtimePatches of {manager}; say it once"
            yield forbidden(author.partition(" ")[0], detail)
