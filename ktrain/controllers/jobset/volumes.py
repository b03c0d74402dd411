"""
Volume claim policies: claims shared by all pods of a JobSet.

A claim is called `<template>-<jobset>`. Containers ask for it by a volumeMount of the template's name; the volume is
added to the pod templates that do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ktrain.api.jobset import JOBSET_NAME, JOBSETS, JobSet
from ktrain.api.meta import Json, owner_reference

if TYPE_CHECKING:
    from collections.abc import Iterator


class _TemplateMeta(msgspec.Struct, frozen=True):
    name: str = ""


class _Template(msgspec.Struct, frozen=True):
    metadata: _TemplateMeta = _TemplateMeta()


def template_names(jobset: JobSet) -> Iterator[str]:
    """Names of all claim templates, in order."""
    for policy in jobset.spec.volume_claim_policies:
        for template in policy.templates:
            yield msgspec.json.decode(template, type=_Template).metadata.name


def claim_name(template: str, jobset_name: str) -> str:
    """Name of the claim made from a template."""
    return f"{template}-{jobset_name}"


def build_claims(jobset: JobSet) -> Iterator[Json]:
    """
    Build every claim of the JobSet.

    Owned, and so collected with the JobSet, only if a retention policy says Delete: none at all means to keep the data.
    """
    metadata = jobset.metadata
    for policy in jobset.spec.volume_claim_policies:
        owned = policy.retention_policy is not None and policy.retention_policy.when_deleted == "Delete"
        for raw in policy.templates:
            template: Json = msgspec.json.decode(raw)
            given: Json = template.get("metadata") or {}
            claim: Json = {
                "name": claim_name(given.get("name", ""), metadata.name),
                "namespace": metadata.namespace,
                "labels": {**(given.get("labels") or {}), JOBSET_NAME: metadata.name},
            }
            if given.get("annotations"):
                claim["annotations"] = given["annotations"]
            if owned:
                claim["ownerReferences"] = [
                    owner_reference(JOBSETS.api_version, JOBSETS.kind, metadata.name, metadata.uid)
                ]
            yield {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": claim,
                "spec": template.get("spec") or {},
            }


def add_volumes(pod: Json, jobset: JobSet) -> None:
    """Add to a pod spec the volume of each claim template that one of its containers mounts."""
    if not jobset.spec.volume_claim_policies:
        return
    mounted = set(mount_names(pod))
    volumes = [
        {"name": name, "persistentVolumeClaim": {"claimName": claim_name(name, jobset.metadata.name)}}
        for name in template_names(jobset)
        if name in mounted
    ]
    if volumes:
        pod["volumes"] = [*(pod.get("volumes") or []), *volumes]


def mount_names(pod: Json) -> Iterator[str]:
    """Names of the volumes that containers and init containers mount."""
    for container in [*(pod.get("containers") or []), *(pod.get("initContainers") or [])]:
        for mount in container.get("volumeMounts") or []:
            yield mount.get("name", "")
