"""
Server-side apply, and the tracking of who owns what: pure functions from live object and request to the new object.

    merged = server_side_apply(live, config, schema=schema, manager="m", force=False, api_version="ex.test/v1", now=now)
    tracked = track_update(old, new, schema=schema, manager="m", api_version="ex.test/v1", now=now)

An applier owns the leaves and list items it names. An updater (POST, PUT, other patches) owns what it changed. Both end
up in `metadata.managedFields`. Defaulting is the server's: after an apply, before an update is tracked.

Source of the rules: KEP-555, https://kubernetes.io/docs/reference/using-api/server-side-apply/, and
`k8s.io/apimachinery/pkg/util/managedfields`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from ktrain.api.meta import Json, format_time
from ktrain.api.patch import equal
from ktrain.local.apiserver.fields import managed
from ktrain.local.apiserver.fields.comparing import Comparison, compare
from ktrain.local.apiserver.fields.fieldset import (
    EMPTY,
    MEMBER,
    SELF,
    FieldSet,
    FieldSetError,
    difference,
    intersection,
    paths,
    union,
    without_branches,
)
from ktrain.local.apiserver.fields.managed import Manager, Managers, Owned
from ktrain.local.apiserver.fields.merging import merge, prune
from ktrain.local.apiserver.fields.typed import TypingError, fields_of

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from ktrain.api.schema import Schema

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_KUBECTL: Final = "kubectl"
_NOTHING: Final[Json] = {}
_BEFORE_FIRST_APPLY: Final = "before-first-apply"

_NEVER_OWNED: Final[FieldSet] = {
    "f:apiVersion": MEMBER,
    "f:kind": MEMBER,
    "f:metadata": {
        SELF: MEMBER,
        "f:name": MEMBER,
        "f:namespace": MEMBER,
        "f:creationTimestamp": MEMBER,
        "f:selfLink": MEMBER,
        "f:uid": MEMBER,
        "f:clusterName": MEMBER,
        "f:generation": MEMBER,
        "f:managedFields": MEMBER,
        "f:resourceVersion": MEMBER,
    },
}


class TypedPatchError(ValueError):
    """The configuration does not fit the schema: 500 without a reason. The text is upstream's."""


class ApplyConflict(Exception):
    """
    Other managers own what the apply would change: 409. The text is upstream's message.

    `causes` are the causes of the Status, one for each manager and path.
    """

    def __init__(self, conflicts: dict[Manager, FieldSet]) -> None:
        self.conflicts = conflicts
        listed = {manager: list(paths(conflicts[manager])) for manager in sorted(conflicts)}
        self.causes: list[Json] = [
            {"reason": "FieldManagerConflict", "message": f"conflict with {manager}", "field": path}
            for manager, fields in listed.items()
            for path in fields
        ]
        super().__init__(_conflict_message(listed))


def _conflict_message(listed: dict[Manager, list[str]]) -> str:
    count = sum(map(len, listed.values()))
    if count == 1:
        ((manager, (path,)),) = listed.items()
        return f"Apply failed with 1 conflict: conflict with {manager}: {path}"
    groups = ["\n- ".join([f"conflicts with {manager}:", *fields]) for manager, fields in listed.items()]
    return f"Apply failed with {count} conflicts: " + "\n".join(groups)


@dataclass(frozen=True, slots=True)
class _Writer:
    """What a write knows besides its objects."""

    schema: Schema
    api_version: str
    subresource: str
    now: str
    reset: tuple[str, ...]

    def compare(self, old: Json, new: Json) -> Comparison:
        """Compare by schema, leaving out what this URL resets."""
        found = compare(old, new, self.schema.root)
        return Comparison(*(without_branches(fields, self.reset) for fields in found)) if self.reset else found

    def owned(self, fields: FieldSet) -> FieldSet:
        """Return what of the fields may be owned through this URL."""
        return difference(without_branches(fields, self.reset), _NEVER_OWNED)


