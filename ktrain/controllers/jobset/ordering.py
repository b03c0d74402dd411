"""
Which replicated jobs may run by now: startup order and dependencies.

Two contracts share the question and differ in the answer. `startupPolicyOrder: InOrder` is a queue: at most one
replicated job, the first that has not started, may proceed. `dependsOn` is a graph: everyone whose parents are far
enough may. Both judge by the counters taken at the start of the pass. A further contract is one more function from spec
and counters to a `StartPlan`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ktrain.api.jobset import JobSetSpec, ReplicatedJob, ReplicatedJobStatus


class Stage(Enum):
    """How far a startup order has come. Conditions tell it to the user; dependsOn has none."""

    UNORDERED = "unordered"
    IN_PROGRESS = "in progress"
    COMPLETED = "completed"


@dataclass(frozen=True, slots=True)
class StartPlan:
    """
    What may run in this pass.

    `running` may have Jobs that are not suspended, in spec order. `existing` may have Jobs at all: while the JobSet is
    suspended, order holds nobody back from existing, but dependencies do.
    """

    stage: Stage
    running: tuple[ReplicatedJob, ...]
    existing: tuple[ReplicatedJob, ...]


def start_plan(spec: JobSetSpec, counters: Iterable[ReplicatedJobStatus]) -> StartPlan:
    """Decide what may run, given the counters of the current attempt, one entry for each replicated job."""
    by_name = {entry.name: entry for entry in counters}
    if spec.startup_policy is not None and spec.startup_policy.startup_policy_order == "InOrder":
        return _in_order(spec, by_name)
    return _by_dependencies(spec, by_name)


def _in_order(spec: JobSetSpec, counters: dict[str, ReplicatedJobStatus]) -> StartPlan:
    waiting = next((rj for rj in spec.replicated_jobs if not _has_started(rj, counters)), None)
    everyone = spec.replicated_jobs
    if waiting is None:
        return StartPlan(Stage.COMPLETED, running=(), existing=everyone if spec.suspend else ())
    return StartPlan(Stage.IN_PROGRESS, running=(waiting,), existing=everyone if spec.suspend else (waiting,))


def _by_dependencies(spec: JobSetSpec, counters: dict[str, ReplicatedJobStatus]) -> StartPlan:
    replicated_jobs = {rj.name: rj for rj in spec.replicated_jobs}

    def holds(name: str, status: str) -> bool:
        parent = replicated_jobs.get(name)
        if parent is None:
            return False
        if status == "Complete":
            return counters[name].succeeded == parent.replicas
        return _has_started(parent, counters)

    ready = tuple(
        rj for rj in spec.replicated_jobs if all(holds(parent.name, parent.status) for parent in rj.depends_on)
    )
    return StartPlan(Stage.UNORDERED, running=ready, existing=ready)


def _has_started(rj: ReplicatedJob, counters: dict[str, ReplicatedJobStatus]) -> bool:
    """A Job has started when it is ready or has ended: a short-lived one may never be seen ready."""
    entry = counters[rj.name]
    return rj.replicas == entry.ready + entry.succeeded + entry.failed
