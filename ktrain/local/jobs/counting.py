"""
Which pods of a Job are finished, and how they count: exactly once, whatever crashes in between.

A finished pod is first recorded by UID in `status.uncountedTerminatedPods` (or, when an index succeeded, by index),
then loses its tracking finalizer, then moves into the counters. Each step can be repeated (KEP-2307).

`observe` says what is to be seen of the pods, `count` what becomes of the finished ones once it is decided whether the
Job goes on: when it fails, whatever still runs has failed; when it has succeeded, what still runs is let go uncounted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from . import indexes
from .backoff import finish_time
from .failure_policy import judge
from .types import INDEX_FAILURE_COUNT, INDEX_IGNORED_COUNT, INDEX_KEY, TRACKING_FINALIZER, UncountedPods

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ktrain.api.core import Pod

    from .types import Job

MAX_UNCOUNTED: Final = 500
"""UIDs that a status holds at most, so that it stays small; the rest waits for the next pass."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What is to be seen of a Job and its pods, before anything is decided."""

    pods: tuple[Pod, ...]
    active: tuple[Pod, ...]
    terminating: int
    ready: int
    newly_succeeded: tuple[Pod, ...]
    newly_failed: tuple[Pod, ...]
    """Not recorded yet; ignored ones, too."""
    succeeded: int
    """All successes, recorded or not; of an Indexed Job its completed indexes."""
    failed: int
    """All failures that count, recorded or not."""
    completed_indexes: frozenset[int]
    failed_indexes: frozenset[int] | None
    """None without `backoffLimitPerIndex`."""
    waiting: dict[int, Pod]
    """With `backoffLimitPerIndex`: the failed pod of each index that waits for its replacement, and hands it on how
    often the index has failed. It keeps its finalizer until then."""


def is_terminal(pod: Pod) -> bool:
    """Whether the pod's phase can no longer change."""
    return pod.status.phase in ("Succeeded", "Failed")


def is_active(pod: Pod) -> bool:
    """Whether the pod still works for its Job."""
    return not is_terminal(pod) and pod.metadata.deletion_timestamp is None


def is_terminating(pod: Pod) -> bool:
    """Whether the pod is being stopped."""
    return not is_terminal(pod) and pod.metadata.deletion_timestamp is not None


def is_ready(pod: Pod) -> bool:
    """Whether the pod says that it is ready."""
    return any(c.type == "Ready" and c.is_true for c in pod.status.conditions)


def is_failed(job: Job, pod: Pod) -> bool:
    """By default a deleted pod has failed at once; where only failed pods are replaced, its phase must say so."""
    if pod.status.phase == "Failed":
        return True
    return not job.replaces_only_failed and is_terminating(pod)


def is_tracked(pod: Pod) -> bool:
    """Whether the pod still waits to be counted."""
    return TRACKING_FINALIZER in pod.metadata.finalizers


def completion_index(pod: Pod) -> int | None:
    """The pod's completion index, None if it has none or a malformed one."""
    return _number(pod.metadata.annotations.get(INDEX_KEY, ""))


def valid_index(job: Job, pod: Pod) -> int | None:
    """The pod's completion index if the Job has such an index."""
    index = completion_index(pod)
    return index if index is not None and index < (job.spec.completions or 0) else None


def index_failures(pod: Pod) -> tuple[int, int]:
    """How often the pod's index had failed before this pod, and how often that was ignored (KEP-3850)."""
    notes = pod.metadata.annotations
    return _number(notes.get(INDEX_FAILURE_COUNT, "")) or 0, _number(notes.get(INDEX_IGNORED_COUNT, "")) or 0


def _number(text: str) -> int | None:
    """Read what anybody may have written; an int32 has at most ten digits."""
    return int(text) if text.isdecimal() and len(text) <= 10 and int(text) < 2**31 else None


def observe(job: Job, pods: Sequence[Pod]) -> Sight:
    """Look at the pods of a Job."""
    recorded = job.status.uncounted_terminated_pods or UncountedPods()
    known = {*recorded.succeeded, *recorded.failed}
    fresh = [pod for pod in pods if is_tracked(pod) and pod.metadata.uid not in known and _belongs(job, pod)]
    succeeded = tuple(pod for pod in fresh if pod.status.phase == "Succeeded")
    failed = tuple(pod for pod in fresh if is_failed(job, pod))
    active = tuple(pod for pod in pods if is_active(pod))
    completed = _completed_indexes(job, pods)
    lost = _failed_indexes(job, pods) if job.spec.backoff_limit_per_index is not None else None
    total = job.status.succeeded + len(succeeded) + len(recorded.succeeded)
    return Sight(
        pods=tuple(pods),
        active=active,
        terminating=sum(map(is_terminating, pods)),
        ready=sum(map(is_ready, active)),
        newly_succeeded=succeeded,
        newly_failed=failed,
        succeeded=len(completed) if job.is_indexed else total,
        failed=job.status.failed + len(recorded.failed) + sum(judge(job, pod).counts for pod in failed),
        completed_indexes=completed,
        failed_indexes=lost,
        waiting={} if lost is None else _waiting(job, pods, active, completed | lost),
    )


