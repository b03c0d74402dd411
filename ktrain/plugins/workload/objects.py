"""The Workload and the PodGroups of a job, as they are applied. Fields with a default are left to the API server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktrain.api import trainer as api
from ktrain.api.meta import owner_reference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.meta import Json
    from ktrain.pipeline.info import Info

    from .groups import Group
    from .versions import AnyWorkload, Template, Version


def workload(info: Info, groups: Sequence[Group], version: Version) -> Json:
    """Return the Workload."""
    job = info.job.metadata
    return {
        "apiVersion": version.workloads.api_version,
        "kind": version.workloads.kind,
        "metadata": {"name": job.name, "namespace": job.namespace, "ownerReferences": [_job(info)]},
        "spec": {
            "controllerRef": {"apiGroup": api.GROUP, "kind": "TrainJob", "name": job.name},
            **_groups(groups, version),
        },
    }


def _groups(groups: Sequence[Group], version: Version) -> Json:
    if version.has_pod_groups:
        return {"podGroupTemplates": [{"name": group.template, **_policy(group.wanted)} for group in groups]}
    return {"podGroups": [{"name": group.template, "policy": _scheduling(group.wanted)} for group in groups]}


def pod_group(group: Group, version: Version, of: AnyWorkload) -> Json:
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
    policy: Json = {"schedulingPolicy": _scheduling(template)}
    return policy | ({"priorityClassName": template.priority_class_name} if template.priority_class_name else {})


def _scheduling(template: Template) -> Json:
    gang = template.scheduling_policy.gang
    return {"gang": {"minCount": gang.min_count}} if gang else {"basic": {}}


def _job(info: Info) -> Json:
    return owner_reference(api.API_VERSION, "TrainJob", info.job.metadata.name, info.job.metadata.uid)
