"""
What a TrainJob may ask of its runtime. The texts are Kubeflow Trainer's.

Patches are checked against the runtime as its author wrote it. Go's Trainer checks them against the already patched
template, where every name exists; the API server then refuses the JobSet for ever.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ktrain.api import trainer as api
from ktrain.pipeline.findings import FieldError, Findings, forbidden, invalid

from . import older_rules
from .pods import pod_patch_errors, pod_spec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ktrain.api.meta import Json
    from ktrain.pipeline.info import Info, PodSet

    from .state import JobSetState

_PATCHES: Final = "spec.runtimePatches"
_MAX_POD_NAME: Final = 63
_POD_SUFFIX: Final = "-abcde"

_SUBDOMAIN: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_NOT_A_SUBDOMAIN: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and"
    f" end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_HTTP_PATH: Final = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"


def validate(info: Info | None, job: api.TrainJob, old: api.TrainJob | None, job_set: JobSetState | None) -> Findings:
    """Check *job*. *job_set* is its own JobSet, if it has one; *info* is None if the runtime is not there."""
    errors: list[FieldError] = []
    if info is not None and old is None and job.spec.managed_by in (None, api.MANAGED_BY):
        errors += _pod_names(info)
    if old is not None:
        errors += _late_changes(job, old, job_set)
        errors += older_rules.late_changes(job, old, job_set)
    for patch in job.spec.runtime_patches:
        errors += _manager(patch.manager)
    malformed = list(older_rules.shapes(job)) if older_rules.speaks(job) else []
    errors += malformed
    if info is not None and (job.spec.runtime_patches or older_rules.speaks(job)):
        template = msgspec.json.decode(info.runtime.template.spec, type=dict[str, Any])
        by_name = {str(rjob.get("name", "")): pod_spec(rjob) for rjob in template.get("replicatedJobs") or ()}
        errors += _patch_targets(job, by_name)
        if not malformed:
            errors += older_rules.check(job, by_name)
    return Findings(tuple(errors))


def _pod_names(info: Info) -> Iterator[FieldError]:
    """JobSet refuses names whose pods' names would be no DNS label; Go's Trainer finds out when it is too late."""
    nodes = info.job.spec.trainer.num_nodes if info.job.spec.trainer else None
    if elastic := info.runtime.elastic_policy:
        nodes = elastic.range_of(info.job).max_nodes
    sized = _sized(info)
    yield from pod_name_errors(
        info, lambda pod_set: nodes if nodes is not None and pod_set is sized else _count(info, pod_set)
    )


def _sized(info: Info) -> PodSet | None:
    """Return the pods whose number is the TrainJob's: with MPI those that ranks run on, and not the launcher."""
    policy = info.runtime.ml_policy
    return info.by_name(api.TRAINER_CONTAINER) if policy and policy.mpi else info.trainer


def _count(info: Info, pod_set: PodSet) -> int:
    policy = info.runtime.ml_policy
    return 1 if policy and policy.mpi and pod_set is info.trainer else pod_set.count


def pod_name_errors(info: Info, count: Callable[[PodSet], int]) -> Iterator[FieldError]:
    """Yield what is wrong with the name of a job with so many pods, once. Pods without an index get short names."""
    name = info.job.metadata.name
    for pod_set in info.pod_sets:
        longest = f"{name}-{pod_set.name}-{max(pod_set.replicas - 1, 0)}"
        if pod_set.job["template"]["spec"].get("completionMode") != "NonIndexed":
            longest += f"-{max(count(pod_set) - 1, 0)}{_POD_SUFFIX}"
        if len(longest) > _MAX_POD_NAME:
            excess = len(longest) - _MAX_POD_NAME
            what = "a pod" if longest.endswith(_POD_SUFFIX) else "a Job"
            detail = f"is {excess} characters too long: {what} would be called {longest}, and 63 are allowed"
            yield invalid("metadata.name", name, detail)
            return


def _late_changes(job: api.TrainJob, old: api.TrainJob, job_set: JobSetState | None) -> Iterator[FieldError]:
    if job.spec.trainer is not None and old.spec.trainer is None:
        # The CRD's own rule does not see a field that is added; JobSet would refuse the result for ever.
        value = msgspec.json.decode(msgspec.json.encode(job.spec.trainer))
        yield invalid("spec.trainer", value, "field is immutable")
    if _comparable(job) == _comparable(old):
        return
    if not (job.is_suspended or old.is_suspended):
        detail = "RuntimePatches can only be modified when the TrainJob is suspended before or after the update"
        yield forbidden(_PATCHES, detail)
        return
    for status in job_set.status.replicated_jobs_status if job_set and job_set.status else ():
        if status.active > 0:
            detail = f"RuntimePatches cannot be modified when the JobSet's ReplicatedJob {status.name} is still active"
            yield forbidden(_PATCHES, detail)


def _comparable(job: api.TrainJob) -> list[tuple[Any, ...]]:
    return [
        (p.manager, p.time, msgspec.json.decode(p.training_runtime_spec) if p.training_runtime_spec else None)
        for p in job.spec.runtime_patches
    ]


def _manager(manager: str) -> Iterator[FieldError]:
    """A domain-prefixed path, as k8s.io/apimachinery's IsDomainPrefixedPath has it; the path shows no index."""
    path = f"{_PATCHES}.manager"
    if not manager:
        yield FieldError(path, "Required value", "")
        return
    host, slash, rest = manager.partition("/")
    if not (host and slash and rest):
        yield invalid(path, manager, 'must be a domain-prefixed path (such as "acme.io/foo")')
        return
    if len(host) > 253:
        yield invalid(path, host, "must be no more than 253 characters")
    if not re.fullmatch(_SUBDOMAIN, host):
        yield invalid(path, host, _NOT_A_SUBDOMAIN)
    if not re.fullmatch(_HTTP_PATH, rest):
        yield invalid(path, rest, f"Invalid path (regex used for validation is '{_HTTP_PATH}')")


def _patch_targets(job: api.TrainJob, by_name: Mapping[str, Json]) -> Iterator[FieldError]:
    value = msgspec.to_builtins([_shown(patch) for patch in job.spec.runtime_patches])
    for patch in job.spec.runtime_patches:
        spec = msgspec.json.decode(patch.training_runtime_spec) if patch.training_runtime_spec else {}
        for target in ((spec.get("template") or {}).get("spec") or {}).get("replicatedJobs") or ():
            for detail in _target_errors(target, by_name):
                yield invalid(_PATCHES, value, detail)


def _shown(patch: api.RuntimePatch) -> Json:
    shown: Json = {"manager": patch.manager}
    if patch.time:
        shown["time"] = patch.time
    if patch.training_runtime_spec:
        shown["trainingRuntimeSpec"] = msgspec.json.decode(patch.training_runtime_spec)
    return shown


def _target_errors(target: Json, by_name: Mapping[str, Json]) -> Iterator[str]:
    name = target.get("name", "")
    if name not in by_name:
        yield "must not have replicated job that doesn't exist in the runtime job template"
        return
    yield from pod_patch_errors(pod_spec(target), name, by_name[name])
