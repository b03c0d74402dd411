"""
Metrics under controller-runtime's names, so that existing dashboards and alerts work.

Without a registry every instrument does nothing and prometheus_client is not even imported. There are no globals: two
managers in one process have two registries, or pass the same one on purpose.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

Add = Callable[[], None]
Observe = Callable[[float], None]

RECONCILE_BUCKETS: Final = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9),
    *(1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60),
)
QUEUE_BUCKETS: Final = tuple(10.0**n for n in range(-8, 4))
RESULTS: Final = ("success", "error", "requeue_after")


def _nothing(*_: object) -> None:
    pass


@dataclass(frozen=True, slots=True)
class ClientMetrics:
    """What a client counts."""

    requests: Callable[[str, int], None] = _nothing
    """Count one answered request: method and code."""


@dataclass(frozen=True, slots=True)
class QueueMetrics:
    """What a workqueue counts."""

    depth: Observe = _nothing
    adds: Add = _nothing
    retries: Add = _nothing
    queue_duration: Observe = _nothing
    work_duration: Observe = _nothing


@dataclass(frozen=True, slots=True)
class ControllerMetrics:
    """What a controller counts."""

    result: Callable[[str], None] = _nothing
    """Count one reconcile by its result: success, error or requeue_after."""
    terminal_error: Add = _nothing
    panic: Add = _nothing
    timeout: Add = _nothing
    duration: Observe = _nothing
    active_workers: Observe = _nothing
    max_workers: Observe = _nothing
    own_write_wait: Observe = _nothing
    """Seconds that a key was held back until the cache had its own writes."""
    own_write_timeout: Add = _nothing


class Metrics:
    """Makes instruments in one prometheus registry; without one, instruments that do nothing."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry
        self._made: dict[str, Any] = {}  # prometheus_client's metric classes share no useful base

    def client(self) -> ClientMetrics:
        """Instruments of a client."""
        if self.registry is None:
            return ClientMetrics()
        requests = self._counter("rest_client_requests", "Answers of the API server.", "method", "code")
        return ClientMetrics(lambda method, code: requests.labels(method, str(code)).inc())

    def queue(self, controller: str) -> QueueMetrics:
        """Instruments of one controller's workqueue."""
        if self.registry is None:
            return QueueMetrics()
        labels, values = ("name", "controller"), (controller, controller)
        wait = self._histogram("workqueue_queue_duration_seconds", "Ready until taken.", QUEUE_BUCKETS, *labels)
        work = self._histogram("workqueue_work_duration_seconds", "Taken until done.", QUEUE_BUCKETS, *labels)
        return QueueMetrics(
            depth=self._gauge("workqueue_depth", "Keys that are ready.", *labels, "priority").labels(*values, "").set,
            adds=self._counter("workqueue_adds", "Keys that became ready.", *labels).labels(*values).inc,
            retries=self._counter("workqueue_retries", "Keys added with a delay.", *labels).labels(*values).inc,
            queue_duration=wait.labels(*values).observe,
            work_duration=work.labels(*values).observe,
        )

    def controller(self, controller: str) -> ControllerMetrics:
        """Instruments of one controller; every series exists from the start, so that rates work."""
        if self.registry is None:
            return ControllerMetrics()
        prefix, label = "controller_runtime", ("controller",)
        total = self._counter(f"{prefix}_reconcile", "Reconciles by result.", "controller", "result")
        results = {result: total.labels(controller, result).inc for result in RESULTS}
        errors = self._counter(f"{prefix}_reconcile_errors", "Reconciles that failed.", *label).labels(controller)

        def count(result: str) -> None:
            results[result]()
            if result == "error":
                errors.inc()

        def counter(name: str, text: str) -> Add:
            add: Add = self._counter(f"{prefix}_{name}", text, *label).labels(controller).inc
            return add

        def gauge(name: str, text: str) -> Observe:
            put: Observe = self._gauge(f"{prefix}_{name}", text, *label).labels(controller).set
            return put

        time = self._histogram(f"{prefix}_reconcile_time_seconds", "Length of reconciles.", RECONCILE_BUCKETS, *label)
        waits = self._histogram("ktrain_own_write_wait_seconds", "Waits for own writes.", RECONCILE_BUCKETS, *label)
        late = self._counter("ktrain_own_write_timeouts", "Own writes the cache did not show in time.", *label)
        return ControllerMetrics(
            result=count,
            terminal_error=counter("terminal_reconcile_errors", "Reconciles that failed for good."),
            panic=counter("reconcile_panics", "Reconciles that ended in an unexpected exception."),
            timeout=counter("reconcile_timeouts", "Reconciles cut off by their deadline."),
            duration=time.labels(controller).observe,
            active_workers=gauge("active_workers", "Workers that are busy."),
            max_workers=gauge("max_concurrent_reconciles", "Workers there are."),
            own_write_wait=waits.labels(controller).observe,
            own_write_timeout=late.labels(controller).inc,
        )

    def leader(self, name: str) -> Callable[[float], None]:
        """Setter of `leader_election_master_status`."""
        if self.registry is None:
            return _nothing
        status = self._gauge("leader_election_master_status", "1 while this process leads.", "name")
        put: Callable[[float], None] = status.labels(name).set
        put(0)
        return put

    def webhook(self, path: str) -> tuple[Observe, Callable[[str], None]]:
        """Observer of a webhook's latency in seconds, and counter of its answers by code."""
        if self.registry is None:
            return _nothing, _nothing
        latency = self._histogram(
            "controller_runtime_webhook_latency_seconds", "Time to answer.", RECONCILE_BUCKETS, "webhook"
        )
        total = self._counter("controller_runtime_webhook_requests", "Answers by code.", "webhook", "code")
        codes = {code: total.labels(path, code).inc for code in ("200", "500")}
        return latency.labels(path).observe, lambda code: codes[code]()

    def _counter(self, name: str, text: str, *labels: str) -> Any:  # noqa: ANN401 - see _made
        from prometheus_client import Counter

        return self._once(name, lambda: Counter(name, text, labels, registry=self.registry))

    def _gauge(self, name: str, text: str, *labels: str) -> Any:  # noqa: ANN401 - see _made
        from prometheus_client import Gauge

        return self._once(name, lambda: Gauge(name, text, labels, registry=self.registry))

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Any:  # noqa: ANN401 - see _made
        from prometheus_client import Histogram

        return self._once(name, lambda: Histogram(name, text, labels, buckets=buckets, registry=self.registry))

    def _once(self, name: str, make: Callable[[], Any]) -> Any:  # noqa: ANN401 - see _made
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]
