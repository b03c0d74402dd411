"""What volume claim policies may say."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ktrain.api.meta import Json, Key
from ktrain.api.schema.causes import invalid

from .go_order import printed_claim, printed_jobs
from .names import MAX_LABEL, dns_subdomain_errors
from .volumes import claim_name, mount_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.schema import Cause

FindClaim = Callable[[str, str], Json | None]
"""Looks up a PersistentVolumeClaim by namespace and name."""


def volume_errors(jobset: str, namespace: str, spec: Json, find_claim: FindClaim | None) -> Iterator[Cause]:
    """Everything that is wrong with the claim templates. Names must be unique over all policies, as claims are."""
    seen: set[str] = set()
    for index, policy in enumerate(spec.get("volumeClaimPolicies") or []):
        at = f"spec.volumeClaimPolicies[{index}]"
        for place, template in enumerate(policy.get("templates") or []):
            path = f"{at}.template[{place}]"
            name = (template.get("metadata") or {}).get("name") or ""
            for error in _name_errors(name, jobset, seen):
                yield invalid(f"{path}.name", name, error)
            seen.add(name)
            yield from _mount_errors(name, spec.get("replicatedJobs"))
            existing = find_claim(namespace, claim_name(name, jobset)) if find_claim is not None else None
            if existing is not None:
                yield from _reuse_errors(path, template, existing)
                yield from _retention_errors(f"{at}.retentionPolicy.whenDeleted", policy)


def claim_keys(jobset: Json) -> set[Key]:
    """Which claims a JobSet would use."""
    metadata: Json = jobset.get("metadata") or {}
    return {
        Key(
            metadata.get("namespace", ""),
            claim_name((template.get("metadata") or {}).get("name") or "", metadata["name"]),
        )
        for policy in (jobset.get("spec") or {}).get("volumeClaimPolicies") or []
        for template in policy.get("templates") or []
        if metadata.get("name")
    }


def _name_errors(name: str, jobset: str, seen: set[str]) -> Iterator[str]:
    if name in seen:
        yield "names must be unique for VolumeClaimPolicies template"
    yield from dns_subdomain_errors(name)
    if len(claim_name(name, jobset)) > MAX_LABEL:
        yield "VolumeClaimPolicies template name is too long"


def _mount_errors(name: str, replicated_jobs: list[Json] | None) -> Iterator[Cause]:
    """A container must mount the claim, and no pod may have a volume of this name besides."""
    pods = [_pod_spec(rj) for rj in replicated_jobs or []]
    for index, pod in enumerate(pods):
        for place, volume in enumerate(pod.get("volumes") or []):
            if volume.get("name") == name:
                path = f"spec.replicatedJobs[{index}].template.spec.template.spec.volumes[{place}].name"
                yield invalid(path, name, f"volume name conflicts with VolumeClaimPolicy template name: {name}")
    if not any(name in mount_names(pod) for pod in pods):
        detail = f"replicatedJob containers don't have a matching volumeMount: {name} from VolumeClaimPolicies"
        yield invalid("spec.replicatedJobs", printed_jobs(replicated_jobs), detail)


def _reuse_errors(path: str, template: Json, existing: Json) -> Iterator[Cause]:
    metadata: Json = existing["metadata"]
    if (template.get("spec") or {}) != (existing.get("spec") or {}):
        detail = f"spec does not match existing PVC {metadata['name']} in namespace {metadata['namespace']}"
        yield invalid(f"{path}.spec", printed_claim(template.get("spec") or {}), detail)


def _retention_errors(path: str, policy: Json) -> Iterator[Cause]:
    kept = (policy.get("retentionPolicy") or {}).get("whenDeleted")
    if kept != "Retain":
        yield invalid(path, kept, "retentionPolicy must be retain when PVC exists")


def _pod_spec(rj: Json) -> Json:
    job: Json = (rj.get("template") or {}).get("spec") or {}
    pod: Json | None = (job.get("template") or {}).get("spec")
    return pod or {}
