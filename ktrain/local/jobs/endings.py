"""
When a Job is over, and why. The first rule that applies decides, in the order of the upstream controller.

An ending has two steps: the interim condition (`FailureTarget`, `SuccessCriteriaMet`) when it is decided; then, with
the same reason and message, the final one (`Failed`, `Complete`) when no pod is left and all are counted (KEP-3939).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from ktrain.api.meta import find_condition

from . import indexes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.core import Pod

    from .counting import Tally
    from .types import Job


@dataclass(frozen=True, slots=True)
class Ending:
    """How a Job ends."""

    succeeded: bool
    reason: str
    message: str

    @property
    def interim(self) -> str:
        """The condition type while its pods go."""
        return "SuccessCriteriaMet" if self.succeeded else "FailureTarget"

    @property
    def final(self) -> str:
        """The condition type once all is counted."""
        return "Complete" if self.succeeded else "Failed"


def decided_before(job: Job) -> Ending | None:
    """The ending that an earlier pass stored."""
    for type_, succeeded in (("FailureTarget", False), ("SuccessCriteriaMet", True)):
        condition = find_condition(job.status.conditions, type_)
        if condition is not None and condition.is_true:
            return Ending(succeeded, condition.reason, condition.message)
    return None


def deadline_left(job: Job, now: datetime) -> timedelta | None:
    """How long the Job may still be active; None without a deadline, or while suspended."""
    if job.spec.active_deadline_seconds is None or job.status.start_time is None or job.spec.suspend:
        return None
    return job.status.start_time + timedelta(seconds=job.spec.active_deadline_seconds) - now


def decide_ending(job: Job, seen: Tally, pods: Sequence[Pod], now: datetime) -> Ending | None:
    """Return how the Job ends, or None while it goes on."""
    return decided_before(job) or _failure(job, seen, pods, now) or _success(job, seen)


def _failure(job: Job, seen: Tally, pods: Sequence[Pod], now: datetime) -> Ending | None:
    if seen.fail_job is not None:
        return Ending(succeeded=False, reason="PodFailurePolicy", message=seen.fail_job[1].detail)
    if seen.total_failed > job.spec.backoff_limit or _restarted_too_often(job, pods):
        return Ending(
            succeeded=False, reason="BackoffLimitExceeded", message="Job has reached the specified backoff limit"
        )
    left = deadline_left(job, now)
    if left is not None and left <= timedelta(0):
        return Ending(
            succeeded=False, reason="DeadlineExceeded", message="Job was active longer than specified deadline"
        )
    return _failed_indexes(job, seen)


def _failed_indexes(job: Job, seen: Tally) -> Ending | None:
    if not seen.failed_indexes or job.spec.completions is None:
        return None
    if job.spec.max_failed_indexes is not None and len(seen.failed_indexes) > job.spec.max_failed_indexes:
        return Ending(
            succeeded=False,
            reason="MaxFailedIndexesExceeded",
            message="Job has exceeded the specified maximal number of failed indexes",
        )
    if len(seen.failed_indexes | seen.completed_indexes) >= job.spec.completions:
        return Ending(succeeded=False, reason="FailedIndexes", message="Job has failed indexes")
    return None


def _restarted_too_often(job: Job, pods: Sequence[Pod]) -> bool:
    """Containers restarted in place count against the limit only where pods are not replaced (OnFailure)."""
    restarts = sum(
        status.restart_count
        for pod in pods
        if pod.spec.restart_policy == "OnFailure" and pod.status.phase in ("Pending", "Running")
        for status in (*pod.status.container_statuses, *pod.status.init_container_statuses)
    )
    return restarts > 0 if job.spec.backoff_limit == 0 else restarts >= job.spec.backoff_limit


def _success(job: Job, seen: Tally) -> Ending | None:
    rule = _matched_success_rule(job, seen.completed_indexes)
    if rule is not None:
        return Ending(succeeded=True, reason="SuccessPolicy", message=f"Matched rules at index {rule}")
    done = len(seen.completed_indexes) if job.is_indexed else seen.total_succeeded
    if job.spec.completions is None:
        reached = done > 0 and not seen.active
    else:
        reached = done >= job.spec.completions and (not seen.active or job.spec.completions == 0)
    if not reached:
        return None
    return Ending(succeeded=True, reason="CompletionsReached", message="Reached expected number of succeeded pods")


def _matched_success_rule(job: Job, completed: frozenset[int]) -> int | None:
    if job.spec.success_policy is None or not completed:
        return None
    for number, rule in enumerate(job.spec.success_policy.rules):
        wanted = completed
        needed = rule.succeeded_count
        if rule.succeeded_indexes is not None:
            listed = indexes.parse(rule.succeeded_indexes, job.spec.completions or 0)
            wanted = completed & listed
            needed = len(listed) if needed is None else needed
        if needed is not None and len(wanted) >= needed:
            return number
    return None
