"""
In-place restart (gate InPlaceRestart): containers restart, no pod and no Job is made anew.

An agent in each pod holds a barrier, and notes in an annotation of its pod the attempt it is at. When a container
fails, its agent comes back one attempt later. That makes the attempt before it `previous`: all agents in it exit, their
containers restart, and they come back, too. Once all are at the same attempt it is `current`, and the barriers lift.
The controller only compares what agents wrote; that a Job never fails meanwhile is seen to on admission.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktrain.api.jobset import IN_PLACE_RESTART_ATTEMPT

from .conditions import fail
from .errors import Undecidable
from .policies import REACHED_MAX_RESTARTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ktrain.api.jobset import JobSetPod, JobSetSpec

    from .conditions import StatusDraft

STRATEGY = "InPlaceRestart"


def follow_agents(draft: StatusDraft, spec: JobSetSpec, pods: Sequence[JobSetPod]) -> None:
    """
    Note which attempts are over and which one all pods are at; give up after too many.

    Raises:
        Undecidable: An agent wrote no attempt, or nobody can tell how many pods there should be.
    """
    limit = spec.failure_policy.max_restarts if spec.failure_policy is not None else 0
    attempts = list(_attempts(pods))
    latest = max(attempts, default=0)
    # Restarts that do not count towards the limit made the attempts go up as well.
    uncounted = draft.restarts - draft.restarts_count_towards_max
    if _container_restarts(pods) > limit or latest - uncounted > limit:
        fail(draft, "ReachedMaxRestarts", REACHED_MAX_RESTARTS)
        return
    if len(attempts) == _expected_pods(spec) and len(set(attempts)) == 1:
        draft.current_in_place = latest
    elif latest > 0:
        draft.previous_in_place = max(latest - 1, draft.previous_in_place or 0)


def _container_restarts(pods: Iterable[JobSetPod]) -> int:
    statuses = (
        status for pod in pods for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)
    )
    return max((status.restart_count for status in statuses), default=0)


def _attempts(pods: Iterable[JobSetPod]) -> Iterator[int]:
    """Attempts of the pods that have one. A failed pod is being replaced, and its attempt with it."""
    for pod in pods:
        written = pod.metadata.annotations.get(IN_PLACE_RESTART_ATTEMPT)
        if written is None or pod.status.phase == "Failed":
            continue
        if not written.isascii() or not written.isdecimal():
            raise Undecidable(
                f"pod {pod.metadata.name!r} has {written!r} as annotation {IN_PLACE_RESTART_ATTEMPT}, which must be the"
                " number of its attempt: delete the pod and it is made again"
            )
        yield int(written)


def _expected_pods(spec: JobSetSpec) -> int:
    total = 0
    for rj in spec.replicated_jobs:
        job = rj.size
        if job.parallelism is None or job.parallelism != job.completions:
            raise Undecidable(
                f"replicated job {rj.name!r} has parallelism {job.parallelism} and completions {job.completions}, which"
                " must be the same number for in-place restart"
            )
        total += rj.replicas * job.parallelism
    return total
