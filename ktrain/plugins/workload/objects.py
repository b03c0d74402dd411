"""The Workload and the PodGroups of a job, as they are applied. What has a default there is left to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktrain.api import trainer as api
from ktrain.api.meta import owner_reference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.meta import Json
    from ktrain.pipeline.info import Info

    from .groups import Group
    from .versions import Template, Version, WorkloadState


def workload(info: Info, groups: Sequence[Group], version: Version) -> Json:
    """Return the Workload."""
    job = info.job.metadata
    return {
        "apiVersion": version.workloads.api_version,
        "kind": version.workloads.kind,
        "metadata": {"name": job.name, "namespace": job.namespace, "ownerReferences": [_job(info)]},
        "spec": {
            "controllerRef": {"apiGroup": api.GROUP, "kind": "TrainJob", "name": job.name},
            "podGroupTemplates": [{"name": group.template, **_policy(group.wanted)} for group in groups],
        },
    }


def pod_group(group: Group, version: Version, of: WorkloadState) -> Json:
    """Return a PodGroup, which belongs to the job, and to the Workload that there is."""
    job, its = group.info.job.metadata, of.metadata
    workload = {
        "apiVersion": version.workloads.api_version,
        "kind": version.workloads.kind,
        "name": its.name,
        "uid": its.uid,
    }
    return {
        "apiVersion": version.pod_groups.api_version,
        "kind": version.pod_groups.kind,
        "metadata": {
            "name": group.name,
            "namespace": job.namespace,
            "ownerReferences": [workload, _job(group.info)],
        },
        "spec": version.reference(its.name, group.template) | _policy(group.wanted),
    }


def _policy(template: Template) -> Json:
    gang = template.scheduling_policy.gang
    policy: Json = {"schedulingPolicy": {"gang": {"minCount": gang.min_count}} if gang else {"basic": {}}}
    return policy | ({"priorityClassName": template.priority_class_name} if template.priority_class_name else {})


def _job(info: Info) -> Json:
    return owner_reference(api.API_VERSION, "TrainJob", info.job.metadata.name, info.job.metadata.uid)
