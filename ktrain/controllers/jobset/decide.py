"""
The decision: from what was observed to what shall be done, without side effects.

The steps and their order are the contract. Failure comes before success and before any creation; a pass that ends or
restarts a JobSet deletes and creates nothing for that reason: the write of the status brings the next pass, which acts
on it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Final, TypedDict

from ktrain.api.jobset import ChildJob, JobSet, JobSetStatus

from . import conditions, in_place
from .attempts import JobAttempts
from .buckets import Buckets, count, sort_jobs
from .children import Slot, build_service, has_dns, slots, subdomain
from .conditions import Notice, StatusDraft
from .elastic import Resize, to_resize
from .errors import Undecidable
from .gates import OFF, Gates
from .ordering import Stage, StartPlan, start_plan
from .policies import apply_failure_policy, is_successful
from .suspend import Wake, to_resume, to_suspend
from .volumes import build_claims

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ktrain.api.jobset import JobSetPod, JobSetSpec
    from ktrain.api.meta import Json

MAX_CREATIONS: Final = 500
"""Jobs made in one pass. `replicas` may be two billion, and other JobSets wait for their turn."""


@dataclass(frozen=True, slots=True)
class Observed:
    """
    A JobSet that is ours to work on, and the Jobs that it controls by UID.

    `services` and `claims` are the names taken in its namespace, by whomever, among those that it would use. `pods` are
    those labelled as its own, and needed only where containers restart in place.
    """

    jobset: JobSet
    jobs: tuple[ChildJob, ...] = ()
    services: frozenset[str] = frozenset()
    claims: frozenset[str] = frozenset()
    pods: tuple[JobSetPod, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do, in the order in which it is done. The status, if not None, is written once; then notices go out."""

    delete: tuple[ChildJob, ...] = ()
    service: Json | None = None
    claims: tuple[Json, ...] = ()
    resize: tuple[Resize, ...] = ()
    create: tuple[Slot, ...] = ()
    suspend: tuple[ChildJob, ...] = ()
    resume: tuple[Wake, ...] = ()
    status: JobSetStatus | None = None
    notices: tuple[Notice, ...] = ()
    expired: bool = False
    """The time to live is over: delete the JobSet itself."""
    requeue_after_s: float | None = None


class _Outcome(TypedDict):
    status: JobSetStatus | None
    notices: tuple[Notice, ...]


def decide(observed: Observed, now: datetime, gates: Gates = OFF) -> Decision:
    """
    Decide one pass. `now` is wall time.

    Raises:
        Undecidable: A Job carries no valid attempt, a finished JobSet has no time of its end, or a rule needs a feature
            that is off.
    """
    jobset = observed.jobset
    stored = jobset.status or JobSetStatus()
    replicated_jobs = jobset.spec.replicated_jobs
    attempts = JobAttempts(replicated_jobs, stored.replicated_jobs_status) if gates.restart_job else None
    buckets = sort_jobs(observed.jobs, stored.restarts, attempts)
    draft = StatusDraft(stored, now)
    draft.replicated_jobs = count(replicated_jobs, buckets, stored if gates.restart_job else None)
    if conditions.finished_condition(stored.conditions) is not None:
        return _after_the_end(jobset, buckets, draft, now)
    decision = _work(observed, buckets, draft, gates)
    return replace(decision, delete=_not_terminating(buckets.previous), **_outcome(draft))


def _after_the_end(jobset: JobSet, buckets: Buckets, draft: StatusDraft, now: datetime) -> Decision:
    """Only what still runs goes; what ended is kept for inspection until the time to live is over."""
    left_s = _expires_in_s(jobset, now)
    expired = left_s is not None and left_s <= 0
    return Decision(
        delete=_not_terminating(buckets.active),
        expired=expired,
        requeue_after_s=None if expired else left_s,
        **_outcome(draft),
    )


def _outcome(draft: StatusDraft) -> _Outcome:
    status = draft.result()
    return {"status": status if status != draft.stored else None, "notices": tuple(draft.notices)}


def _not_terminating(jobs: Iterable[ChildJob]) -> tuple[ChildJob, ...]:
    return tuple(job for job in jobs if job.metadata.deletion_timestamp is None)


def _expires_in_s(jobset: JobSet, now: datetime) -> float | None:
    """Seconds until the time to live of a finished JobSet is over; None without one."""
    ttl_s = jobset.spec.ttl_seconds_after_finished
    if ttl_s is None or jobset.status is None:
        return None
    end = conditions.finished_condition(jobset.status.conditions)
    if end is None or end.last_transition_time is None:
        raise Undecidable(f"unable to find the time when the JobSet {jobset.key} finished")
    return (end.last_transition_time + timedelta(seconds=ttl_s) - now).total_seconds()


def _work(observed: Observed, buckets: Buckets, draft: StatusDraft, gates: Gates) -> Decision:
    """Judge what has ended; failing that, bring into being and to its state what is missing."""
    jobset = observed.jobset
    spec = jobset.spec
    if not spec.suspend and _all_ready(jobset, draft):
        conditions.all_ready(draft)
    if buckets.failed:
        apply_failure_policy(draft, spec, buckets.failed, single_jobs=gates.restart_job)
        return Decision()
    if buckets.successful and is_successful(spec, buckets.successful):
        conditions.complete(draft)
        return Decision()
    plan = start_plan(spec, draft.replicated_jobs)
    if spec.suspend:
        conditions.suspended(draft)
    else:
        _note_start(plan, draft)
    if gates.in_place_restart and _strategy(spec) == in_place.STRATEGY:
        in_place.follow_agents(draft, spec, observed.pods)
    resizable = gates.lets_resize(jobset.metadata.labels)
    return Decision(
        service=build_service(jobset) if has_dns(jobset) and subdomain(jobset) not in observed.services else None,
        claims=tuple(claim for claim in build_claims(jobset) if claim["metadata"]["name"] not in observed.claims),
        resize=tuple(to_resize(buckets.active, spec.replicated_jobs)) if resizable else (),
        create=_missing(jobset, buckets, plan),
        suspend=to_suspend(buckets.active) if spec.suspend else (),
        resume=() if spec.suspend else tuple(to_resume(buckets.active, plan.running)),
    )


def _strategy(spec: JobSetSpec) -> str:
    return spec.failure_policy.restart_strategy if spec.failure_policy is not None else ""


def _all_ready(jobset: JobSet, draft: StatusDraft) -> bool:
    done = sum(entry.ready + entry.succeeded for entry in draft.replicated_jobs)
    return done == sum(rj.replicas for rj in jobset.spec.replicated_jobs)


def _note_start(plan: StartPlan, draft: StatusDraft) -> None:
    """In order, Suspended stays True until the last replicated job has started; otherwise it goes at once."""
    if plan.stage is Stage.IN_PROGRESS:
        conditions.startup_in_progress(draft)
        return
    if plan.stage is Stage.COMPLETED:
        conditions.startup_completed(draft)
    conditions.resumed(draft)


def _missing(jobset: JobSet, buckets: Buckets, plan: StartPlan) -> tuple[Slot, ...]:
    """
    Slots without a Job of any generation: a Job that is still terminating holds its own slot.

    As many as a pass may make; the Jobs themselves bring the next pass, for the next ones.
    """
    if buckets.previous and _strategy(jobset.spec) == "BlockingRecreate":
        return ()
    return tuple(islice(_free(jobset, plan, buckets.names()), MAX_CREATIONS))


def _free(jobset: JobSet, plan: StartPlan, taken: set[str]) -> Iterator[Slot]:
    return (slot for rj in plan.existing for slot in slots(jobset, rj) if slot.name not in taken)
