"""Events: two APIs on one storage. What is stored has the form of core/v1; events.k8s.io/v1 is a view of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes
from ktrain.local.apiserver.builtins.leases import micro_time_error
from ktrain.local.apiserver.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

_NOTE_LIMIT: Final = 1024
_TYPES: Final = ("Normal", "Warning")
_NEW_NAMES: Final = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_OLD_NAMES: Final = {new: old for old, new in _NEW_NAMES.items()}
_REPORTERS: Final = frozenset({"reportingComponent", "reportingInstance"})
_FROZEN: Final = (
    "regarding",
    "reason",
    "note",
    "deprecatedSource",
    "deprecatedFirstTimestamp",
    "deprecatedLastTimestamp",
    "deprecatedCount",
    "type",
    "eventTime",
    "action",
    "related",
    "reportingController",
    "reportingInstance",
)
"""What the new API does not let a client change."""


class CoreEventStrategy(Strategy):
    """Events of the core group."""

    has_generation = False
    qualified_finalizers = False
    create_on_update = True

    def check_types(self, obj: Json) -> str:
        """Check the one MicroTime."""
        return micro_time_error(obj.get("eventTime"))

    def default(self, obj: Json) -> None:
        """Write the fields that typed clients always send."""
        obj.setdefault("source", {})
        obj.setdefault("firstTimestamp", None)
        obj.setdefault("lastTimestamp", None)
        obj.setdefault("eventTime", None)
        obj.setdefault("reportingComponent", "")
        obj.setdefault("reportingInstance", "")
        obj.setdefault("involvedObject", {})

    def validate(self, obj: Json) -> Sequence[Cause]:
        """An event lives where the object it is about lives."""
        return list(_check_namespace(obj, "involvedObject"))


class EventStrategy(Strategy):
    """Events of events.k8s.io."""

    has_generation = False
    qualified_finalizers = False
    create_on_update = True
    converts = True

    def check_types(self, obj: Json) -> str:
        """Check the one MicroTime."""
        return micro_time_error(obj.get("eventTime"))

    def to_storage(self, obj: Json) -> Json:
        """Rename to the core form."""
        stored = {_OLD_NAMES.get(name, name): value for name, value in obj.items()}
        stored |= {"kind": "Event", "apiVersion": "v1"}
        stored.setdefault("source", {})
        stored.setdefault("firstTimestamp", None)
        stored.setdefault("lastTimestamp", None)
        return stored

    def from_storage(self, obj: Json) -> Json:
        """Rename to the new form, which leaves out reporters that are not named."""
        return {_NEW_NAMES.get(name, name): value for name, value in obj.items() if value or name not in _REPORTERS}

    def validate_update(self, obj: Json, old: Json) -> Sequence[Cause]:
        """What happened stays; how often it happened may grow."""
        found = [field for field in _FROZEN if obj.get(field) != old.get(field)]
        return [causes.invalid(_OLD_NAMES.get(field, field), obj.get(field), causes.IMMUTABLE) for field in found]

    def validate(self, obj: Json) -> Sequence[Cause]:
        """The new API requires to be told who did what."""
        found = list(_check_namespace(obj, "regarding"))
        required = ("eventTime", "reportingController", "reportingInstance", "action", "reason")
        found += [causes.required(name) for name in required if not obj.get(name)]
        if obj.get("type") not in _TYPES:
            found.append(causes.invalid("type", obj.get("type", ""), "has to be either Normal or Warning"))
        if len(obj.get("note") or "") > _NOTE_LIMIT:
            found.append(causes.invalid("note", "", "can have at most 1024 characters"))
        return found


def _check_namespace(obj: Json, field: str) -> Iterator[Cause]:
    about = (obj.get(field) or {}).get("namespace", "")
    namespace = obj["metadata"].get("namespace", "")
    if about != namespace and not (not about and namespace == "default"):
        # Upstream's text, whichever API the event came through.
        yield causes.invalid("involvedObject.namespace", about, "does not match event.namespace")
