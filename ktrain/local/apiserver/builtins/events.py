"""
Events: two APIs on one storage. What is stored has the form of core/v1; events.k8s.io/v1 is a view of it.

The old API takes nearly everything, as long as `eventTime` is not set; the new one wants to be told who did what.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api.selectors import label_key_errors
from ktrain.local.apiserver import causes, names
from ktrain.local.apiserver.builtins.leases import micro_time_error
from ktrain.local.apiserver.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

_NOTE_LIMIT: Final = 1024
_NAME_LIMIT: Final = 128
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
_UNTYPED: Final = ("deprecatedFirstTimestamp", "deprecatedLastTimestamp", "deprecatedCount", "deprecatedSource")
"""What a new event has under the new API only from older clients."""
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
_TEXTS: Final = frozenset({"reason", "note", "type", "action", "reportingController", "reportingInstance"})


class _AnyEventStrategy(Strategy):
    """What both APIs share."""

    has_generation = False
    qualified_finalizers = False
    create_on_update = True
    collects = False

    def check_types(self, obj: Json) -> str:
        """Check the two MicroTimes."""
        return micro_time_error(obj.get("eventTime")) or micro_time_error(
            (obj.get("series") or {}).get("lastObservedTime")
        )


class CoreEventStrategy(_AnyEventStrategy):
    """Events of the core group."""

    empty: Json = {
        "eventTime": None,
        "firstTimestamp": None,
        "lastTimestamp": None,
        "reportingComponent": "",
        "reportingInstance": "",
        "source": {},
        "involvedObject": {},
        "metadata": {},
    }

    def check_name(self, name: str, *, prefix: bool = False) -> list[str]:
        """Anything that fits into a URL."""
        return names.path_segment(name, prefix=prefix)

    def default(self, obj: Json) -> None:
        """Write the fields that typed clients always send."""
        obj.setdefault("source", {})
        obj.setdefault("firstTimestamp", None)
        obj.setdefault("lastTimestamp", None)
        obj.setdefault("eventTime", None)
        obj.setdefault("reportingComponent", "")
        obj.setdefault("reportingInstance", "")
        obj.setdefault("involvedObject", {})
        if (series := obj.get("series")) is not None:
            series.setdefault("lastObservedTime", None)

    def validate(self, obj: Json) -> Sequence[Cause]:
        """An event lives where the object it is about lives; one of the new kind is complete."""
        found = list(_check_namespace(obj, "involvedObject", strict=True))
        return [*found, *_validate_report(obj, "reportingComponent", "message")] if obj.get("eventTime") else found


class EventStrategy(_AnyEventStrategy):
    """Events of events.k8s.io."""

    converts = True
    qualified_finalizers = True
    empty: Json = {
        "eventTime": None,
        "deprecatedFirstTimestamp": None,
        "deprecatedLastTimestamp": None,
        "deprecatedSource": {},
        "regarding": {},
        "metadata": {},
    }

    def default(self, obj: Json) -> None:
        """Write the fields that typed clients always send."""
        for name in ("deprecatedFirstTimestamp", "deprecatedLastTimestamp", "eventTime"):
            obj.setdefault(name, None)
        obj.setdefault("deprecatedSource", {})
        obj.setdefault("regarding", {})
        if (series := obj.get("series")) is not None:
            series.setdefault("lastObservedTime", None)

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

    def validate(self, obj: Json) -> Sequence[Cause]:
        """An event that is about nothing in a namespace lives in `default`; one of the new kind is complete."""
        found = list(_check_namespace(obj, "regarding", strict=False))
        return [*found, *_validate_report(obj, "reportingController", "note")] if obj.get("eventTime") else found

    def validate_create(self, obj: Json) -> Sequence[Cause]:
        """The new API requires to be told when; the old API's fields have no place in it."""
        found = list(_validate_series(obj))
        if not obj.get("eventTime"):
            found.append(causes.required("eventTime"))
        if (kind := obj.get("type", "")) not in _TYPES:
            found.append(causes.invalid("type", "", f"has invalid value: {kind}"))
        found += [causes.invalid(_OLD_NAMES[name], "", "needs to be unset") for name in _UNTYPED if obj.get(name)]
        return found

    def validate_update(self, obj: Json, old: Json) -> Sequence[Cause]:
        """What happened stays; how often it happened may grow."""
        found = [] if obj.get("series") == old.get("series") else list(_validate_series(obj))
        for field in _FROZEN:
            value = obj.get(field) or None
            if value != (old.get(field) or None):
                shown = "" if value is None and field in _TEXTS else value
                name = field if field == "reportingController" else _OLD_NAMES.get(field, field)
                found.append(causes.invalid(name, shown, causes.IMMUTABLE))
        return found


def _validate_report(obj: Json, reporter: str, note: str) -> Iterator[Cause]:
    """Yield what is missing of who did what; the text of both APIs is the old one's."""
    if not (controller := obj.get(reporter) or ""):
        yield causes.required(reporter)
    yield from (causes.invalid(reporter, controller, text) for text in label_key_errors(controller))
    for name in ("reportingInstance", "action", "reason"):
        text = obj.get(name) or ""
        if not text:
            yield causes.required(name)
        if len(text) > _NAME_LIMIT:
            yield causes.invalid(name, "", f"can have at most {_NAME_LIMIT} characters")
    if len(obj.get(note) or "") > _NOTE_LIMIT:
        yield causes.invalid("message", "", f"can have at most {_NOTE_LIMIT} characters")


def _validate_series(obj: Json) -> Iterator[Cause]:
    if (series := obj.get("series")) is None:
        return
    if series.get("count", 0) < 2:
        yield causes.invalid("series.count", "", "should be at least 2")
    if not series.get("lastObservedTime"):
        yield causes.required("series.lastObservedTime")


def _check_namespace(obj: Json, field: str, *, strict: bool) -> Iterator[Cause]:
    about = (obj.get(field) or {}).get("namespace", "")
    namespace = obj["metadata"].get("namespace", "")
    if (about != namespace and strict and about) or (not about and namespace != "default"):
        # Upstream's text, whichever API the event came through.
        yield causes.invalid("involvedObject.namespace", about, "does not match event.namespace")
