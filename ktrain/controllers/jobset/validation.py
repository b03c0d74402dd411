"""
What is refused when a JobSet is created, with upstream's messages, in upstream's order, all at once.

The object has been defaulted and fits its schema. Two kinds of error exist: about a field, with its path, and plain
ones, which upstream wraps as internal errors without a path; clients see the difference.

Deviation: a replicated job that depends on itself is refused. Upstream accepts it, and it never starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api.schema import Cause
from ktrain.api.schema.causes import invalid, too_long

from .failure_rules import failure_policy_errors
from .gates import OFF, Gates
from .in_place import STRATEGY
from .names import MAX_LABEL, dns_label_errors, dns_subdomain_errors, domain_path_errors, label_value_errors
from .startup_rules import startup_errors
from .volume_rules import FindClaim, volume_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json

_MAX_INT32: Final = 2**31 - 1
_MAX_GENERATED_PREFIX: Final = 58
_SUFFIX: Final = "abcde"
"""Stands for the five random characters at the end of generated names, whose length matters here."""


def internal(text: str) -> Cause:
    """An error without a field."""
    return Cause("<nil>", "InternalError", f"Internal error: {text}")


def refusals_on_create(jobset: Json, find_claim: FindClaim | None = None, gates: Gates = OFF) -> list[Cause]:
    """
    Everything that is wrong with a new JobSet; empty if it is welcome.

    Args:
        jobset: After defaults and schema.
        find_claim: Looks up a PersistentVolumeClaim by namespace and name, to check the reuse of existing claims.
            Without it, claims are taken not to exist.
        gates: What may be asked for.
    """
    metadata: Json = jobset.get("metadata") or {}
    spec: Json = jobset.get("spec") or {}
    name = _effective_name(metadata)
    return [
        *(_gates(spec) if not gates.in_place_restart else ()),
        *_dependency_of_first(spec),
        *_network(spec),
        *_managed_by(spec),
        *_replicated_jobs(name, spec, in_place=gates.in_place_restart and _restarts_in_place(spec)),
        *startup_errors(spec.get("startupPolicy") or {}, _names(spec)),
        *_success_policy(spec),
        *map(internal, failure_policy_errors(spec.get("failurePolicy") or {}, _entries(spec), gates)),
        *map(internal, _coordinator(name, spec)),
        *volume_errors(name, metadata.get("namespace", ""), spec, find_claim),
    ]


def _effective_name(metadata: Json) -> str:
    if metadata.get("name"):
        return str(metadata["name"])
    prefix = metadata.get("generateName") or ""
    return f"{prefix[:_MAX_GENERATED_PREFIX]}{_SUFFIX}" if prefix else ""


def _entries(spec: Json) -> list[Json]:
    return spec.get("replicatedJobs") or []


def _names(spec: Json) -> list[str]:
    return [rj["name"] for rj in _entries(spec)]


def _restarts_in_place(spec: Json) -> bool:
    return (spec.get("failurePolicy") or {}).get("restartStrategy") == STRATEGY


def _gates(spec: Json) -> Iterator[Cause]:
    if _restarts_in_place(spec):
        yield internal("InPlaceRestart restart strategy cannot be set when InPlaceRestart feature gate is disabled")


def _dependency_of_first(spec: Json) -> Iterator[Cause]:
    if any(rj.get("dependsOn") is not None for rj in _entries(spec)[:1]):
        yield internal("DependsOn can't be set for the first ReplicatedJob")


def _network(spec: Json) -> Iterator[Cause]:
    path = "spec.network.subdomain"
    subdomain = (spec.get("network") or {}).get("subdomain")
    if subdomain:
        too_long_text = f".{path} is too long, must be less than 63 characters"
        for error in (*dns_subdomain_errors(subdomain), *dns_label_errors(subdomain, too_long=too_long_text)):
            yield invalid(path, subdomain, error)


def _managed_by(spec: Json) -> Iterator[Cause]:
    path, manager = "spec.managedBy", spec.get("managedBy")
    if manager is None:
        return
    if manager == "":
        yield Cause(path, "FieldValueRequired", "Required value")
        return
    for part, error in domain_path_errors(manager):
        yield invalid(path, part, error)
    if len(manager) > MAX_LABEL:
        yield too_long(path, MAX_LABEL)


def _replicated_jobs(jobset: str, spec: Json, *, in_place: bool) -> Iterator[Cause]:
    earlier: set[str] = set()
    for index, rj in enumerate(_entries(spec)):
        yield from _replicated_job(f"spec.replicatedJobs[{index}]", jobset, rj)
        for parent in rj.get("dependsOn") or []:
            if parent["name"] not in earlier:
                yield internal(f"replicatedJob: {rj['name']} cannot depend on replicatedJob: {parent['name']}")
        earlier.add(rj["name"])
        if in_place:
            yield from _in_place(f"spec.replicatedJobs[{index}].template.spec", rj)


def _replicated_job(path: str, jobset: str, rj: Json) -> Iterator[Cause]:
    name, replicas, job = rj["name"], rj.get("replicas", 1), _job_spec(rj)
    if replicas * job.get("parallelism", 1) > _MAX_INT32:
        yield internal(
            f"the product of replicas and parallelism must not exceed {_MAX_INT32} for replicatedJob '{name}'"
        )
    group = rj.get("groupName", "default")
    group_too_long = ".spec.replicatedJob[].groupName is too long, must be less than 63 characters"
    for error in dns_label_errors(group, too_long=group_too_long):
        yield invalid(f"{path}.groupName", group, error)
    job_name = f"{jobset}-{name}-{replicas - 1}"
    yield from _generated_name(f"{path}.name", job_name, job_name, "job")
    if job.get("completionMode") == "Indexed" and job.get("completions") is not None:
        pod_name = f"{job_name}-{job['completions'] - 1}-{_SUFFIX}"
        yield from _generated_name(f"{path}.name", job_name, pod_name, "pod")


def _in_place(path: str, rj: Json) -> Iterator[Cause]:
    """No Job may fail or be replaced while its containers restart, and every pod must have its agent."""
    job, who, when = _job_spec(rj), f"replicatedJob {rj['name']}:", "when in-place restart is enabled"
    limit, replacement = job.get("backoffLimit"), job.get("podReplacementPolicy")
    if limit != _MAX_INT32:
        yield invalid(f"{path}.backoffLimit", limit, f"{who} must be set to {_MAX_INT32} (MaxInt32) {when}")
    if replacement != "Failed":
        yield invalid(f"{path}.podReplacementPolicy", replacement, f"{who} must be set to Failed {when}")
    completions = job.get("completions")
    if completions is None or completions != job.get("parallelism"):
        detail = f"{who} completions and parallelism must be set and equal to each other {when}"
        yield invalid(f"{path}.completions", completions, detail)


def _generated_name(path: str, shown: str, name: str, noun: str) -> Iterator[Cause]:
    excess = f"JobSet name is too long, {noun} names generated for this JobSet will exceed {MAX_LABEL} characters"
    for error in dns_label_errors(name, too_long=excess):
        yield invalid(path, shown, error)


def _job_spec(rj: Json) -> Json:
    spec: Json | None = (rj.get("template") or {}).get("spec")
    return spec or {}


def _success_policy(spec: Json) -> Iterator[Cause]:
    known = _names(spec)
    for target in (spec.get("successPolicy") or {}).get("targetReplicatedJobs") or []:
        if target not in known:
            yield internal(f"invalid replicatedJob name '{target}' does not appear in .spec.ReplicatedJobs")


def _coordinator(jobset: str, spec: Json) -> Iterator[str]:
    coordinator = spec.get("coordinator")
    if coordinator is None:
        return
    name = coordinator.get("replicatedJob", "")
    job_index, pod_index = coordinator.get("jobIndex", 0), coordinator.get("podIndex", 0)
    yield from _coordinator_pod(spec, name, job_index, pod_index)
    subdomain = (spec.get("network") or {}).get("subdomain") or jobset
    endpoint = f"{jobset}-{name}-{job_index}-{pod_index}.{subdomain}"
    why = ", ".join(label_value_errors(endpoint))
    if why:
        yield (
            f'spec will lead to invalid label value "{endpoint}" for coordinator label'
            f' "jobset.sigs.k8s.io/coordinator" (long JobSet / ReplicatedJob / SubDomain name?): {why}'
        )


def _coordinator_pod(spec: Json, name: str, job_index: int, pod_index: int) -> Iterator[str]:
    """Does that pod exist? The first answer only."""
    rj = next((rj for rj in _entries(spec) if rj["name"] == name), None)
    if rj is None:
        yield f"coordinator replicatedJob {name} does not exist"
        return
    job = _job_spec(rj)
    if not 0 <= job_index < rj.get("replicas", 1):
        yield f"coordinator job index {job_index} is invalid for replicatedJob {name}"
    elif job.get("completionMode") != "Indexed" or job.get("completions") is None:
        yield "job for coordinator pod must be indexed completion mode, and completions number must be set"
    elif not 0 <= pod_index < job["completions"]:
        yield f"coordinator pod index {pod_index} is invalid for replicatedJob {name} job index {job_index}"
