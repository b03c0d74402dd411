"""How it went: what a reflector notes while it follows the API server, for statistics and metrics."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ktrain.framework.metrics.cache import RELIST_REASONS, RESTART_REASONS, InformerMetrics

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ktrain.api.meta import Key
    from ktrain.framework.client.codec import BadObject

MAX_BAD: Final = 100
"""This many unreadable objects are named; all are counted."""


@dataclass(slots=True)
class WatchRecord:
    """Counts since the start, and which objects cannot be read now."""

    metrics: InformerMetrics = field(default_factory=InformerMetrics)
    relists: dict[str, int] = field(default_factory=lambda: dict.fromkeys(RELIST_REASONS, 0))
    restarts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(RESTART_REASONS, 0))
    bad: dict[Key, str] = field(default_factory=dict)
    heard_at_s: float | None = None
    """When the API server last sent a line or a page, on the clock's own scale."""

    def relisted(self, reason: str) -> None:
        """Count a list that follows one that was good."""
        self.relists[reason] += 1
        self.metrics.relist(reason)

    def restarted(self, reason: str) -> None:
        """Count the end of a watch that goes on from where it was."""
        self.restarts[reason] += 1
        self.metrics.restart(reason)

    def unreadable(self, bad: BadObject) -> None:
        """Note an object that cannot be read."""
        self.metrics.bad_object()
        if len(self.bad) < MAX_BAD:
            self.bad[bad.key] = bad.reason

    def readable(self, key: Key) -> None:
        """Note that an object can be read, or is gone."""
        if self.bad:
            self.bad.pop(key, None)


def summed(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Add up counts by reason."""
    total: dict[str, int] = {}
    for one in counts:
        for reason, count in one.items():
            total[reason] = total.get(reason, 0) + count
    return total


@dataclass(frozen=True, slots=True)
class InformerStatistics:
    """A look at an informer."""

    objects: int
    version: int
    synced: bool
    last_error: str
    missing: bool = False
    forbidden: bool = False
    """Whether the API server's last word was that this identity may not read the kind (403), but for `shut`."""
    shut: tuple[str, ...] = ()
    """Namespaces of which the API server shows nothing at all, if it shows others."""
    left_out: int = 0
    """Objects that are there and not held."""
    bytes: int = 0
    """Memory of the objects, estimated from samples (see `footprint`)."""
    age_s: float | None = None
    """Seconds since the API server was last heard, by an event, a bookmark or a list; None if never."""
    relists: Mapping[str, int] = field(default_factory=dict)
    """Whole lists after the first, by reason."""
    restarts: Mapping[str, int] = field(default_factory=dict)
    """Watches that ended and went on from their last version, by reason."""
    bad: Mapping[Key, str] = field(default_factory=dict)
    """Objects that cannot be read and so are not here, and why; at most 100."""
