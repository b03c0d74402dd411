"""
The two APIs that an event can be written through.

A server keeps one object and shows it under both, but what the older one says of time, `firstTimestamp`,
`lastTimestamp` and `count`, can only be written there; and there are clients that look at nothing else: Kubeflow's SDK
leaves out events without a `firstTimestamp`. In a cluster the kubelet and the Job controller write the older one, the
scheduler the newer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from ktrain.api.core import CORE_EVENTS, EVENTS

if TYPE_CHECKING:
    from ktrain.api.meta import Json, Resource

_OLDER_NAMES: Final = {"regarding": "involvedObject", "note": "message", "reportingController": "reportingComponent"}
_SECONDS: Final = len("2026-11-22T01:02:03")


class Form(Protocol):
    """How an event is written; `body` has the newer form."""

    resource: Resource[Any]

    def whole(self, body: Json, count: int, observed: str) -> Json:
        """Write an event that happened so often, for the last time at `observed` (a MicroTime)."""
        ...

    def repeated(self, count: int, observed: str) -> Json:
        """Write what changes when it happens again."""
        ...


class NewerForm:
    """events.k8s.io/v1."""

    resource = EVENTS

    def whole(self, body: Json, count: int, observed: str) -> Json:
        """Once it is an event, more often a series."""
        return {**body, **self.repeated(count, observed)}

    def repeated(self, count: int, observed: str) -> Json:
        """Nothing for once, as a series of one is refused."""
        return {"series": {"count": count, "lastObservedTime": observed}} if count > 1 else {}


class OlderForm:
    """v1, as kubelets write it: without `eventTime`, which would make it an event of the newer API."""

    resource = CORE_EVENTS

    def whole(self, body: Json, count: int, observed: str) -> Json:
        """All that the newer form says, under the older names."""
        renamed = {_OLDER_NAMES.get(name, name): value for name, value in body.items()}
        first = _time(renamed.pop("eventTime"))
        source = {"component": body["reportingController"]}
        stamped = {"apiVersion": CORE_EVENTS.api_version, "source": source, "firstTimestamp": first}
        return {**renamed, **stamped, **self.repeated(count, observed)}

    def repeated(self, count: int, observed: str) -> Json:
        """How often and when last."""
        return {"count": count, "lastTimestamp": _time(observed)}


def _time(micro_time: str) -> str:
    """Cut a MicroTime to a Time, which has no parts of seconds."""
    return f"{micro_time[:_SECONDS]}Z"
