"""
What a kubelet makes of pods that another one before it was running, whose processes went with it: pure.

The rule is that of a kubelet that starts again and finds no containers (`convertToAPIContainerStatuses`,
`computePodActions`): a container that ran has ended with 137, ContainerStatusUnknown, and counts as restarted. A pod
that never restarts has failed; any other begins again in a new sandbox, its init containers first, and runs those main
containers that its restart policy wants to run.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from .restarts import restarts
from .status import LOST, ContainerRecord, Role, Terminated, Waiting, new_records

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ktrain.api.core import ContainerStateTerminated, ContainerStatus

    from .spec import Pod

LOST_MESSAGE: Final = "The container could not be located when the pod was terminated"


def resumed_records(pod: Pod, now: datetime) -> tuple[ContainerRecord, ...]:
    """Return the records of a pod as its status tells them; containers that never ran are as new."""
    said = pod.status
    every = (*said.init_container_statuses, *said.container_statuses, *said.ephemeral_container_statuses)
    statuses = {status.name: status for status in every}
    return tuple(_resumed(record, statuses.get(record.container.name), now) for record in new_records(pod))


def goes_on(pod: Pod, records: Sequence[ContainerRecord]) -> bool:
    """Whether such a pod begins again. If not, its records say how it ended, those that lack an end being lost."""
    mains = [record for record in records if record.role is Role.MAIN]
    if any(restarts(r.container, r.role, pod.spec.restart_policy, _code(r)) for r in mains if r.has_run):
        return True
    if pod.spec.restart_policy == "Never":
        return not any(record.has_run for record in records)
    return not all(record.has_run for record in mains)


def _code(record: ContainerRecord) -> int:
    return record.state.exit_code if isinstance(record.state, Terminated) else 0


def _resumed(record: ContainerRecord, status: ContainerStatus | None, now: datetime) -> ContainerRecord:
    if status is None:
        return record
    state, last = status.state, status.last_state.terminated
    previous = None if last is None else _terminated(last, now)
    if state.terminated is not None:
        ended: Terminated | None = _terminated(state.terminated, now)
    elif state.running is not None:
        ended = Terminated(137, LOST, state.running.started_at or now, now, LOST_MESSAGE)
    else:
        # Between two attempts, if there was one: it goes on from how the last one ended.
        ended, previous = previous, None
    if ended is None:
        return record
    resumed = replace(record, attempts=status.restart_count + 1, last=previous, state=ended)
    if record.role in (Role.MAIN, Role.EPHEMERAL):
        return resumed
    # A new sandbox is initialized again.
    return replace(resumed, state=Waiting(), last=ended)


def _terminated(state: ContainerStateTerminated, now: datetime) -> Terminated:
    begun, finished = state.started_at or now, state.finished_at or now
    return Terminated(state.exit_code, state.reason, begun, finished, state.message)
