"""What volume claim policies may say."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ktrain.api.meta import Json, Key
from ktrain.api.schema.causes import invalid

from .names import MAX_LABEL, dns_subdomain_errors
from .volumes import claim_name, mount_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.schema import Cause

FindClaim = Callable[[str, str], Json | None]
"""Looks up a PersistentVolumeClaim by namespace and name."""


def volume_errors(jobset: str, namespace: str, spec: Json, find_claim: FindClaim | None) -> Iterator[Cause]:
    """Everything that is wrong with the claim templates. Names must be unique over all policies, as claims are."""
    pods = [_pod_spec(rj) for rj in spec.get("replicatedJobs") or []]
    mounted = {name for pod in pods for name in mount_names(pod)}
    volumes = {volume.get("name") for pod in pods for volume in pod.get("volumes") or []}
    seen: set[str] = set()
    for index, policy in enumerate(spec.get("volumeClaimPolicies") or []):
        for place, template in enumerate(policy.get("templates") or []):
            path = f"spec.volumeClaimPolicies[{index}].template[{place}]"
            name = (template.get("metadata") or {}).get("name") or ""
            for error in _name_errors(name, jobset, seen=seen, volumes=volumes, mounted=mounted):
                yield invalid(f"{path}.metadata.name", name, error)
            seen.add(name)
            existing = find_claim(namespace, claim_name(name, jobset)) if find_claim is not None else None
            if existing is not None:
                yield from _reuse_errors(path, template, policy, existing)


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


def _name_errors(
    name: str, jobset: str, *, seen: set[str], volumes: set[str | None], mounted: set[str]
) -> Iterator[str]:
    if name in seen:
        yield "names must be unique for VolumeClaimPolicies template"
    yield from dns_subdomain_errors(name)
    if len(claim_name(name, jobset)) > MAX_LABEL:
        yield "VolumeClaimPolicies template name is too long"
    if name in volumes:
        yield f"volume name conflicts with VolumeClaimPolicy template name: {name}"
    if name not in mounted:
        yield f"replicatedJob containers don't have a matching volumeMount: {name} from VolumeClaimPolicies"


def _reuse_errors(path: str, template: Json, policy: Json, existing: Json) -> Iterator[Cause]:
    metadata: Json = existing["metadata"]
    if (template.get("spec") or {}) != (existing.get("spec") or {}):
        detail = f"spec does not match existing PVC {metadata['name']} in namespace {metadata['namespace']}"
        yield invalid(f"{path}.spec", template.get("spec") or {}, detail)
    if (policy.get("retentionPolicy") or {}).get("whenDeleted") != "Retain":
        detail = "retentionPolicy must be retain when PVC exists"
        yield invalid(f"{path}.retentionPolicy", policy.get("retentionPolicy") or {}, detail)


def _pod_spec(rj: Json) -> Json:
    job: Json = (rj.get("template") or {}).get("spec") or {}
    pod: Json | None = (job.get("template") or {}).get("spec")
    return pod or {}
