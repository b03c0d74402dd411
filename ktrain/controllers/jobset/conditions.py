"""
The status that a pass decides on, and the rules by which conditions change.

One `StatusDraft` lives for one pass, inside `decide`. It collects changes and the events they cause; both leave
together, in one write, or not at all. Rules that clients depend on: a condition is never first added as False, and its
transition time moves with its status only (the TTL counts from it).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from ktrain.api.jobset import (
    CONDITION_COMPLETED,
    CONDITION_FAILED,
    CONDITION_RESTARTING,
    CONDITION_STARTUP_COMPLETED,
    CONDITION_STARTUP_IN_PROGRESS,
    CONDITION_SUSPENDED,
    JobSetStatus,
)
from ktrain.api.meta import Condition, Json, condition_json

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from ktrain.api.jobset import ReplicatedJobStatus

EventType = Literal["Normal", "Warning"]

# Startup is either in progress or completed: setting one True turns the other False.
_OPPOSITE: Final = {
    CONDITION_STARTUP_IN_PROGRESS: CONDITION_STARTUP_COMPLETED,
    CONDITION_STARTUP_COMPLETED: CONDITION_STARTUP_IN_PROGRESS,
}


@dataclass(frozen=True, slots=True)
class Notice:
    """An event about the JobSet, to be emitted once the status that caused it is stored."""

    type: EventType
    reason: str
    message: str


@dataclass(slots=True)
class StatusDraft:
    """The stored status and what this pass changes in it. `now` is the time of every transition in the pass."""

    stored: JobSetStatus
    now: datetime
    restarts: int = field(init=False)
    restarts_count_towards_max: int = field(init=False)
    terminal_state: str = field(init=False)
    replicated_jobs: tuple[ReplicatedJobStatus, ...] = field(init=False)
    current_in_place: int | None = field(init=False)
    previous_in_place: int | None = field(init=False)
    notices: list[Notice] = field(init=False, default_factory=list)
    _conditions: dict[str, Condition] = field(init=False)

    def __post_init__(self) -> None:
        self.now = self.now.replace(microsecond=0)
        self.restarts = self.stored.restarts
        self.restarts_count_towards_max = self.stored.restarts_count_towards_max
        self.terminal_state = self.stored.terminal_state
        self.replicated_jobs = self.stored.replicated_jobs_status
        self.current_in_place = self.stored.current_in_place_restart_attempt
        self.previous_in_place = self.stored.previous_in_place_restart_attempt
        self._conditions = {condition.type: condition for condition in self.stored.conditions}

    def set(self, type_: str, reason: str, message: str, *, status: bool, event: EventType = "Normal") -> None:
        """Set a condition, and note an event if that changes anything."""
        old = self._conditions.get(type_)
        new = Condition(type_, "True" if status else "False", reason, message, self.now)
        if old is None and not status:
            return
        if old is not None and old.status == new.status:
            new = msgspec.structs.replace(new, last_transition_time=old.last_transition_time)
        if new == old:
            return
        self._conditions[type_] = new
        self.notices.append(Notice(event, reason, message))
        if status:
            self._turn_off(_OPPOSITE.get(type_, ""))

    def _turn_off(self, type_: str) -> None:
        # Only the status moves: reason, message and time go on telling how this condition became True.
        old = self._conditions.get(type_)
        if old is not None and old.is_true:
            self._conditions[type_] = msgspec.structs.replace(old, status="False")

    def result(self) -> JobSetStatus:
        """The status as it should be stored."""
        return JobSetStatus(
            conditions=tuple(self._conditions.values()),
            restarts=self.restarts,
            restarts_count_towards_max=self.restarts_count_towards_max,
            terminal_state=self.terminal_state,
            replicated_jobs_status=self.replicated_jobs,
            current_in_place_restart_attempt=self.current_in_place,
            previous_in_place_restart_attempt=self.previous_in_place,
        )


def complete(draft: StatusDraft) -> None:
    """The success policy is satisfied. The reason says all Jobs, also for `Any`: clients know it by that word."""
    message = "jobset completed successfully"
    draft.set(CONDITION_COMPLETED, "AllJobsCompleted", message, status=True)
    draft.set(CONDITION_RESTARTING, "JobSetCompleted", message, status=False)
    draft.terminal_state = "Completed"


def fail(draft: StatusDraft, reason: str, message: str) -> None:
    """The JobSet is given up."""
    draft.set(CONDITION_FAILED, reason, message, status=True, event="Warning")
    draft.set(CONDITION_RESTARTING, "JobSetFailed", "jobset failed", status=False)
    draft.terminal_state = "Failed"


def restarting(draft: StatusDraft, reason: str, message: str) -> None:
    """A global restart has been decided."""
    draft.set(CONDITION_RESTARTING, reason, message, status=True, event="Warning")


def all_ready(draft: StatusDraft) -> None:
    """Every Job is ready or has succeeded: the restart, if there was one, is over."""
    draft.set(CONDITION_RESTARTING, "JobsReady", "all jobs are ready", status=False)


def suspended(draft: StatusDraft) -> None:
    """The user wants no Job to run."""
    message = "jobset is suspended"
    draft.set(CONDITION_SUSPENDED, "SuspendedJobs", message, status=True)
    draft.set(CONDITION_RESTARTING, "JobSetSuspended", message, status=False)


def resumed(draft: StatusDraft) -> None:
    """Nothing is held back by suspension any more."""
    draft.set(CONDITION_SUSPENDED, "ResumeJobs", "jobset is resumed", status=False)


def startup_in_progress(draft: StatusDraft) -> None:
    """In order: some replicated job has not started."""
    draft.set(
        CONDITION_STARTUP_IN_PROGRESS,
        "InOrderStartupPolicyInProgress",
        "in order startup policy is in progress",
        status=True,
    )


def startup_completed(draft: StatusDraft) -> None:
    """In order: every replicated job has started."""
    draft.set(
        CONDITION_STARTUP_COMPLETED,
        "InOrderStartupPolicyCompleted",
        "in order startup policy has completed",
        status=True,
    )


def status_json(status: JobSetStatus) -> Json:
    """
    Write the status as a merge patch of the whole: `restarts` also when 0, and the rest only when it says something.

    A merge patch rather than an update: fields of the status that this type does not declare survive.
    """
    body: Json = {
        "restarts": status.restarts,
        "replicatedJobsStatus": [_counters_json(entry) for entry in status.replicated_jobs_status],
    }
    if status.conditions:
        body["conditions"] = list(map(condition_json, status.conditions))
    if status.restarts_count_towards_max:
        body["restartsCountTowardsMax"] = status.restarts_count_towards_max
    if status.terminal_state:
        body["terminalState"] = status.terminal_state
    if status.current_in_place_restart_attempt is not None:
        body["currentInPlaceRestartAttempt"] = status.current_in_place_restart_attempt
    if status.previous_in_place_restart_attempt is not None:
        body["previousInPlaceRestartAttempt"] = status.previous_in_place_restart_attempt
    return body


def _counters_json(entry: ReplicatedJobStatus) -> Json:
    """Counters are written also when 0; restarts of single Jobs only once there were any."""
    body: Json = msgspec.to_builtins(entry)
    return {name: value for name, value in body.items() if value != ()}


def finished_condition(conditions: Iterable[Condition]) -> Condition | None:
    """Return the condition that ended the JobSet, if it has ended."""
    ends = (CONDITION_COMPLETED, CONDITION_FAILED)
    return next((condition for condition in conditions if condition.type in ends and condition.is_true), None)
