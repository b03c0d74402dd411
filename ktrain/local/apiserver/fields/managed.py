"""
`metadata.managedFields`: who owns which paths, read from and written to an object.

Entries are keyed by who wrote (manager, operation, subresource; for updates also the version written in). An applier is
the same whichever version it applies in.

Source of the rules: KEP-555 and `k8s.io/apimachinery/pkg/util/managedfields`.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ktrain.api.meta import format_time
from ktrain.local.apiserver.fields.fieldset import FieldSet, FieldSetError, parse, union

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ktrain.api.meta import Json

APPLY: Final = "Apply"
UPDATE: Final = "Update"

_MAX_UPDATE_MANAGERS: Final = 10
_OLD_UPDATES: Final = "ancient-changes"


class Manager(NamedTuple):
    """Who owns fields. `api_version` is empty for appliers. Sorts as upstream's identifiers do."""

    name: str
    operation: str
    api_version: str
    subresource: str

    def __str__(self) -> str:
        text = f'"{self.name}"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        return f"{text} using {self.api_version}" if self.operation == UPDATE else text


class Owned(NamedTuple):
    """What a manager owns, as of which version, and when it last changed something; empty if it never did."""

    fields: FieldSet
    api_version: str
    time: str


Managers = dict[Manager, Owned]


def applier(name: str, subresource: str) -> Manager:
    """Return the identity of who applies."""
    return Manager(name, APPLY, "", subresource)


def updater(name: str, api_version: str, subresource: str) -> Manager:
    """Return the identity of who creates, puts or patches."""
    return Manager(name, UPDATE, api_version, subresource)


def stored(obj: Mapping[str, Any]) -> Managers:
    """Read the managers of an object of the store, which this server wrote."""
    return {_manager(entry): _owned(entry, entry.get("fieldsV1") or {}) for entry in _entries(obj)}


def sent(obj: Mapping[str, Any]) -> Managers:
    """
    Read the managers of an object that a client sent.

    Raises:
        FieldSetError: Some entry is not valid.
    """
    managers: Managers = {}
    for entry in _entries(obj):
        if not isinstance(entry, dict) or entry.get("operation") not in (APPLY, UPDATE):
            raise FieldSetError("a managedFields entry needs the operation Apply or Update")
        if entry.get("fieldsType") != "FieldsV1":
            raise FieldSetError("a managedFields entry needs the fieldsType FieldsV1")
        time = entry.get("time")
        try:
            when = format_time(datetime.fromisoformat(time)) if time else ""
        except (TypeError, ValueError) as error:
            raise FieldSetError(f"a managedFields entry has a bad time: {error}") from error
        owned = _owned(entry, parse(entry.get("fieldsV1") or {}))
        managers[_manager(entry)] = owned._replace(time=when)
    return managers


def is_reset(obj: Mapping[str, Any]) -> bool:
    """Whether the client asks for all tracking to be dropped: exactly one empty entry."""
    return bool(_entries(obj) == [{}])


def is_equal(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Whether two objects have the same entries."""
    return bool(_entries(a) == _entries(b))


def entries_of(managers: Managers) -> list[Json]:
    """Write the entries: appliers first, then by time, name, version and subresource."""
    ordered = sorted(
        managers.items(),
        key=lambda item: (item[0].operation, item[1].time, item[0].name, item[1].api_version, item[0].subresource),
    )
    return [_entry(manager, owned) for manager, owned in ordered]


def cap_updaters(managers: Managers) -> Managers:
    """Join the oldest updaters of a version into one, so that there are at most ten."""
    updaters = sorted(
        (manager for manager in managers if manager.operation == UPDATE), key=lambda m: (managers[m].time, m)
    )
    excess = len(updaters) - _MAX_UPDATE_MANAGERS
    if excess <= 0:
        return managers
    capped = dict(managers)
    first_of_version: dict[str, Manager] = {}
    for manager in updaters:
        if excess == 0:
            break
        version = manager.api_version
        if version not in first_of_version:
            first_of_version[version] = manager
            continue
        bucket = updater(_OLD_UPDATES, version, "")
        if bucket not in capped:
            capped[bucket] = capped.pop(first_of_version[version])
        owned = capped.pop(manager)
        capped[bucket] = owned._replace(fields=union(capped[bucket].fields, owned.fields))
        excess -= 1
    return capped


def without_managed_fields(obj: Json) -> Json:
    """Return the object without managedFields; itself if it has none."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return obj
    return {**obj, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}


def with_managed_fields(obj: Json, managers: Managers) -> Json:
    """Return the object with these managers written into it."""
    if not managers:
        return without_managed_fields(obj)
    return {**obj, "metadata": {**obj.get("metadata", {}), "managedFields": entries_of(managers)}}


def _entries(obj: Mapping[str, Any]) -> list[Any]:
    return (obj.get("metadata") or {}).get("managedFields") or []


def _manager(entry: Json) -> Manager:
    version = entry.get("apiVersion", "") if entry["operation"] == UPDATE else ""
    return Manager(entry.get("manager", ""), entry["operation"], version, entry.get("subresource", ""))


def _owned(entry: Json, fields: FieldSet) -> Owned:
    return Owned(fields, entry.get("apiVersion", ""), entry.get("time") or "")


def _entry(manager: Manager, owned: Owned) -> Json:
    entry: Json = {"manager": manager.name, "operation": manager.operation, "apiVersion": owned.api_version}
    if owned.time:
        entry["time"] = owned.time
    entry["fieldsType"] = "FieldsV1"
    entry["fieldsV1"] = owned.fields
    if manager.subresource:
        entry["subresource"] = manager.subresource
    return entry
