"""Instruments of an informer. Its labels: `cache` (a cluster), `resource`, `type` (how it is decoded), `scope`."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING, Final, Protocol

from .registry import Add, Observe, nothing

if TYPE_CHECKING:
    from collections.abc import Callable

    from .registry import Metrics

RELIST_REASONS: Final = ("expired", "went_back", "missing", "crashed")
"""410; a server put back to an earlier state; the kind was gone; an error in code that the informer calls."""
RESTART_REASONS: Final = ("ended", "cut", "silent", "throttled", "forbidden", "error")
LIST_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
"""Seconds."""
_PREFIX: Final = "ktrain_informer"


class Statistics(Protocol):
    """What is read of an informer when somebody scrapes (`InformerStatistics`)."""

    @property
    def objects(self) -> int:
        """Number of objects that the informer holds in memory."""

    @property
    def left_out(self) -> int:
        """Number of objects that exist and that the informer does not hold, of which it knows the names only."""

    @property
    def bytes(self) -> int:
        """Their memory, estimated."""

    @property
    def age_s(self) -> float | None:
        """Seconds since the API server was last heard."""

    @property
    def synced(self) -> bool:
        """Whether the content is complete."""

    @property
    def missing(self) -> bool:
        """Whether the kind is not served."""

    @property
    def shut(self) -> tuple[str, ...]:
        """Namespaces of which the API server shows nothing."""


@dataclass(frozen=True, slots=True)
class InformerMetrics:
    """What an informer counts."""

    relist: Callable[[str], None] = nothing
    """Count a whole list after the first, by reason."""
    restart: Callable[[str], None] = nothing
    """Count the end of a watch that goes on from its last version, by reason."""
    bad_object: Add = nothing
    list_duration: Observe = nothing
    """Seconds from the request to the last object of a whole list."""
    forget: Callable[[], None] = nothing
    """Drop every series: the informer was released."""

    @classmethod
    def of(
        cls, metrics: Metrics, cache: str, resource: str, type_: str, scope: str, look: Callable[[], Statistics]
    ) -> InformerMetrics:
        """Make them for one informer."""
        labels = {"cache": cache, "resource": resource, "type": type_, "scope": scope}
        made: list[tuple[str, dict[str, str]]] = []

        def name(what: str, extra: dict[str, str]) -> str:
            made.append((f"{_PREFIX}_{what}", extra))
            return made[-1][0]

        def gauge(what: str, text: str, read: Callable[[], float]) -> None:
            metrics.gauge_read(name(what, labels), text, labels, read)

        def by_reason(what: str, text: str, reasons: tuple[str, ...]) -> Callable[[str], None]:
            counters: dict[str, Add] = {}
            for reason in reasons:
                extra = {**labels, "reason": reason}
                counters[reason] = metrics.counter(name(what, extra), text, extra)
            return lambda reason: counters[reason]()

        def forget() -> None:
            for series, extra in made:
                metrics.forget(series, extra)

        gauge("objects", "Number of objects that the informer holds in memory.", lambda: look().objects)
        gauge(
            "left_out",
            "Number of objects that exist and that the informer does not hold, of which it knows the names only.",
            lambda: look().left_out,
        )
        gauge(
            "bytes",
            "Bytes of memory that the objects of the informer take, estimated from samples.",
            lambda: look().bytes,
        )
        gauge(
            "last_event_age_seconds",
            "Seconds since the API server last sent an event or a bookmark to the watch; NaN if it never did.",
            lambda: nan if (age := look().age_s) is None else age,
        )
        gauge(
            "shut_namespaces",
            "Number of watched namespaces of which the API server shows nothing (403), so that nobody waits for them.",
            lambda: len(look().shut),
        )
        gauge("synced", "1 while the content of the informer is complete, 0 while it is not.", lambda: look().synced)
        gauge(
            "missing",
            "1 while the API server does not serve the kind, because its CRD is not installed, and 0 otherwise.",
            lambda: look().missing,
        )
        return cls(
            relist=by_reason(
                "relists",
                "Number of times that the informer listed all objects again after the first list, by the reason.",
                RELIST_REASONS,
            ),
            restart=by_reason(
                "watch_restarts",
                "Number of watches that ended and were started again from their last version, by the reason.",
                RESTART_REASONS,
            ),
            bad_object=metrics.counter(
                name("bad_objects", labels),
                "Number of objects that the informer received and could not decode.",
                labels,
            ),
            list_duration=metrics.histogram(
                name("list_duration_seconds", labels),
                "Seconds that a list of all objects took, from the request to its last object.",
                LIST_BUCKETS,
                labels,
            ),
            forget=forget,
        )
