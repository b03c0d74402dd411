"""
The size of elastic jobs while they run: how many nodes there are, and the autoscaler that may change how many there
should be.

A plugin of its own beside `Torch`, because its objects are written before the JobSet: a job that runs is left alone, so
an autoscaler that is refused must be said before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from ktrain.api import jobset
from ktrain.api import trainer as api
from ktrain.api.meta import Key, Object, Resource, Struct
from ktrain.pipeline.findings import Findings
from ktrain.pipeline.points import BUILT, Address, Component, Removal, Rule, Size, Watch
from ktrain.pipeline.steps import step_of

from . import elastic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.meta import Json
    from ktrain.pipeline.info import Info
    from ktrain.pipeline.points import Context


class NodeCounts(Struct, frozen=True):
    """How many pods of a Job work, and how many are done."""

    ready: int = 0
    succeeded: int = 0


class NodeJob(Object, frozen=True):
    """The Job of an elastic TrainJob's nodes. A JobSet's own counters count Jobs, not pods."""

    status: NodeCounts = NodeCounts()


NODE_JOBS: Final = Resource("batch", "v1", "Job", "jobs", namespaced=True, type=NodeJob)
AUTOSCALERS: Final = Resource(
    "autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", namespaced=True, type=Object
)


class ElasticTorch:
    """Says how large an elastic job is, and has it scaled."""

    name: Final = "ElasticTorch"
    before: Final = ("JobSet",)
    rbac: Final = (
        Rule((NODE_JOBS.group,), (NODE_JOBS.plural,), ("list", "watch"), reason="nodes of elastic jobs"),
        Rule((AUTOSCALERS.group,), (AUTOSCALERS.plural,), (*BUILT, "delete"), reason="elastic jobs with metrics"),
    )

    def watches(self) -> Sequence[Watch]:
        """Jobs of elastic nodes by their counters, and autoscalers by their metadata."""
        return (
            Watch(NODE_JOBS, keys=_train_job, label_selector=api.ELASTIC_LABEL),
            Watch(AUTOSCALERS, owned=True),
        )

    def validate(self, info: Info | None, job: api.TrainJob, old: api.TrainJob | None, ctx: Context) -> Findings:
        """Refuse sizes out of range, and what cannot be elastic."""
        policy = info.runtime.elastic_policy if info else None
        findings = Findings(tuple(elastic.check_size(job, old, policy)), tuple(elastic.beyond_the_queue(job, old)))
        if info is None or policy is None:
            return findings
        new = elastic.check_new(info, policy) if old is None else ()
        return findings + Findings((*new, *elastic.check_patches(info)))

    def build(self, info: Info, ctx: Context) -> Sequence[Component]:
        """Return the autoscaler of a job that is to run, if the policy has metrics."""
        policy = info.runtime.elastic_policy
        metrics = _metrics(policy)
        if policy is None or not metrics or info.job.is_suspended:
            return ()
        return (_autoscaler(info.job, policy, metrics),)

    def upkeep(self, job: api.TrainJob, runtime: api.RuntimeSpec, ctx: Context) -> Sequence[Address]:
        """Return the autoscaler: without it the job would keep its size."""
        return (Address(AUTOSCALERS, job.key),) if _metrics(runtime.elastic_policy) else ()

    def removals(self, job: api.TrainJob, ctx: Context) -> Sequence[Removal]:
        """Return the autoscaler: it would scale what does not run."""
        found = ctx.lookup(AUTOSCALERS, job.key)
        ours = found and found.metadata.is_controlled_by(job.metadata.uid) and not found.metadata.deletion_timestamp
        return (Removal.of(AUTOSCALERS, found),) if found and ours else ()

    def size(self, job: api.TrainJob, runtime: api.RuntimeSpec, ctx: Context) -> Size | None:
        """Return the size of an elastic job."""
        policy = runtime.elastic_policy
        name = _trainer_name(runtime) if policy else None
        if policy is None or name is None:
            return None
        nodes = ctx.lookup(NODE_JOBS, Key(job.metadata.namespace, f"{job.metadata.name}-{name}-0"))
        counts = nodes.status if nodes and nodes.metadata.labels.get(api.ELASTIC_LABEL) else NodeCounts()
        limits = policy.range_of(job)
        selector = {jobset.JOBSET_NAME: job.metadata.name, jobset.REPLICATED_JOB_NAME: name}
        status = api.ElasticStatus(
            min_nodes=limits.min_nodes,
            max_nodes=limits.max_nodes,
            desired_nodes=policy.nodes_of(job),
            observed_nodes=counts.ready + counts.succeeded,
            selector=",".join(f"{key}={value}" for key, value in selector.items()),
        )
        return Size(name, status, is_open=not counts.succeeded)


def _train_job(job: Object) -> Sequence[Key]:
    name = job.metadata.labels.get(api.ELASTIC_LABEL)
    return (Key(job.metadata.namespace, name),) if name else ()


def _trainer_name(runtime: api.RuntimeSpec) -> str | None:
    template: Json = msgspec.json.decode(runtime.template.spec)
    jobs = template.get("replicatedJobs") or ()
    return next((job["name"] for job in jobs if step_of(job).name == api.ANCESTOR_TRAINER), None)


def _metrics(policy: api.ElasticPolicy | None) -> list[Any]:
    return (msgspec.json.decode(policy.metrics) if policy and policy.metrics else None) or []


def _autoscaler(job: api.TrainJob, policy: api.ElasticPolicy, metrics: list[Any]) -> Component:
    limits = policy.range_of(job)
    spec: Json = {
        "scaleTargetRef": {"apiVersion": api.API_VERSION, "kind": "TrainJob", "name": job.metadata.name},
        "minReplicas": limits.min_nodes,
        "maxReplicas": limits.max_nodes,
        "metrics": metrics,
    }
    return Component.of(job, AUTOSCALERS, spec=spec)
