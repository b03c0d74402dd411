"""From a runtime and a TrainJob to the `Info` that the plugins work on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from ktrain.api import trainer as api
from ktrain.api.quantity import canonical

from .errors import PlanError
from .info import Info, JobSetMetadata, PodSet, Program
from .journal import TRAIN_JOB, Author, Journal, Patched
from .older import PatchTemplate, patch_templates
from .patches import apply_patches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.meta import Json

_LARGE: Final = 64 << 10
"""Bytes of patches."""


class _Template(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    metadata: dict[str, Any] | None = None
    spec: dict[str, Any] | None = None


class _RuntimePatchSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    template: _Template = _Template()


class Merged:
    """
    The template of a job with very large patches, from one phase of a pass to the next: merging takes far longer than
    reading the result again. Each phase has a template of its own, since plugins write into it.
    """

    __slots__ = ("_job", "_patches", "_runtime", "_template")

    def __init__(self) -> None:
        self._job: api.TrainJob | None = None
        self._runtime: api.RuntimeSpec | None = None
        self._template = b""
        self._patches: tuple[Patched, ...] = ()

    def apply(
        self,
        job: api.TrainJob,
        runtime: api.RuntimeSpec,
        template: Json,
        patches: Sequence[tuple[str, Json]],
        journal: Journal,
    ) -> Json:
        """Do what `apply_patches` does."""
        if sum(len(patch.training_runtime_spec) for patch in job.spec.runtime_patches) < _LARGE:
            return apply_patches(template, patches, journal)
        if self._job is job and self._runtime is runtime:
            journal.patches.extend(self._patches)
            again: Json = msgspec.json.decode(self._template)
            return again
        merged = apply_patches(template, patches, journal)
        self._job, self._runtime = job, runtime
        self._template, self._patches = msgspec.json.encode(merged), tuple(journal.patches)
        return merged


def prepare(job: api.TrainJob, runtime: api.RuntimeSpec, merged: Merged | None = None) -> Info:
    """
    Build the `Info`: patched template, metadata, pod sets with their counts, resources of the trainer.

    `merged`: what an earlier phase of the same pass has left, and a later one will find.

    Raises:
        PlanError: The runtime's template or a patch does not have the shape of its schema, or does not fit; or a
            variable of the TrainJob has a divisor that is no quantity, which its schema lets through.
    """
    _check_divisors(job.spec)
    try:
        return _prepare(job, runtime, merged or Merged())
    except (msgspec.MsgspecError, ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        raise PlanError(f"the runtime's template or a patch of it is malformed: {error}") from error


def _check_divisors(spec: api.TrainJobSpec) -> None:
    initializer = spec.initializer or api.Initializer()
    holders = (("trainer", spec.trainer), ("initializer.dataset", initializer.dataset))
    for place, holder in (*holders, ("initializer.model", initializer.model)):
        if holder is None or b"divisor" not in bytes(holder.env):
            continue
        for index, variable in enumerate(declared_environment(holder.env)):
            reference = (variable.get("valueFrom") or {}).get("resourceFieldRef") or {}
            try:
                canonical(reference.get("divisor", "0"))
            except ValueError as error:
                path = f"spec.{place}.env[{index}].valueFrom.resourceFieldRef.divisor"
                raise PlanError(f"{path}: {error}") from None


def _prepare(job: api.TrainJob, runtime: api.RuntimeSpec, merged: Merged) -> Info:
    journal = Journal()
    labels, annotations = dict(runtime.template.metadata.labels), dict(runtime.template.metadata.annotations)
    patches: list[tuple[str, Json]] = []
    template: Json = msgspec.json.decode(runtime.template.spec, type=dict[str, Any])
    for patch in _patch_templates(job, template):
        labels |= patch.metadata.get("labels") or {}
        annotations |= patch.metadata.get("annotations") or {}
        if patch.spec:
            patches.append((patch.author, patch.spec))
    template = merged.apply(job, runtime, template, patches, journal)
    pod_sets = [PodSet(replicated_job, 1, journal) for replicated_job in template.get("replicatedJobs") or ()]
    info = Info(job, runtime, template, pod_sets, JobSetMetadata(labels, annotations), journal)
    if trainer := job.spec.trainer:
        info.program = Program(trainer.command, trainer.args)
    for pod_set in pod_sets:
        _count(pod_set, runtime)
    _merge_resources(info)
    return info


def _patch_templates(job: api.TrainJob, template: Json) -> list[PatchTemplate]:
    """All patches in the order in which they apply: first the older shapes."""
    found = patch_templates(job.spec, [str(rjob.get("name", "")) for rjob in template.get("replicatedJobs") or ()])
    for patch in job.spec.runtime_patches:
        if patch.training_runtime_spec:
            patched = msgspec.json.decode(patch.training_runtime_spec, type=_RuntimePatchSpec).template
            found.append(PatchTemplate(f"patch {patch.manager}", patched.metadata or {}, patched.spec or {}))
    return found


def _count(pod_set: PodSet, runtime: api.RuntimeSpec) -> None:
    if pod_set.ancestor == api.ANCESTOR_TRAINER and runtime.ml_policy:
        count = runtime.ml_policy.num_nodes
    else:
        count = (pod_set.job["template"].get("spec") or {}).get("parallelism")
    pod_set.count = max(1, 1 if count is None else count)


def _merge_resources(info: Info) -> None:
    """
    Lay `resourcesPerNode` over what the trainer's container asks for.

    Kubeflow Trainer does so only on a runtime with an ML policy; KEP-2170 does always, and so do steps in its form.
    """
    trainer = info.job.spec.trainer
    if not (trainer and trainer.resources_per_node):
        return
    resources: Json = msgspec.json.decode(trainer.resources_per_node)
    with info.journal.writing_as(Author(TRAIN_JOB)):
        for pod_set in info.pod_sets:
            if pod_set.ancestor != api.ANCESTOR_TRAINER or not (info.runtime.ml_policy or pod_set.step.on_pods):
                continue
            if container := pod_set.step_container:
                container.merge_resources(resources)


def environment(raw: msgspec.Raw) -> list[Json]:
    """
    Decode the variables of a TrainJob as they go into a container: a literal keeps its value also when it is empty.

    As in Go's Trainer, a field reference loses its `apiVersion` (there has only ever been v1), and a reference to a
    resource has all its parts, with a canonical divisor.
    """
    return [_in_container(variable) for variable in declared_environment(raw)]


def declared_environment(raw: msgspec.Raw) -> list[Json]:
    """Decode the variables of a TrainJob as they are; none if the field is not there."""
    decoded: list[Json] | None = msgspec.json.decode(raw) if raw else None
    return decoded or []


def _in_container(variable: Json) -> Json:
    source: Json | None = variable.get("valueFrom")
    if source is None:
        return {"name": variable["name"], "value": variable.get("value", "")}
    if "fieldRef" in source:
        source = source | {"fieldRef": {"fieldPath": source["fieldRef"].get("fieldPath", "")}}
    if "resourceFieldRef" in source:
        reference = {"containerName": "", "divisor": "0"} | source["resourceFieldRef"]
        source = source | {"resourceFieldRef": reference | {"divisor": canonical(reference["divisor"])}}
    return {"name": variable["name"], "valueFrom": source}
