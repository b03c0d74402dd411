"""
Server-side tables (`meta.k8s.io/v1` Table): what `kubectl get` prints.

A kind's columns are functions from object and time to a cell: built-in kinds have their own (`columns/`), custom ones
those of their CRD's `additionalPrinterColumns`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from ktrain.local.apiserver.columns import BUILTIN
from ktrain.local.apiserver.columns.base import AGE, NAME, Column
from ktrain.local.apiserver.forms.humanize import age
from ktrain.local.apiserver.forms.jsonpath import compile_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from ktrain.api.meta import Json, JsonValue
    from ktrain.local.apiserver.registry import ServedResource

_DEFAULT: Final = (NAME, AGE)
_META_VERSION: Final = "meta.k8s.io/v1"


def columns_for(resource: ServedResource) -> tuple[Column, ...]:
    """Return a resource's columns: Name and Age for custom ones without printer columns, and for unknown kinds."""
    if resource.columns:
        return (NAME, *map(_custom_column, resource.columns))
    if resource.custom:
        return (NAME, CREATED)
    return BUILTIN.get((resource.group, resource.kind), _DEFAULT)


def render(objects: Iterable[Json], resource: ServedResource, *, now: datetime, include: str, meta: Json) -> Json:
    """
    Return the Table of these objects; `meta` is its list metadata.

    `include` says what each row carries besides its cells: `Metadata` (the default of clients), `Object` or `None`.
    """
    columns = columns_for(resource)
    rows = [
        {"cells": [column.cell(obj, now) for column in columns], "object": _row_object(obj, include)} for obj in objects
    ]
    return _table(columns, rows, meta)


def bookmark(resource: ServedResource, obj: Json) -> Json:
    """Return the Table of a watch's bookmark: one empty row. Clients read the resourceVersion of its object."""
    columns = columns_for(resource)
    cells = ["", *[None] * (len(columns) - 1)]
    meta = {"resourceVersion": obj["metadata"]["resourceVersion"]}
    return _table(columns, [{"cells": cells, "object": _row_object(obj, "Metadata")}], meta)


def _table(columns: tuple[Column, ...], rows: list[Json], meta: Json) -> Json:
    definitions = [
        {"name": c.name, "type": c.type, "format": c.format, "description": c.description, "priority": c.priority}
        for c in columns
    ]
    return {
        "kind": "Table",
        "apiVersion": _META_VERSION,
        "metadata": meta,
        "columnDefinitions": definitions,
        "rows": rows,
    }


def _row_object(obj: Json, include: str) -> Json | None:
    if include == "Object":
        return obj
    if include == "None":
        return None
    return {"kind": "PartialObjectMetadata", "apiVersion": _META_VERSION, "metadata": obj["metadata"]}


def _custom_column(definition: Json) -> Column:
    path = definition.get("jsonPath", "")
    kind = definition.get("type", "string")
    return Column(
        definition["name"],
        _custom_cell(path, kind),
        definition.get("description") or f"Custom resource definition column (in JSONPath format): {path}",
        type=kind,
        format=definition.get("format", ""),
        priority=definition.get("priority", 0),
    )


def _custom_cell(path: str, kind: str) -> Callable[[Json, datetime], JsonValue]:
    try:
        compiled = compile_path(path)
    except ValueError:  # A column that we cannot read must not hide the others.
        return lambda _obj, _now: "<invalid>"
    convert: Callable[[JsonValue], JsonValue] = _CONVERSIONS.get(kind, _text)

    def cell(obj: Json, now: datetime) -> JsonValue:
        results = compiled.find(obj)
        if not results or results[0] is None:
            return None
        return age(results[0], now) if kind == "date" else convert(results[0])

    return cell


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _integer(value: JsonValue) -> int | None:
    number = _number(value)
    return None if number is None else int(number)


def _number(value: JsonValue) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return None


def _boolean(value: JsonValue) -> bool | None:
    return value if isinstance(value, bool) else {"true": True, "false": False}.get(value)


_CONVERSIONS: Final[dict[str, Callable[[JsonValue], JsonValue]]] = {
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "string": _text,
}

CREATED: Final = Column(
    "Age",
    _custom_cell(".metadata.creationTimestamp", "date"),
    "How long ago the object was created",
    type="date",
)