def server_side_apply(
    live: Json | None,
    config: Json,
    *,
    schema: Schema,
    manager: str,
    force: bool,
    api_version: str,
    now: datetime,
    subresource: str = "",
    reset: Collection[str] = (),
) -> Json:
    """
    Merge an applied configuration into the live object (None: create it) and return the result with its managedFields.

    The result is `live` itself if the apply changes nothing. `reset` names the top-level fields that this URL neither
    changes nor owns: `status` on the main URL of kinds with that subresource, `spec` on `/status`. The result shares
    unchanged parts with both arguments.

    Raises:
        TypedPatchError: The configuration does not fit the schema.
        ApplyConflict: Others own what it would change, and `force` is not set.
    """
    writer = _Writer(schema, api_version, subresource, format_time(now), tuple(reset))
    if reset:
        config = {key: value for key, value in config.items() if key not in reset}
    try:
        fields = writer.owned(fields_of(config, schema.root))
    except TypingError as error:
        raise TypedPatchError(_typed_patch_message(config, api_version, str(error))) from error
    before = managed.without_managed_fields(live) if live else _NOTHING
    managers = _managers_for_apply(live, before, writer)
    me = managed.applier(manager, subresource)
    try:
        merged, after = _apply(before, config, managers, me, fields, writer, force=force)
    except ApplyConflict as conflict:
        if manager != _KUBECTL or not _is_last_applied(conflict, before, writer):
            raise
        merged, after = _apply(before, config, managers, me, fields, writer, force=True)
    if manager == _KUBECTL:
        merged = _sync_last_applied(merged, config)
    if live and merged is before and after == managed.stored(live):
        return live
    return managed.with_managed_fields(merged, after)


def track_update(
    old: Json | None,
    new: Json,
    *,
    schema: Schema,
    manager: str,
    api_version: str,
    now: datetime,
    subresource: str = "",
    reset: Collection[str] = (),
    empty: Json = _NOTHING,
) -> Json:
    """
    Return `new` with the managedFields that follow from its difference to `old` (None: it is being created).

    For POST, PUT, and patches other than apply, after defaulting. The managedFields that the client sent in `new` are
    taken over when they are valid; none keep the stored ones; `[{}]` drops all tracking until the next apply.
    `empty` is what a new object holds before anybody writes it, so that nobody owns it.
    """
    writer = _Writer(schema, api_version, subresource, format_time(now), tuple(reset))
    managers = _managers_for_update(old, new, subresource)
    after = managed.without_managed_fields(new)
    if old is not None and not managers:
        return after
    before = managed.without_managed_fields(old) if old is not None else empty
    me = managed.updater(manager, api_version, subresource)
    return managed.with_managed_fields(after, managed.cap_updaters(_update(managers, before, after, me, writer)))


def _managers_for_apply(live: Json | None, before: Json, writer: _Writer) -> Managers:
    """Return the live object's managers. What nobody tracked so far belongs to an updater of its own."""
    if live is None:
        return {}
    unknown = managed.updater(_BEFORE_FIRST_APPLY, writer.api_version, writer.subresource)
    return managed.stored(live) or _update({}, _NOTHING, before, unknown, writer)


def _managers_for_update(old: Json | None, new: Json, subresource: str) -> Managers:
    if old is None:
        return {}
    # Most clients send back what they read, and nobody may change it through a subresource.
    if not subresource and not managed.is_equal(old, new):
        if managed.is_reset(new):
            return {}
        try:
            if adopted := managed.sent(new):
                return adopted
        except FieldSetError:
            pass  # Clients that do not understand managedFields must not lose them for everyone.
    return managed.stored(old)


