"""
Which replicated jobs may run by now: startup order and dependencies.

Three contracts share the question and differ in the answer. `startupPolicyOrder: InOrder` is a queue: at most one
replicated job, the first that has not started, may proceed. Rules (KEP-672) make it a queue of groups, each waited for
until it is Ready or Succeeded; a replicated job that no rule names comes last. `dependsOn` is a graph: everyone whose
parents are far enough may. All judge by the counters taken at the start of the pass.

The order of the rules counts, not that of the replicated jobs. Nobody waits for the last group, so all have started
when it has, whatever its rule says.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ktrain.api.jobset import JobSetSpec, ReplicatedJob, ReplicatedJobStatus, StartupPolicy


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
    policy = spec.startup_policy
    if policy is not None and policy.startup_policy_order == "InOrder":
        return _in_order(spec, _groups(spec, policy), by_name)
    return _by_dependencies(spec, by_name)


@dataclass(frozen=True, slots=True)
class _Group:
    """Replicated jobs that start together, and how far they must be for the next group to start."""

    members: tuple[ReplicatedJob, ...]
    status: str = "Ready"

    def is_done(self, counters: dict[str, ReplicatedJobStatus]) -> bool:
        return all(_reached(rj, self.status, counters) for rj in self.members)


def _groups(spec: JobSetSpec, policy: StartupPolicy) -> list[_Group]:
    if not policy.rules:
        return [_Group((rj,)) for rj in spec.replicated_jobs]
    by_name = {rj.name: rj for rj in spec.replicated_jobs}
    groups = []
    for rule in policy.rules:
        members = tuple(by_name.pop(name) for name in rule.target_replicated_jobs if name in by_name)
        groups.append(_Group(members, rule.wait_for_replicated_jobs_status))
    if by_name:
        groups.append(_Group(tuple(by_name.values())))
    groups[-1] = replace(groups[-1], status="Ready")
    return groups


def _in_order(spec: JobSetSpec, groups: Iterable[_Group], counters: dict[str, ReplicatedJobStatus]) -> StartPlan:
    waiting = next((group for group in groups if not group.is_done(counters)), None)
    everyone = spec.replicated_jobs
    if waiting is None:
        return StartPlan(Stage.COMPLETED, running=(), existing=everyone if spec.suspend else ())
    members = waiting.members
    return StartPlan(Stage.IN_PROGRESS, running=members, existing=everyone if spec.suspend else members)


def _by_dependencies(spec: JobSetSpec, counters: dict[str, ReplicatedJobStatus]) -> StartPlan:
    replicated_jobs = {rj.name: rj for rj in spec.replicated_jobs}

    def holds(name: str, status: str) -> bool:
        parent = replicated_jobs.get(name)
        return parent is not None and _reached(parent, status, counters)

    ready = tuple(
        rj for rj in spec.replicated_jobs if all(holds(parent.name, parent.status) for parent in rj.depends_on)
    )
    return StartPlan(Stage.UNORDERED, running=ready, existing=ready)


def _reached(rj: ReplicatedJob, status: str, counters: dict[str, ReplicatedJobStatus]) -> bool:
    """
    Whether a replicated job is as far as another one waits for.

    A Job that has ended counts as ready: a short-lived one may never be seen so. The end is called Complete by
    dependsOn and Succeeded by rules.
    """
    entry = counters[rj.name]
    if status in ("Complete", "Succeeded"):
        return rj.replicas == entry.succeeded
    return rj.replicas == entry.ready + entry.succeeded + entry.failed
