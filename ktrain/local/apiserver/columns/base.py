"""What a column is, and the parts that many kinds' columns are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ktrain.local.apiserver.forms.humanize import age

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from ktrain.api.meta import Json

NONE: Final = "<none>"
UNSET: Final = "<unset>"


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its header, and its cell for an object at a time. Priority 1 shows only in wide output."""

    name: str
    cell: Callable[[Json, datetime], Any]
    description: str
    type: str = "string"
    format: str = ""
    priority: int = 0


def at(*path: str, default: Any = "") -> Callable[[Json, datetime], Any]:  # noqa: ANN401 - any cell
    """Return the cell that shows the value at a path of keys, `default` if there is none."""

    def cell(obj: Json, now: datetime) -> Any:  # noqa: ANN401, ARG001 - any cell; a column's signature
        value: Any = obj
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return default if value is None else value

    return cell


def of(function: Callable[[Json], Any]) -> Callable[[Json, datetime], Any]:
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
