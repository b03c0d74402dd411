"""
The metrics of TrainJobs: their names, their label values, and what a scrape reads of them.

Gauges and counters are plain numbers that change with the events of informers (`metrics_observer.py`), so a scrape
costs as much as it has series, however many TrainJobs there are. Label values are bounded: `MAX_NAMES` namespaces and
runtimes, `MAX_PLACES` pairs of them and `MAX_REASONS` reasons have series of their own, and the others share `other`. A
namespace or runtime that no TrainJob has any more makes room for a new one. No label has the name of a TrainJob.

Only the leader has series of TrainJobs, so a sum over all replicas is right.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from ktrain.framework.metrics.registry import OTHER, Metrics

from .label_values import LabelValues
from .observe import CONDITIONS_FAILED, HINDRANCES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from prometheus_client import Metric

MAX_NAMES: Final = 100
"""How many namespaces, and how many runtimes, have series of their own."""
MAX_PLACES: Final = 1000
"""How many pairs of namespace and runtime have series of their own."""
MAX_REASONS: Final = 50
"""How many reasons have series of their own."""
KNOWN_REASONS: Final = (*HINDRANCES, CONDITIONS_FAILED, "AllJobsCompleted", "FailedJobs", "DeadlineExceeded")
"""Reasons that alerts and dashboards look for: they have series of their own whatever others come first."""
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

Place = tuple[str, str]
"""The labels that say where a TrainJob is: namespace and runtime."""
Count = dict[tuple[str, ...], float]
"""Values by label values."""


class Nodes(NamedTuple):
    """Nodes of one TrainJob, by state."""

    wanted: int
    ready: int
    failed: int


class JobSeries:
    """The series of TrainJobs. A collector of prometheus_client; without a registry nothing is ever collected."""

    def __init__(
        self, metrics: Metrics, now_s: Callable[[], float], *, names: int = MAX_NAMES, places: int = MAX_PLACES
    ) -> None:
        self._namespaces = LabelValues[str](names, self._forget_namespace)
        self._runtimes = LabelValues[str](names, lambda name: self._forget(lambda key: key[1] == name))
        self._places = LabelValues[tuple[str, str]](places, lambda place: self._forget(lambda key: key[:2] == place))
        self._reasons = set(KNOWN_REASONS)
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

    def enter(self, namespace: str, runtime: str) -> Place:
        """
        Return the labels of a TrainJob that has appeared; it has them until it leaves.

        Their counters exist at 0 from now on, so that the first event is seen as an increase.
        """
        namespace = namespace if namespace != OTHER and self._namespaces.take(namespace) else OTHER
        runtime = runtime if runtime != OTHER and self._runtimes.take(runtime) else OTHER
        if OTHER not in (namespace, runtime) and not self._places.take((namespace, runtime)):
            self._runtimes.release(runtime)
            runtime = OTHER
        place = namespace, runtime
        if place not in self.created:
            self.created[place] = self.restarts[place] = 0
            self.ended.update({(*place, *end): 0 for end in _USUAL_ENDS})
        return place

    def leave(self, place: Place) -> None:
        """Count a TrainJob as gone; the series stay until others need their place."""
        namespace, runtime = place
        self._namespaces.release(namespace)
        self._runtimes.release(runtime)
        self._places.release(place)

    def reason(self, name: str) -> str:
        """Return the label value of a reason, which stays the same."""
        if name not in self._reasons:
            if len(self._reasons) >= MAX_REASONS:
                return OTHER
            self._reasons.add(name)
        return name

    def _forget_namespace(self, name: str) -> None:
        self._forget(lambda key: key[0] == name)
        _drop(self.blocked, lambda key: key[0] == name)
        _drop(self.waiting_gangs, lambda key: key[0] == name)

    def _forget(self, fits: Callable[[tuple[str, ...]], bool]) -> None:
        for values in (self.phases, self.nodes, self.created, self.ended, self.restarts):
            _drop(values, fits)

    def end(self, place: Place, result: str, reason: str) -> None:
        """Count the end of a TrainJob."""
        labels = (*place, result, self.reason(reason))
        self.ended[labels] = self.ended.get(labels, 0) + 1

    def move_nodes(self, place: Place, before: Nodes, after: Nodes) -> None:
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


def _drop(values: Count, fits: Callable[[tuple[str, ...]], bool]) -> None:
    for key in [one for one in values if fits(one)]:
        del values[key]


def snapshot_counter(metrics: Metrics | None, mode: str) -> Callable[[str], None]:
    """Return what counts the attempts to write runtime snapshots by their result; *mode* is perJob or shared."""
    made = metrics or Metrics()
    text = "Number of runtime snapshots that the operator tried to write, by how the API server answered."
    add = {
        result: made.counter("ktrain_snapshots_written", text, {"mode": mode, "result": result})
        for result in (STORED, REFUSED)
    }
    return lambda result: add[result]()
