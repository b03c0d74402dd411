"""
How long a Job waits before it replaces a failed pod.

10 s after the first failure, doubling to 10 min, counted from the end of the last failed pod. Failures are those since
the last success, of the whole Job; with `backoffLimitPerIndex` those of each index, which its pods' annotations count.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ktrain.api.core import ContainerStatus, Pod

_NO_WAIT: Final = timedelta(0)
_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Tuning:
    """Delays of the controller. The defaults are the upstream controller's."""

    backoff_base_s: float = 10.0
    backoff_cap_s: float = 600.0

    def wait(self, failures: int, last: datetime | None, now: datetime) -> timedelta:
        """How long a replacement still has to wait after this many failures, the last of them at `last`."""
        if not failures or last is None:
            return _NO_WAIT
        delay = min(self.backoff_base_s * 2 ** min(failures - 1, 30), self.backoff_cap_s)
        return max(last + timedelta(seconds=delay) - now, _NO_WAIT)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Failures of a Job since its last success. Kept in memory only, as upstream does: a restart forgives."""

    failures: int = 0
    last_failure: datetime | None = None

    def after(self, succeeded: Sequence[Pod], failed: Sequence[Pod]) -> Backoff:
        """Add what has ended since; a success forgives all failures but those that ended after it."""
        ends = sorted(finish_time(pod) for pod in failed)
        if succeeded:
            last = max(finish_time(pod) for pod in succeeded)
            ends = [end for end in ends if end > last]
            return Backoff(len(ends), ends[-1] if ends else None)
        if not ends:
            return self
        return Backoff(self.failures + len(ends), ends[-1])


def finish_time(pod: Pod) -> datetime:
    """When the pod ended: its last container's end, else the best substitute there is."""
    end = _containers_end(pod)
    if end is not None:
        return end
    ready = next((c for c in pod.status.conditions if c.type == "Ready" and c.status == "False"), None)
    if ready is not None and ready.last_transition_time is not None:
        return ready.last_transition_time
    meta = pod.metadata
    if meta.deletion_timestamp is not None:
        return meta.deletion_timestamp - timedelta(seconds=meta.deletion_grace_period_seconds or 0)
    return meta.creation_timestamp or _LONG_AGO


def _containers_end(pod: Pod) -> datetime | None:
    """Sidecars end after the main containers; one that has not ended makes all of it unknown."""
    sidecars = {container.name for container in pod.spec.init_containers if container.restart_policy == "Always"}
    later = [entry for entry in pod.status.init_container_statuses if entry.name in sidecars]
    end = _latest(pod.status.container_statuses)
    if not later:
        return end
    last = _latest(later)
    return last if last is None or end is None else max(end, last)


def _latest(statuses: Iterable[ContainerStatus]) -> datetime | None:
    ends = [entry.state.terminated.finished_at if entry.state.terminated else None for entry in statuses]
    known = [end for end in ends if end is not None]
    return max(known) if known and len(known) == len(ends) else None