def _apply(
    live: Json,
    config: Json,
    managers: Managers,
    me: Manager,
    fields: FieldSet,
    writer: _Writer,
    *,
    force: bool,
) -> tuple[Json, Managers]:
    """Return the merged object and its managers. The object is `live` if no value changes."""
    last = managers.get(me)
    merged = merge(live, config, writer.schema.root)
    # Equality of dicts is quick, and the usual apply names what it named before.
    dropped = difference(last.fields, fields) if last and last.fields != fields else EMPTY
    if dropped:
        everyone = union(fields, _NEVER_OWNED)  # what nobody may own is the server's, and never goes
        for manager, owned in managers.items():
            if manager != me:
                everyone = union(everyone, owned.fields)
        merged = prune(merged, config, writer.schema.root, dropped=dropped, managed=everyone)
    found = writer.compare(live, merged)
    others = {manager: owned for manager, owned in managers.items() if manager != me}
    changed = union(found.added, found.modified)
    if not force:
        conflicts = {m: both for m, owned in others.items() if (both := intersection(owned.fields, changed))}
        if conflicts:
            raise ApplyConflict(conflicts)
    after = _take(others, union(changed, found.removed))
    is_same = equal(live, merged)
    if fields:
        time = writer.now if not is_same else last.time if last else ""
        after[me] = Owned(fields, writer.api_version, time)
    return (live if is_same else merged), after


def _update(managers: Managers, old: Json, new: Json, me: Manager, writer: _Writer) -> Managers:
    """Give an updater what it changed, and take that from everyone else."""
    found = writer.compare(old, new)
    changed = union(found.added, found.modified)
    after = _take(managers, union(changed, found.removed))
    claimed = writer.owned(changed)
    if claimed:
        kept = after[me].fields if me in after else EMPTY
        after[me] = Owned(union(kept, claimed), writer.api_version, writer.now)
    return after


def _take(managers: Managers, fields: FieldSet) -> Managers:
    """Return the managers without these fields; who is left with none is gone."""
    if not fields:
        return dict(managers)
    left = {}
    for manager, owned in managers.items():
        kept = difference(owned.fields, fields)
        if kept:
            left[manager] = owned if kept is owned.fields else owned._replace(fields=kept)
    return left


# --- kubectl ----------------------------------------------------------------------------------------------------------


def _is_last_applied(conflict: ApplyConflict, live: Json, writer: _Writer) -> bool:
    """
    Whether all conflicts are about what kubectl itself applied last, client-side, and is unchanged since.

    So moving from client-side to server-side apply with the same manager name does not conflict with itself.
    """
    text = _annotations(live).get(LAST_APPLIED)
    if text is None:
        return False
    try:
        applied = msgspec.json.decode(text, type=dict)
        fields = fields_of(applied, writer.schema.root)
    except (msgspec.DecodeError, TypingError):
        return False
    found = compare(applied, live, writer.schema.root)
    for changed in found:
        fields = difference(fields, changed)
    return not any(difference(claimed, fields) for claimed in conflict.conflicts.values())


def _sync_last_applied(merged: Json, config: Json) -> Json:
    """Keep the annotation of client-side apply current where it is in use, so that one can go back to it."""
    annotations = _annotations(merged)
    if LAST_APPLIED not in annotations:
        return merged
    applied = managed.without_managed_fields(config)
    own = {key: value for key, value in _annotations(applied).items() if key != LAST_APPLIED}
    metadata = {**applied.get("metadata", {}), "annotations": own}
    text = msgspec.json.encode({**applied, "metadata": metadata}, order="sorted").decode() + "\n"
    if annotations[LAST_APPLIED] == text:
        return merged
    return {**merged, "metadata": {**merged["metadata"], "annotations": {**annotations, LAST_APPLIED: text}}}


def _annotations(obj: Json) -> dict[str, str]:
    return (obj.get("metadata") or {}).get("annotations") or {}


def _typed_patch_message(config: Json, api_version: str, detail: str) -> str:
    given = config.get("metadata")
    metadata = given if isinstance(given, dict) else {}
    name = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    version = api_version if "/" in api_version else f"/{api_version}"
    return f"failed to create typed patch object ({name}; {version}, Kind={config.get('kind', '')}): {detail}"