def _belongs(job: Job, pod: Pod) -> bool:
    return not job.is_indexed or valid_index(job, pod) is not None


def _completed_indexes(job: Job, pods: Iterable[Pod]) -> frozenset[int]:
    if not job.is_indexed:
        return frozenset()
    fresh = (valid_index(job, pod) for pod in pods if pod.status.phase == "Succeeded" and is_tracked(pod))
    return job.completed_indexes.union(index for index in fresh if index is not None)


def _failed_indexes(job: Job, pods: Iterable[Pod]) -> frozenset[int]:
    found = set(indexes.parse(job.status.failed_indexes or "", job.spec.completions or 0))
    limit = job.spec.backoff_limit_per_index or 0
    for pod in pods:
        index = valid_index(job, pod)
        if index is None or not is_tracked(pod) or not is_failed(job, pod):
            continue
        verdict = judge(job, pod)
        if verdict.action == "FailIndex" or (verdict.counts and index_failures(pod)[0] >= limit):
            found.add(index)
    return frozenset(found)


def _waiting(job: Job, pods: Iterable[Pod], active: Iterable[Pod], done: frozenset[int]) -> dict[int, Pod]:
    # Where a pod is active, the count of failures has been handed on.
    taken = done.union(index for pod in active if (index := completion_index(pod)) is not None)
    found: dict[int, Pod] = {}
    for pod in pods:
        index = valid_index(job, pod)
        if index is None or index in taken or not is_tracked(pod) or not is_failed(job, pod):
            continue
        known = found.get(index)
        if known is None or (
            sum(index_failures(known)) <= sum(index_failures(pod)) and finish_time(known) <= finish_time(pod)
        ):
            found[index] = pod
    return found


@dataclass(slots=True)
class Count:
    """What becomes of the finished pods."""

    succeeded: int
    """Counted for good, by a finalizer that is gone."""
    failed: int
    completed_indexes: set[int]
    uncounted_succeeded: list[str] = field(default_factory=list)
    uncounted_failed: list[str] = field(default_factory=list)
    release: list[Pod] = field(default_factory=list)
    """Pods whose finalizer may go once the status with their UIDs is stored."""
    is_full: bool = False
    """Whether there may be more to count than one status may hold."""


def count(job: Job, sight: Sight, *, is_over: bool, has_failed: bool) -> Count:
    """Count the finished pods of a Job that is over, or has failed, or goes on."""
    recorded = job.status.uncounted_terminated_pods or UncountedPods()
    tracked = {pod.metadata.uid for pod in sight.pods if is_tracked(pod)}
    # A recorded pod without finalizer, or gone, went through all steps but the last.
    result = Count(
        succeeded=job.status.succeeded + sum(uid not in tracked for uid in recorded.succeeded),
        failed=job.status.failed + sum(uid not in tracked for uid in recorded.failed),
        completed_indexes=set(job.completed_indexes),
        uncounted_succeeded=[uid for uid in recorded.succeeded if uid in tracked],
        uncounted_failed=[uid for uid in recorded.failed if uid in tracked],
    )
    fresh = 0
    for pod in _in_order(job, sight.pods):
        failed = is_failed(job, pod)
        if not is_tracked(pod) or not _may_go(job, sight, pod, failed=failed, is_over=is_over):
            continue
        result.release.append(pod)
        fresh += _take(job, pod, result, failed=failed or has_failed)
        if fresh + len(result.uncounted_succeeded) + len(result.uncounted_failed) >= MAX_UNCOUNTED:
            result.is_full = True
            break
    return result


def _in_order(job: Job, pods: Sequence[Pod]) -> Sequence[Pod]:
    return sorted(pods, key=lambda pod: completion_index(pod) or 0) if job.is_indexed else pods


def _may_go(job: Job, sight: Sight, pod: Pod, *, failed: bool, is_over: bool) -> bool:
    if is_over or job.metadata.deletion_timestamp is not None or pod.status.phase == "Succeeded":
        return True
    if not failed:
        return False
    waiting = sight.waiting.get(completion_index(pod) or 0)
    return waiting is None or waiting.metadata.uid != pod.metadata.uid


def _take(job: Job, pod: Pod, result: Count, *, failed: bool) -> bool:
    """Record one pod; returns whether a new index has succeeded."""
    uid = pod.metadata.uid
    index = valid_index(job, pod) if job.is_indexed else None
    if pod.status.phase == "Succeeded" and uid not in result.uncounted_failed:
        if job.is_indexed:
            is_new = index is not None and index not in result.completed_indexes
            result.completed_indexes.update([index] if index is not None else [])
            return is_new
        if uid not in result.uncounted_succeeded:
            result.uncounted_succeeded.append(uid)
    elif failed and uid not in result.uncounted_failed and _belongs(job, pod) and judge(job, pod).counts:
        result.uncounted_failed.append(uid)
    return False
