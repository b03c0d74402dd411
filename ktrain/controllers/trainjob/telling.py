"""
What is told of a TrainJob: why its passes fail, in events and, if it lasts, in its status; and the status itself, in
the fewest writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog

from ktrain.api import trainer as api

from . import status as statuses
from .state import with_stall

if TYPE_CHECKING:
    from collections.abc import Callable

    from structlog.typing import FilteringBoundLogger

    from ktrain.api.meta import Key
    from ktrain.framework.client.client import Client
    from ktrain.framework.env import Env
    from ktrain.framework.events import EventRecorder

    from .decision import Decision
    from .memories import Memories
    from .observe import Failure

log: FilteringBoundLogger = structlog.get_logger(__name__)

COALESCE_S: Final = 0.5
"""Counters that change within this time go out in one write."""
CREATION_FAILED: Final = "TrainJobResourcesCreationFailed"
"""Upstream's reason of the event about a job that does not get on."""
WITHOUT_EFFECT: Final = "FieldsWithoutEffect"
_MAX_NOTE: Final = 950


class Telling:
    """Tells of TrainJobs, and remembers in `memories` what was told. `wake` asks for a pass at a later time."""

    def __init__(
        self, client: Client, env: Env, recorder: EventRecorder, memories: Memories, wake: Callable[[Key, float], None]
    ) -> None:
        self._client = client
        self._env = env
        self._recorder = recorder
        self._memories = memories
        self._wake = wake

    def note(self, job: api.TrainJob, failure: Failure | None) -> None:
        """Remember why the pass failed, and say it in an event if it is news."""
        memory = self._memories.of(job.metadata.uid)
        if failure is None:
            if memory.failure:
                self._remember(job, failure=None, failing_since=None, told=None, diagnosed=None)
            return
        now = self._env.clock.now()
        if failure == memory.failure:
            if failure.is_final and not failure.at_once and memory.failing_since:
                # Nothing else leads to a reconcile, and an event may have taken the place of the one asked for.
                self._wake_for_diagnosis(job, (now - memory.failing_since).total_seconds())
            return
        self._remember(job, failure=failure, failing_since=memory.failing_since or now, told=now)
        if failure.is_final:
            log.info("reconcile.blocked", blocker=failure.message)
        if not failure.at_once:
            self._wake_for_diagnosis(job, 0)
        text = _cut(failure.message)
        message = text if failure.event else f"TrainJob resources reconciliation failed: {text}"
        self._warning(job, failure.event or CREATION_FAILED, message)

    def _wake_for_diagnosis(self, job: api.TrainJob, failed_for_s: float) -> None:
        if failed_for_s < statuses.DIAGNOSE_AFTER_S:
            self._wake(job.key, statuses.DIAGNOSE_AFTER_S - failed_for_s)

    def warn(self, job: api.TrainJob, unused: tuple[str, ...]) -> None:
        """Say once in an event which fields of the job have no effect."""
        if unused and not self._memories.of(job.metadata.uid).warned:
            self._remember(job, warned=True)
            self._warning(job, WITHOUT_EFFECT, _cut("; ".join(unused)))

    def _warning(self, job: api.TrainJob, reason: str, message: str) -> None:
        self._recorder.event(api.TRAIN_JOBS, job, type="Warning", reason=reason, message=message, action="Reconciling")

    async def write(self, job: api.TrainJob, decision: Decision) -> None:
        """Write the status if it changed, or see to it that it is written later if that is better."""
        memory, now_s = self._memories.of(job.metadata.uid), self._env.clock.monotonic()
        if decision.status is None and decision.failure is None and memory.failure is None:
            return
        diagnosis = statuses.diagnosis(job, memory, self._env.clock.now())
        if statuses.is_early(job, memory, diagnosis, is_held=decision.is_held):
            return
        status = with_stall(msgspec.structs.replace(decision.status or job.status, diagnosis=diagnosis))
        patch = statuses.merge_patch(job, status)
        if patch and not statuses.is_urgent(job.status, status):
            due_s = memory.status_due_s
            if due_s is None:
                due_s = now_s + COALESCE_S
                self._remember(job, status_due_s=due_s)
            if now_s < due_s:
                self._wake(job.key, due_s - now_s)
                return
        if patch:
            written = await self._client.patch(api.TRAIN_JOBS, job.key, patch, subresource="status")
            self._remember(job, status_version=written.metadata.resource_version)
        if memory.status_due_s is not None or memory.diagnosed != memory.failure:
            diagnosed = memory.failure if status.diagnosis else None
            self._remember(job, status_due_s=None, diagnosed=diagnosed)

    def _remember(self, job: api.TrainJob, **changes: Any) -> None:  # noqa: ANN401 -- checked by `Memories`
        self._memories.change(job.metadata.uid, **changes)


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_NOTE else f"{text[:_MAX_NOTE]} ..."
