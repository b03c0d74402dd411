"""
Which pods of a Job are finished, and how they count: exactly once, whatever crashes in between.

A finished pod is first recorded by UID in `status.uncountedTerminatedPods` (or, when an index succeeded, by index),
then loses its tracking finalizer, then moves into the counters. Each step can be repeated (KEP-2307).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from . import indexes
from .types import INDEX_FAILURE_COUNT, INDEX_KEY, TRACKING_FINALIZER, Job, OnExitCodes, PodFailureRule

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ktrain.api.core import ContainerStatus, Pod


@dataclass(frozen=True, slots=True)
class Verdict:
    """What `podFailurePolicy` says of one failed pod. `rule` is None when no rule matched."""

    action: str = "Count"
    rule: int | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Tally:
    """The state of a Job's counters after looking at its pods."""

    active: tuple[Pod, ...]
    terminating: int
    ready: int
    succeeded: int
    failed: int
    completed_indexes: frozenset[int]
    failed_indexes: frozenset[int]
    uncounted_succeeded: frozenset[str]
    uncounted_failed: frozenset[str]
    finished: tuple[Pod, ...]
    """Pods whose finalizer may go once the status with their UIDs is stored."""
    newly_failed: tuple[Pod, ...]
    newly_succeeded: tuple[Pod, ...]
    fail_job: tuple[Pod, Verdict] | None

    @property
    def total_succeeded(self) -> int:
        """Successes, recorded ones included."""
        return self.succeeded + len(self.uncounted_succeeded)

    @property
    def total_failed(self) -> int:
        """Failures, recorded ones included."""
        return self.failed + len(self.uncounted_failed)


def is_terminal(pod: Pod) -> bool:
    """Whether the pod's phase can no longer change."""
    return pod.status.phase in ("Succeeded", "Failed")


def is_active(pod: Pod) -> bool:
    """Whether the pod still works for its Job."""
    return not is_terminal(pod) and pod.metadata.deletion_timestamp is None


def is_failed(job: Job, pod: Pod) -> bool:
    """By default a deleted pod has failed at once; with podReplacementPolicy Failed only its phase says so."""
    if pod.status.phase == "Failed":
        return True
    replaced_early = job.spec.pod_replacement_policy == "TerminatingOrFailed"
    return replaced_early and pod.metadata.deletion_timestamp is not None and pod.status.phase != "Succeeded"


def is_tracked(pod: Pod) -> bool:
    """Whether the pod still waits to be counted."""
    return TRACKING_FINALIZER in pod.metadata.finalizers


def completion_index(pod: Pod) -> int | None:
    """The pod's completion index, None if it has none or a malformed one."""
    return _number(pod.metadata.annotations.get(INDEX_KEY, ""))


def index_failures(pod: Pod) -> int:
    """How often the pod's index had failed before this pod (KEP-3850)."""
    return _number(pod.metadata.annotations.get(INDEX_FAILURE_COUNT, "")) or 0


def _number(text: str) -> int | None:
    """Read what anybody may have written; an int32 has at most ten digits."""
    return int(text) if text.isdecimal() and len(text) <= 10 else None


def finish_time(pod: Pod) -> datetime | None:
    """When the pod ended: its last container's end, else the best substitute there is."""
    ends = [
        s.state.terminated.finished_at for s in _statuses(pod) if s.state.terminated and s.state.terminated.finished_at
    ]
    if ends:
        return max(ends)
    ready = next((c for c in pod.status.conditions if c.type == "Ready" and c.status == "False"), None)
    if ready is not None and ready.last_transition_time is not None:
        return ready.last_transition_time
    if pod.metadata.deletion_timestamp is not None:
        return pod.metadata.deletion_timestamp - timedelta(seconds=pod.metadata.deletion_grace_period_seconds or 0)
    return pod.metadata.creation_timestamp


def tally(job: Job, pods: Sequence[Pod], *, ending: bool) -> Tally:
    """Look at the Job's pods. `ending`: the Job is failing, so whatever still runs has failed."""
    counts = _Counts(job, pods)
    for pod in pods:
        if is_tracked(pod):
            counts.take(pod, ending=ending)
    active = tuple(pod for pod in pods if is_active(pod))
    return Tally(
        active=active,
        terminating=sum(not is_terminal(pod) and pod.metadata.deletion_timestamp is not None for pod in pods),
        ready=sum(any(c.type == "Ready" and c.is_true for c in pod.status.conditions) for pod in active),
        succeeded=counts.succeeded,
        failed=counts.failed,
        completed_indexes=frozenset(counts.completed_indexes),
        failed_indexes=frozenset(counts.failed_indexes),
        uncounted_succeeded=frozenset(counts.uncounted_succeeded),
        uncounted_failed=frozenset(counts.uncounted_failed),
        finished=tuple(counts.finished),
        newly_failed=tuple(counts.newly_failed),
        newly_succeeded=tuple(counts.newly_succeeded),
        fail_job=counts.fail_job,
    )


