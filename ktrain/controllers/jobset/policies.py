"""
Success and failure policies: when a JobSet is done, and what a failed Job means for all of it.

A failure policy only writes the status. A restart raises `restarts`; from the next pass on the Jobs there are belong to
a previous attempt, are deleted, and their slots are filled again. So a crash at any point neither loses a restart nor
doubles it: the count is stored by one write under the object's resource version.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from ktrain.api.jobset import REPLICATED_JOB_NAME, ChildJob, FailurePolicy, FailurePolicyRule, JobSetSpec
from ktrain.api.meta import Condition, find_condition
from ktrain.api.schema.patterns import compile_pattern

from .attempts import restarted, slot_of
from .conditions import Notice, StatusDraft, fail, restarting
from .errors import Undecidable

if TYPE_CHECKING:
    from collections.abc import Sequence

RESTART_ALL: Final = "RestartJobSet"
FAIL_JOBSET: Final = "FailJobSet"
RESTART_JOB_ACTIONS: Final = ("RestartJob", "RestartJobAndIgnoreMaxRestarts")
REACHED_MAX_RESTARTS: Final = "jobset failed due to reaching max number of restarts"
_COUNTED: Final = (RESTART_ALL, "RestartJob")
"""Actions that use up one of `maxRestarts`."""

_LAST: Final = datetime.max.replace(tzinfo=UTC)


def is_successful(spec: JobSetSpec, successful: Sequence[ChildJob]) -> bool:
    """
    Whether the success policy is satisfied. Ask only when a Job has succeeded and none has failed.

    `All` expects one success for each replica of the targets, so targets without replicas are satisfied by any success.
    """
    policy = spec.success_policy
    targets = () if policy is None else policy.target_replicated_jobs
    matching = sum(_is_target(job.metadata.labels.get(REPLICATED_JOB_NAME, ""), targets) for job in successful)
    if policy is not None and policy.operator == "Any":
        return matching >= 1
    return matching >= sum(rj.replicas for rj in spec.replicated_jobs if _is_target(rj.name, targets))


def _is_target(name: str, targets: Sequence[str]) -> bool:
    return not targets or name in targets


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the failure policy demands, because of which Job, and by which rule (None: no rule matched)."""

    action: str
    job: ChildJob
    rule: str | None = None


def judge(policy: FailurePolicy, failed: Sequence[ChildJob]) -> Verdict:
    """
    Find the rule that applies: the first one that any failed Job satisfies, whoever failed first otherwise.

    Within a rule the Job that failed first counts. Without a match, all Jobs are restarted.
    """
    in_time = sorted(failed, key=_failure_time)
    for rule in policy.rules:
        job = next((job for job in in_time if _satisfies(job, rule)), None)
        if job is not None:
            return Verdict(rule.action, job, rule.name)
    return Verdict(RESTART_ALL, in_time[0])


def _failed_condition(job: ChildJob) -> Condition:
    return find_condition(job.status.conditions, "Failed") or Condition("Failed")


def _failure_time(job: ChildJob) -> datetime:
    return _failed_condition(job).last_transition_time or _LAST


def _satisfies(job: ChildJob, rule: FailurePolicyRule) -> bool:
    condition = _failed_condition(job)
    patterns = rule.on_job_failure_message_patterns
    name = job.metadata.labels.get(REPLICATED_JOB_NAME)
    return (
        (not rule.on_job_failure_reasons or condition.reason in rule.on_job_failure_reasons)
        and name is not None
        and _is_target(name, rule.target_replicated_jobs)
        and (not patterns or any(_finds(pattern, condition.message) for pattern in patterns))
    )


def _finds(pattern: str, message: str) -> bool:
    """
    Search for an RE2 pattern anywhere in the message. A pattern that is no RE2 finds nothing.

    Patterns come from users: Python's `re` knows another syntax, and one that backtracks would stop the controller for
    everybody.
    """
    try:
        return compile_pattern(pattern).matches(message)
    except ValueError:
        return False


def apply_failure_policy(
    draft: StatusDraft, spec: JobSetSpec, failed: Sequence[ChildJob], *, single_jobs: bool = False
) -> None:
    """
    Answer failed Jobs, of which there is at least one: fail the JobSet or count one restart.

    `single_jobs`: rules may restart single Jobs (gate RestartJob), whose restarts share the one limit.

    Raises:
        Undecidable: The rule that applies restarts single Jobs, and may not.
    """
    policy = spec.failure_policy
    if policy is None:
        first = min(failed, key=_failure_time).metadata.name
        fail(draft, "FailedJobs", f"jobset failed due to one or more job failures (first failed job: {first})")
        return
    verdict = judge(policy, failed)
    suffix = f"(first failed job: {verdict.job.metadata.name})"
    message = f"applying {verdict.action} failure policy action {suffix}"
    if verdict.action in RESTART_JOB_ACTIONS and not single_jobs:
        raise Undecidable(
            f"{verdict.action} failure policy action cannot be used when the feature gate RestartJob is disabled"
        )
    if verdict.action == FAIL_JOBSET:
        fail(draft, "FailJobSetFailurePolicyAction", message)
    elif verdict.action in _COUNTED and _used(draft, single_jobs=single_jobs) >= policy.max_restarts:
        fail(draft, "ReachedMaxRestarts", f"{REACHED_MAX_RESTARTS} {suffix}")
    elif verdict.action in RESTART_JOB_ACTIONS:
        _restart_one(draft, spec, verdict, message)
    else:
        _restart_all(draft, verdict, message)


def _used(draft: StatusDraft, *, single_jobs: bool) -> int:
    """How much of `maxRestarts` is used up, over the whole JobSet."""
    alone = sum(sum(entry.job_restarts_count_towards_max) for entry in draft.replicated_jobs) if single_jobs else 0
    return draft.restarts_count_towards_max + alone


def _restart_all(draft: StatusDraft, verdict: Verdict, message: str) -> None:
    draft.restarts += 1
    if verdict.action in _COUNTED:
        draft.restarts_count_towards_max += 1
    reason = "DefaultFailurePolicy" if verdict.rule is None else f"FailurePolicy_{verdict.rule}"
    restarting(draft, reason, message)
    draft.notices.append(Notice("Warning", f"{verdict.action}FailurePolicyAction", message))


def _restart_one(draft: StatusDraft, spec: JobSetSpec, verdict: Verdict, message: str) -> None:
    """Only this Job is made anew: no condition says so, as the JobSet goes on."""
    name, index = slot_of(verdict.job)
    replicas = next(rj.replicas for rj in spec.replicated_jobs if rj.name == name)
    draft.replicated_jobs = tuple(
        restarted(entry, replicas, index, counts=verdict.action in _COUNTED) if entry.name == name else entry
        for entry in draft.replicated_jobs
    )
    draft.notices.append(Notice("Warning", f"{verdict.action}FailurePolicyAction", message))
