"""Short ways to write runtimes, TrainJobs and what is done with them, so that a case is as long as what it is about."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

API = "trainer.kubeflow.org/v1alpha1"
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"


def container(name: str = "node", **fields: Any) -> Json:
    """A container with some image."""
    return {"name": name, "image": f"{name}:1", **fields}


def rjob(name: str = "node", *containers: Json, step: str = "", pod: Json | None = None, **fields: Any) -> Json:
    """
    A replicated job; `node` is the trainer step unless `step` says another, and `-` says none.

    `pod` are fields of the pod spec, `job` of the Job's; `meta` is the Job template's metadata, `pod_meta` the pod's.
    """
    step = step or ("trainer" if name == "node" else "-")
    meta: Json = fields.pop("meta", {})
    if step != "-":
        meta = {**meta, "labels": {STEP: step, **meta.get("labels", {})}}
    spec = {"containers": list(containers) or [container(name)], **(pod or {})}
    template: Json = {"spec": spec} | ({"metadata": fields.pop("pod_meta")} if "pod_meta" in fields else {})
    job = {"spec": {**fields.pop("job", {}), "template": template}} | ({"metadata": meta} if meta else {})
    return {"name": name, **fields, "template": job}


def runtime(name: str = "rt", *jobs: Json, cluster: bool = False, **fields: Any) -> Json:
    """
    A runtime with these replicated jobs, by default one called `node`.

    `ml` is its ML policy (None: it has none), `gang` its podGroupPolicy, `jobset` other fields of the JobSet's spec,
    `meta` metadata of the JobSet's template, `labels` the runtime's own.
    """
    spec: Json = {}
    if (ml := fields.pop("ml", {"numNodes": 1})) is not None:
        spec["mlPolicy"] = ml
    if "gang" in fields:
        spec["podGroupPolicy"] = fields.pop("gang")
    template: Json = {"spec": {"replicatedJobs": list(jobs) or [rjob()], **fields.pop("jobset", {})}}
    if "meta" in fields:
        template["metadata"] = fields.pop("meta")
    metadata: Json = {"name": name} | fields
    kind = "ClusterTrainingRuntime" if cluster else "TrainingRuntime"
    return {"apiVersion": API, "kind": kind, "metadata": metadata, "spec": spec | {"template": template}}


def job(name: str = "job", of: str = "rt", /, **spec: Any) -> Json:
    """A TrainJob of a TrainingRuntime."""
    ref = {"name": of, "kind": "TrainingRuntime"}
    metadata: Json = {"name": name} | spec.pop("meta", {})
    return {"apiVersion": API, "kind": "TrainJob", "metadata": metadata, "spec": {"runtimeRef": ref, **spec}}


def patch(manager: str = "acme.io/ops", *jobs: Json, **template: Any) -> Json:
    """A runtime patch; `jobs` are what `patched` made, `metadata` is the JobSet's."""
    if jobs:
        template["spec"] = {"replicatedJobs": list(jobs)}
    return {"manager": manager, "trainingRuntimeSpec": {"template": template}}


def patched(name: str = "node", meta: Json | None = None, pod_meta: Json | None = None, **pod: Any) -> Json:
    """A patch of one replicated job's pods."""
    inner: Json = ({"spec": pod} if pod else {}) | ({"metadata": pod_meta} if pod_meta else {})
    outer: Json = ({"spec": {"template": inner}} if inner else {}) | ({"metadata": meta} if meta else {})
    return {"name": name, "template": outer}


def env(**variables: str) -> list[Json]:
    """Literal variables in order."""
    return [{"name": name, "value": value} for name, value in variables.items()]


def field(name: str, **source: Json) -> Json:
    """A variable that comes from elsewhere."""
    return {"name": name, "valueFrom": source}


def res(limits: Json | None = None, **requests: str) -> Json:
    """Resources."""
    return ({"limits": limits} if limits else {}) | ({"requests": requests} if requests else {})


def of(**resources: str) -> Json:
    """What a trainer says that asks for limits."""
    return {"resourcesPerNode": {"limits": resources}}


def dev(name: str, count: str = "2", **others: str) -> Json:
    """What a trainer says that asks for devices."""
    return of(**{name: count, **others})


def create(*objects: Json) -> Json:
    return {"do": "create", "objects": list(objects)}


def change(name: str, change_: Any, kind: str = "TrainJob") -> Json:
    """Patch an object: by merging, or by JSON patch if the change is a list."""
    return {"do": "patch", "kind": kind, "name": name, "patch": change_}


def delete(name: str, kind: str = "TrainJob") -> Json:
    return {"do": "delete", "kind": kind, "name": name}


def drive(**jobs: Any) -> Json:
    """Bring Jobs, by the names of their replicated jobs, to `pending`, `running`, `succeeded` or `failed`."""
    return {"do": "drive", "jobs": {name.replace("_", "-"): state for name, state in jobs.items()}}


def wait(seconds: float) -> Json:
    return {"do": "wait", "seconds": seconds}
