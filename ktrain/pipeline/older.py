"""
What TrainJobs of Kubeflow Trainer 2.0 and 2.1 say, as the templates of the runtime patches that they would be today.

`labels` and `annotations` are the JobSet's, its Jobs' and their pods' (KEP-2170; those releases wrote them to the
JobSet alone); `podSpecOverrides` (2.0) and `podTemplateOverrides` (2.1) patch the pods of the jobs that they name, or
of all if they name none. They come before `runtimePatches`. The object is left as its
user wrote it: translated by a webhook, it would fight with whoever applies the file again, and stay as it is
where webhooks are off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from .errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.meta import Json
    from ktrain.api.trainer import TrainJobSpec


class PatchTemplate(NamedTuple):
    """The `template` of a patch: JobSet metadata, and a patch of the JobSet's spec. `author` is where it stands."""

    author: str
    metadata: Json
    spec: Json


MAX_BYTES: Final = 3 * 512 * 1024
"""What can be stored of an object. More would also take minutes to merge, for which everybody waits."""
OVERRIDES = {"podSpecOverrides": "pod_spec_overrides", "podTemplateOverrides": "pod_template_overrides"}
"""Names on the wire of the older shapes that patch pods, and of their attributes."""


def overrides(spec: TrainJobSpec, name: str) -> list[Json]:
    """Return the overrides of a TrainJob by their name on the wire, as its user wrote them."""
    raw = getattr(spec, OVERRIDES[name])
    entries: list[Json] = msgspec.json.decode(raw) if raw else []
    return entries or []


def pod_patch(name: str, entry: Json) -> Json:
    """Return what an override says of pods: `metadata` and `spec`, as a pod template has them."""
    if name == "podTemplateOverrides":
        return {key: entry[key] for key in ("metadata", "spec") if entry.get(key)}
    spec = {key: value for key, value in entry.items() if key not in ("targetJobs", "targetJob")}
    return {"spec": spec} if spec else {}


def targets(entry: Json, replicated_jobs: Sequence[str]) -> list[str]:
    """
    Return the names of the jobs that an override is for: those it lists, else all.

    They were objects with a name, in the proposal plain names, or one `targetJob`.
    """
    named = entry.get("targetJobs") or ([entry["targetJob"]] if entry.get("targetJob") else [])
    return [str(job.get("name", "")) if isinstance(job, dict) else str(job) for job in named] or list(replicated_jobs)


def patch_templates(spec: TrainJobSpec, replicated_jobs: Sequence[str]) -> list[PatchTemplate]:
    """
    Translate. `replicated_jobs` are the names of the runtime's, in its order; names it does not have stay.

    Raises:
        PlanError: Written out for each job they are larger than any JobSet that can be stored.
    """
    found, total = [], 0
    metadata: Json = {key: dict(value) for key in ("labels", "annotations") if (value := getattr(spec, key))}
    if metadata:
        template: Json = {"metadata": metadata, "spec": {"template": {"metadata": metadata}}}
        total += 2 * len(msgspec.json.encode(metadata)) * len(replicated_jobs)
        _check_size(total, replicated_jobs)
        jobs = [{"name": job, "template": template} for job in replicated_jobs]
        found.append(PatchTemplate("spec.labels and spec.annotations", metadata, {"replicatedJobs": jobs}))
    for name in OVERRIDES:
        for index, entry in enumerate(overrides(spec, name)):
            if not (pod := pod_patch(name, entry)):
                continue
            named = targets(entry, replicated_jobs)
            total += len(msgspec.json.encode(pod)) * len(named)
            _check_size(total, replicated_jobs)
            jobs = [{"name": job, "template": {"spec": {"template": pod}}} for job in named]
            found.append(PatchTemplate(f"spec.{name}[{index}]", {}, {"replicatedJobs": jobs}))
    return found


def _check_size(total: int, replicated_jobs: Sequence[str]) -> None:
    if total > MAX_BYTES:
        raise PlanError(
            f"the overrides of the TrainJob have more than {MAX_BYTES} bytes, written out for each of the"
            f" {len(replicated_jobs)} jobs of its runtime; no JobSet is that large: name the jobs they are for"
        )