class _Counts:
    """The working copy of a Job's counters during one look at its pods."""

    def __init__(self, job: Job, pods: Sequence[Pod]) -> None:
        self.job = job
        status = job.status
        limit = job.spec.completions or 0
        tracked = {pod.metadata.uid for pod in pods if is_tracked(pod)}
        recorded = status.uncounted_terminated_pods
        recorded_succeeded = set(recorded.succeeded) if recorded else set()
        recorded_failed = set(recorded.failed) if recorded else set()
        # A recorded pod without finalizer, or gone, went through all steps but the last.
        self.uncounted_succeeded = recorded_succeeded & tracked
        self.uncounted_failed = recorded_failed & tracked
        self.completed_indexes = set(indexes.parse(status.completed_indexes, limit))
        self.failed_indexes = set(indexes.parse(status.failed_indexes or "", limit))
        self.succeeded = status.succeeded + len(recorded_succeeded - tracked)
        self.failed = status.failed + len(recorded_failed - tracked)
        self.finished: list[Pod] = []
        self.newly_failed: list[Pod] = []
        self.newly_succeeded: list[Pod] = []
        self.fail_job: tuple[Pod, Verdict] | None = None

    def take(self, pod: Pod, *, ending: bool) -> None:
        uid = pod.metadata.uid
        if pod.status.phase == "Succeeded" and uid not in self.uncounted_failed:
            self.finished.append(pod)
            self._succeed(pod)
        elif is_failed(self.job, pod) or (ending and pod.metadata.deletion_timestamp is not None):
            self.finished.append(pod)
            if uid not in self.uncounted_failed:
                self._fail(pod)

    def _succeed(self, pod: Pod) -> None:
        if not self.job.is_indexed:
            if pod.metadata.uid not in self.uncounted_succeeded:
                self.uncounted_succeeded.add(pod.metadata.uid)
                self.newly_succeeded.append(pod)
            return
        index = completion_index(pod)
        if index is None or index >= (self.job.spec.completions or 0):
            return  # scaled away meanwhile: its success is nobody's
        if index not in self.completed_indexes:
            self.completed_indexes.add(index)
            self.newly_succeeded.append(pod)

    def _fail(self, pod: Pod) -> None:
        index = completion_index(pod) if self.job.is_indexed else None
        if self.job.is_indexed and (index is None or index >= (self.job.spec.completions or 0)):
            return
        verdict = judge(self.job, pod)
        if verdict.action == "FailJob" and self.fail_job is None:
            self.fail_job = (pod, verdict)
        if verdict.action == "Ignore":
            return
        self.uncounted_failed.add(pod.metadata.uid)
        self.newly_failed.append(pod)
        limit = self.job.spec.backoff_limit_per_index
        if index is None or limit is None:
            return
        if verdict.action == "FailIndex" or index_failures(pod) >= limit:
            self.failed_indexes.add(index)


def judge(job: Job, pod: Pod) -> Verdict:
    """Apply `podFailurePolicy` to a failed pod: the first matching rule decides, without one it counts."""
    if job.spec.pod_failure_policy is None:
        return Verdict()
    for number, rule in enumerate(job.spec.pod_failure_policy.rules):
        detail = _match(rule, pod, number)
        if detail:
            return Verdict(rule.action, number, detail)
    return Verdict()


def _match(rule: PodFailureRule, pod: Pod, number: int) -> str:
    where = f"{pod.metadata.namespace}/{pod.metadata.name}"
    tail = f"matching {rule.action} rule at index {number}"
    if rule.on_exit_codes is not None:
        for status in _statuses(pod):
            ended = status.state.terminated
            if ended and ended.exit_code and _matches_code(rule.on_exit_codes, status.name, ended.exit_code):
                return f"Container {status.name} for pod {where} failed with exit code {ended.exit_code} {tail}"
        return ""
    for wanted in rule.on_pod_conditions:
        if any(c.type == wanted.type and c.status == wanted.status for c in pod.status.conditions):
            return f"Pod {where} has condition {wanted.type} {tail}"
    return ""


def _matches_code(rule: OnExitCodes, container: str, code: int) -> bool:
    if rule.container_name is not None and rule.container_name != container:
        return False
    return (code in rule.values) == (rule.operator == "In")


def _statuses(pod: Pod) -> Iterable[ContainerStatus]:
    yield from pod.status.container_statuses
    yield from pod.status.init_container_statuses
