"""
The metrics of TrainJobs: their names, their label values, and what a scrape reads of them.

Gauges and counters are plain numbers that change with the events of informers (`metrics_observer.py`), so a scrape
costs as much as it has series, however many TrainJobs there are. Label values are bounded: the first `MAX_NAMES`
namespaces, runtimes and reasons have series of their own, and the others share `other`. No label has the name of a
TrainJob.

Only the leader has series of TrainJobs, so a sum over all replicas is right.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from ktrain.framework.metrics.registry import OTHER, Metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from prometheus_client import Metric

MAX_NAMES: Final = 100
"""How many values of one label have series of their own."""
MILESTONES: Final = ("jobset", "admitted", "first_pod", "running", "ended")
SECONDS: Final = (
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
    *(60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0, 14400.0, 28800.0, 86400.0),
)
"""Buckets from 0.1 s to 24 h."""
STORED: Final = "stored"
REFUSED: Final = "refused"
_USUAL_ENDS: Final = (("Complete", "AllJobsCompleted"), ("Failed", "FailedJobs"))
"""The ends, with the reasons of JobSet, whose counters exist as soon as a namespace and runtime has a TrainJob."""
_PLACE: Final = ("namespace", "runtime")

Count = dict[tuple[str, ...], float]
"""Values by label values."""


class Nodes(NamedTuple):
    """Nodes of one TrainJob, by state."""

    wanted: int
    ready: int
    failed: int


class Names:
    """The values of one label: each its own up to a limit, the rest together."""

    def __init__(self, most: int = MAX_NAMES) -> None:
        self._most = most
        self._known: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        """Return the label value for a name; it stays the same as long as this object lives."""
        if (known := self._known.get(name)) is not None:
            return known
        if len(self._known) >= self._most:
            return OTHER  # not remembered, so that names without end cost no memory
        return self._known.setdefault(name, name)


class JobSeries:
    """The series of TrainJobs. A collector of prometheus_client; without a registry nothing is ever collected."""

    def __init__(self, metrics: Metrics, now_s: Callable[[], float]) -> None:
        self.namespaces = Names()
        self.runtimes = Names()
        self.reasons = Names()
        self.phases: Count = defaultdict(int)
        self.nodes: Count = defaultdict(int)
        self.blocked: Count = defaultdict(int)
        self.waiting_gangs: Count = defaultdict(int)
        self.created: Count = {}
        self.ended: Count = {}
        self.restarts: Count = {}
        self.blocked_since: dict[str, dict[str, float]] = {}
        """Unix times by reason and by UID of the TrainJob."""
        self.leads = False
        """Whether this process leads; otherwise no series are shown and nothing is counted."""
        self._now_s = now_s
        text = "Seconds from the creation of a TrainJob until it reached a milestone for the first time."
        self.milestones = {
            name: metrics.histogram("ktrain_trainjob_milestone_seconds", text, SECONDS, {"milestone": name})
            for name in MILESTONES
        }
        text = "Seconds that a TrainJob with a gang policy waited from its admission until all of its nodes were ready."
        self.gang_wait = metrics.histogram("ktrain_gang_wait_seconds", text, SECONDS, {})
        metrics.collect("ktrain_trainjobs", self)

    def begin(self, place: tuple[str, str]) -> None:
        """Have the counters of a namespace and runtime exist at 0, so that the first event is seen as an increase."""
        if place not in self.created:
            self.created[place] = self.restarts[place] = 0
            self.ended.update({(*place, *end): 0 for end in _USUAL_ENDS})

    def end(self, place: tuple[str, str], result: str, reason: str) -> None:
        """Count the end of a TrainJob."""
        labels = (*place, result, self.reasons[reason])
        self.ended[labels] = self.ended.get(labels, 0) + 1

    def move_nodes(self, place: tuple[str, str], before: Nodes, after: Nodes) -> None:
        """Replace the nodes of a TrainJob."""
        for state, had, has in zip(Nodes._fields, before, after, strict=True):
            self.nodes[*place, state] += has - had

    def block(self, uid: str, namespace: str, reason: str, since_s: float) -> None:
        """Count a TrainJob as blocked since a Unix time."""
        self.blocked[namespace, reason] += 1
        self.blocked_since.setdefault(reason, {})[uid] = since_s

    def unblock(self, uid: str, namespace: str, reason: str) -> None:
        """Count a TrainJob as not blocked any more."""
        self.blocked[namespace, reason] -= 1
        self.blocked_since[reason].pop(uid, None)

    def collect(self) -> Iterable[Metric]:
        """Yield all metrics but the histograms, for a scrape."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        now_s = self._now_s()
        ages: Count = {
            (reason,): max(0.0, now_s - min(since.values())) if since else 0.0
            for reason, since in self.blocked_since.items()
        }
        gauges: tuple[tuple[str, str, tuple[str, ...], Mapping[tuple[str, ...], float]], ...] = (
            (
                "ktrain_trainjobs",
                "Number of TrainJobs that exist now, by the state that their status shows.",
                (*_PLACE, "phase"),
                self.phases,
            ),
            (
                "ktrain_trainjob_nodes",
                "Number of nodes that unfinished and unsuspended TrainJobs want, that are ready and that have failed.",
                (*_PLACE, "state"),
                self.nodes,
            ),
            (
                "ktrain_trainjobs_blocked",
                "Number of unfinished TrainJobs whose status has a diagnosis, by its reason.",
                ("namespace", "reason"),
                self.blocked,
            ),
            (
                "ktrain_trainjob_blocked_age_seconds",
                "Seconds since the oldest diagnosis of this reason that an unfinished TrainJob has now.",
                ("reason",),
                ages,
            ),
            (
                "ktrain_gang_waiting_jobs",
                "Number of admitted TrainJobs with a gang policy whose nodes are not all ready for the first time.",
                ("namespace",),
                self.waiting_gangs,
            ),
        )
        counters = (
            (
                "ktrain_trainjobs_created",
                "Number of TrainJobs whose JobSet this operator has seen appear.",
                _PLACE,
                self.created,
            ),
            (
                "ktrain_trainjobs_ended",
                "Number of TrainJobs that have ended, by result and by the reason of the condition.",
                (*_PLACE, "result", "reason"),
                self.ended,
            ),
            (
                "ktrain_trainjob_restarts",
                "Number of restarts of JobSets and of their single Jobs, as the status of TrainJobs reports them.",
                _PLACE,
                self.restarts,
            ),
        )
        for family, found in ((GaugeMetricFamily, gauges), (CounterMetricFamily, counters)):
            for name, text, labels, values in found:
                metric = family(name, text, labels=labels)
                for key, value in values.items() if self.leads else ():
                    metric.add_metric(key, value)
                yield metric


def snapshot_counter(metrics: Metrics | None, mode: str) -> Callable[[str], None]:
    """Return what counts the attempts to write runtime snapshots by their result; *mode* is perJob or shared."""
    made = metrics or Metrics()
    text = "Number of runtime snapshots that the operator tried to write, by how the API server answered."
    add = {
        result: made.counter("ktrain_snapshots_written", text, {"mode": mode, "result": result})
        for result in (STORED, REFUSED)
    }
    return lambda result: add[result]()
