"""
What may be said with a call: the options of writes and deletions, the kinds of patches, and selectors.

Options are typed keyword arguments (`**options: Unpack[WriteOptions]`), so every verb takes the same ones and a client
can have some of them fixed (`Client.with_options`).
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, cast

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ktrain.api.meta import Json

JSON_TYPE: Final = "application/json"
APPLY_TYPE: Final = "application/apply-patch+yaml"

FieldValidation = Literal["Strict", "Warn", "Ignore"]
"""What the server does with fields that the kind does not have: refuse, warn (its default), or drop them silently."""

Propagation = Literal["Background", "Foreground", "Orphan"]
"""What happens to the dependents of a deleted object: they go after it, before it, or stay."""


class PatchType(Enum):
    """How the API server reads a patch. STRATEGIC exists for built-in kinds only."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


class WriteOptions(TypedDict, total=False):
    """Options of every write; those left out are the client's."""

    dry_run: bool
    """Admission and validation run and the answer is what would be stored, but nothing is."""
    field_manager: str | None
    """The name that owns the fields written."""
    field_validation: FieldValidation | None
    """What to do with fields that the kind does not have."""


class DeleteOptions(TypedDict, total=False):
    """Options of deletions."""

    propagation: Propagation | None
    grace_period_s: int | None
    dry_run: bool


def override(fixed: WriteOptions, given: WriteOptions) -> WriteOptions:
    """Return what is given, and what is fixed where nothing is given or None."""
    return cast("WriteOptions", {**fixed, **_given(given)})


def write_query(options: WriteOptions) -> list[tuple[str, str]]:
    """Query parameters of a write."""
    query = []
    if manager := options.get("field_manager"):
        query.append(("fieldManager", manager))
    if options.get("dry_run"):
        query.append(("dryRun", "All"))
    if validation := options.get("field_validation"):
        query.append(("fieldValidation", validation))
    return query


def delete_body(options: DeleteOptions, *, uid: str | None = None, resource_version: str | None = None) -> Json:
    """Write out the body of a deletion. The API server does not look at the query when there is one."""
    preconditions = _given({"uid": uid, "resourceVersion": resource_version})
    fields = {
        "preconditions": preconditions or None,
        "propagationPolicy": options.get("propagation"),
        "gracePeriodSeconds": options.get("grace_period_s"),
        "dryRun": ["All"] if options.get("dry_run") else None,
    }
    return {"apiVersion": "v1", "kind": "DeleteOptions", **_given(fields)}


def selector_query(label_selector: str, field_selector: str) -> list[tuple[str, str]]:
    """Query parameters for the selectors that are not empty."""
    pairs = [("labelSelector", label_selector), ("fieldSelector", field_selector)]
    return [(name, value) for name, value in pairs if value]


def _given(fields: Mapping[str, Any]) -> Json:
    return {name: value for name, value in fields.items() if value is not None}
