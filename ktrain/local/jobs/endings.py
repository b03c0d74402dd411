"""
When a Job is over, and why. The first rule that applies decides, in the order of the upstream controller.

An ending has two steps: the interim condition (`FailureTarget`, `SuccessCriteriaMet`) when it is decided; then, with
the same reason and message, the final one (`Failed`, `Complete`) when no pod is left and all are counted (KEP-3939).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from ktrain.api.meta import find_condition

from . import indexes
from .counting import is_failed
from .failure_policy import judge

if TYPE_CHECKING:
    from .counting import Sight
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


COMPLETED: Final = Ending(
    succeeded=True, reason="CompletionsReached", message="Reached expected number of succeeded pods"
)


def decide_ending(job: Job, sight: Sight, now: datetime) -> Ending | None:
    """Return how the Job ends whatever its pods do next, or None while it goes on."""
    return _decided_before(job) or _failure(job, sight, now) or _success(job, sight)


def is_complete(job: Job, sight: Sight, active: int) -> bool:
    """Whether enough pods have succeeded and none is left, `active` being those that are after this pass."""
    if job.spec.completions is None:
        # A work queue: any of its pods knows when the work is done; the others then finish theirs.
        return sight.succeeded > 0 and active == 0
    return sight.succeeded >= job.spec.completions and active == 0


def deadline_left(job: Job, started: datetime | None, now: datetime) -> timedelta | None:
    """How long the Job may still be active; None without a deadline, or while suspended."""
    if job.spec.active_deadline_seconds is None or started is None or job.spec.suspend:
        return None
    return started + timedelta(seconds=job.spec.active_deadline_seconds) - now


def _decided_before(job: Job) -> Ending | None:
    for type_, succeeded in (("SuccessCriteriaMet", True), ("FailureTarget", False)):
        condition = find_condition(job.status.conditions, type_)
        if condition is not None and condition.is_true:
            return Ending(succeeded, condition.reason, condition.message)
    return None


def _failure(job: Job, sight: Sight, now: datetime) -> Ending | None:
    if message := _failed_by_policy(job, sight):
        return _failed("PodFailurePolicy", message)
    if sight.failed > job.spec.backoff_limit or _restarted_too_often(job, sight):
        return _failed("BackoffLimitExceeded", "Job has reached the specified backoff limit")
    left = deadline_left(job, job.status.start_time, now)
    if left is not None and left <= timedelta(0):
        return _failed("DeadlineExceeded", "Job was active longer than specified deadline")
    return _failed_indexes(job, sight)


def _failed(reason: str, message: str) -> Ending:
    return Ending(succeeded=False, reason=reason, message=message)


def _failed_by_policy(job: Job, sight: Sight) -> str:
    if job.spec.pod_failure_policy is None:
        return ""
    verdicts = (judge(job, pod) for pod in sight.pods if is_failed(job, pod))
    return next((verdict.message for verdict in verdicts if verdict.action == "FailJob"), "")


def _restarted_too_often(job: Job, sight: Sight) -> bool:
    """Containers restarted in place count against the limit only where pods are not replaced (OnFailure)."""
    restarts = sum(
        status.restart_count
        for pod in sight.pods
        if pod.spec.restart_policy == "OnFailure" and pod.status.phase in ("Pending", "Running")
        for status in (*pod.status.container_statuses, *pod.status.init_container_statuses)
    )
    return restarts > 0 if job.spec.backoff_limit == 0 else restarts >= job.spec.backoff_limit


def _failed_indexes(job: Job, sight: Sight) -> Ending | None:
    if not sight.failed_indexes or job.spec.completions is None:
        return None
    failed, limit = len(sight.failed_indexes), job.spec.max_failed_indexes
    if limit is not None and failed > limit:
        return _failed("MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes")
    if failed + len(sight.completed_indexes) >= job.spec.completions:
        return _failed("FailedIndexes", "Job has failed indexes")
    return None


def _success(job: Job, sight: Sight) -> Ending | None:
    if job.spec.success_policy is None or not sight.completed_indexes:
        return None
    for number, rule in enumerate(job.spec.success_policy.rules):
        needed = rule.succeeded_count
        done = len(sight.completed_indexes)
        if rule.succeeded_indexes is not None:
            listed = indexes.parse(rule.succeeded_indexes, job.spec.completions or 0)
            if not listed:
                continue
            done = len(sight.completed_indexes & listed)
            needed = len(listed) if needed is None else min(needed, len(listed))
        if needed is not None and done >= needed:
            return Ending(succeeded=True, reason="SuccessPolicy", message=f"Matched rules at index {number}")
    return None
