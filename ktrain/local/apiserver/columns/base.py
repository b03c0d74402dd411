"""What a column is, and the parts that many kinds' columns are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ktrain.api.meta import Json, JsonValue
from ktrain.local.apiserver.forms.humanize import age

Cell = Callable[[Json, datetime], JsonValue]
"""What a column shows of an object at a time."""

NONE: Final = "<none>"
UNSET: Final = "<unset>"


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its header, and its cell for an object at a time. Priority 1 shows only in wide output."""

    name: str
    cell: Cell
    description: str
    type: str = "string"
    format: str = ""
    priority: int = 0


def at(*path: str, default: JsonValue = "") -> Cell:
    """Return the cell that shows the value at a path of keys, `default` if there is none."""

    def value_at(obj: Json) -> JsonValue:
        value: JsonValue = obj
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return default if value is None else value

    return of(value_at)


def of(function: Callable[[Json], JsonValue]) -> Cell:
    """Return the cell of a function that does not ask for the time."""
    return lambda obj, _now: function(obj)


def condition(obj: Json, type_: str) -> Json | None:
    """Return the object's condition of this type."""
    conditions = (obj.get("status") or {}).get("conditions") or []
    return next((c for c in conditions if c.get("type") == type_), None)


def is_true(obj: Json, type_: str) -> bool:
    """Whether the object has a true condition of this type."""
    found = condition(obj, type_)
    return found is not None and found.get("status") == "True"


def labels_text(labels: Json | None) -> str:
    """Return labels as `a=b,c=d`."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def is_deleting(obj: Json) -> bool:
    """Whether deletion has begun."""
    return bool(obj["metadata"].get("deletionTimestamp"))


NAME: Final = Column("Name", at("metadata", "name"), "The object's name, unique in its namespace", format="name")
AGE: Final = Column(
    "Age",
    lambda obj, now: age(obj["metadata"].get("creationTimestamp"), now),
    "How long ago the object was created",
)
CREATED_AT: Final = Column(
    "Created At", at("metadata", "creationTimestamp"), "When the object was created", type="date"
)
