"""The JobSet plugin's hooks."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from ktrain.api import jobset
from ktrain.api import trainer as api
from ktrain.api.meta import Condition, Key, find_condition
from ktrain.pipeline.errors import PlanError
from ktrain.pipeline.info import host_name
from ktrain.pipeline.points import BUILT, Component, Rule, Watch

from . import rules
from .build import build_job_set
from .state import JOB_SET_STATES, JobSetState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ktrain.pipeline.findings import Findings
    from ktrain.pipeline.info import Info
    from ktrain.pipeline.points import Context

_LABELLED: Final = (api.ANCESTOR_TRAINER, api.ANCESTOR_DATASET_INITIALIZER, api.ANCESTOR_MODEL_INITIALIZER)
_ENDS: Final = (
    (jobset.CONDITION_COMPLETED, api.CONDITION_COMPLETE),
    (jobset.CONDITION_FAILED, api.CONDITION_FAILED),
)


class JobSet:
    """Builds the JobSet of a TrainJob and reports how it does."""

    name: Final = "JobSet"
    rbac: Final = (Rule((jobset.GROUP,), ("jobsets",), (*BUILT, "delete"), reason="JobSets of TrainJobs"),)

    def watches(self) -> Sequence[Watch]:
        """JobSets of TrainJobs, without their templates."""
        return (Watch(JOB_SET_STATES, owned=True),)

    def validate(self, info: Info | None, job: api.TrainJob, old: api.TrainJob | None, ctx: Context) -> Findings:
        """Check patches and names against the runtime."""
        return rules.validate(info, job, old, own_job_set(old or job, ctx))

    def pod_network(self, info: Info, ctx: Context) -> None:
        """Name the pods, and make each replicated job exactly as large as its pod set says; a step is one Job."""
        for pod_set in info.pod_sets:
            if pod_set.ancestor in _LABELLED:
                pod_set.set_replicas(1)
            # With nothing of the plan in it: one that referred to itself would stay until the next garbage collection.
            host = partial(host_name, info.subdomain, info.job.metadata.name, pod_set.name)
            pod_set.endpoints = partial(_hosts, host, pod_set.replicas, pod_set.count)
            pod_set.set_job_field("parallelism", pod_set.count)
            pod_set.set_job_field("completions", pod_set.count)

    def build(self, info: Info, ctx: Context) -> Sequence[Component]:
        """
        Return the JobSet.

        Raises:
            PlanError: Its pods could not be named: the plugins made more of them than validation foresaw.
        """
        for error in rules.pod_name_errors(info, lambda pod_set: pod_set.count):
            raise PlanError(str(error))
        return (Component(JOB_SET_STATES, build_job_set(info)),)

    def terminal_condition(self, job: api.TrainJob, ctx: Context) -> Condition | None:
        """
        Return the JobSet's end under the TrainJob's name for it; reason, message and time are the JobSet's.

        A JobSet may say so by its `terminalState` alone (KEP-2170 decides by that). Without its condition nothing is
        known of the reason.
        """
        child = own_job_set(job, ctx)
        if child is None or child.status is None:
            return None
        for theirs, ours in _ENDS:
            found = find_condition(child.status.conditions, theirs)
            if found and found.is_true:
                return Condition(ours, "True", found.reason, found.message, found.last_transition_time)
        if ended := dict(_ENDS).get(child.status.terminal_state):
            state = child.status.terminal_state
            return Condition(ended, "True", f"JobSet{state}", f"the JobSet's status.terminalState is {state}")
        return None

    def jobs_status(self, job: api.TrainJob, ctx: Context) -> tuple[api.JobStatus, ...] | None:
        """Return the JobSet's counters, all six always there. They count Jobs, not pods."""
        child = own_job_set(job, ctx)
        if child is None:
            return None
        return tuple(
            api.JobStatus(s.name, s.ready, s.succeeded, s.failed, s.active, s.suspended)
            for s in (child.status.replicated_jobs_status if child.status else ())
        )


def own_job_set(job: api.TrainJob, ctx: Context) -> JobSetState | None:
    """Return the JobSet of *job*, if there is one and it is really this job's: the owner's UID decides."""
    child = ctx.lookup(JOB_SET_STATES, Key(job.metadata.namespace, job.metadata.name))
    return child if child and child.metadata.is_controlled_by(job.metadata.uid) else None


def _hosts(host: Callable[[int, int], str], replicas: int, count: int) -> Iterator[str]:
    for replica in range(replicas):
        for pod in range(count):
            yield host(replica, pod)
