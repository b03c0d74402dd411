"""
What validation found: field errors in the API server's words, and warnings.

The texts are part of the wire: clients and tests match on them (k8s.io/apimachinery, `field.Error`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import JsonValue
    from ktrain.api.schema import Cause
    from ktrain.api.trainer import TrainJob

Kind = Literal["Invalid value", "Forbidden", "Required value", "Internal error"]

_MAX_VALUE_CHARS: Final = 10_000


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing wrong with one field. `value` is shown for `Invalid value` only."""

    path: str
    kind: Kind
    detail: str
    value: JsonValue = None

    def __str__(self) -> str:
        if self.kind != "Invalid value":
            return f"{self.path}: {self.kind}" + (f": {self.detail}" if self.detail else "")
        shown = json.dumps(self.value, separators=(",", ":"), ensure_ascii=False)
        if len(shown) > _MAX_VALUE_CHARS:
            shown = f"{shown[:_MAX_VALUE_CHARS]}..."
        return f"{self.path}: {self.kind}: {shown}: {self.detail}"


def invalid(path: str, value: JsonValue, detail: str) -> FieldError:
    """The value cannot be."""
    return FieldError(path, "Invalid value", detail, value)


def forbidden(path: str, detail: str) -> FieldError:
    """The field may not be set, or not now."""
    return FieldError(path, "Forbidden", detail)


def some_nodes(job: TrainJob, policy: str) -> Iterator[FieldError]:
    """Yield that a new job of a framework has no nodes: it would end without having run."""
    trainer = job.spec.trainer
    if trainer and trainer.num_nodes == 0:
        detail = f"must be at least 1: the runtime has mlPolicy.{policy}, and without nodes nothing would run"
        yield invalid("spec.trainer.numNodes", 0, detail)


@dataclass(frozen=True, slots=True)
class Findings:
    """Errors and warnings of one or of all validators."""

    errors: tuple[FieldError | Cause, ...] = ()
    """A `Cause` is what a plugin's schema has against the slot that it describes."""
    warnings: tuple[str, ...] = ()

    def __add__(self, other: Findings) -> Findings:
        return Findings(self.errors + other.errors, self.warnings + other.warnings)

    @property
    def message(self) -> str:
        """All errors as one text, as Go's aggregate has it: one plain, several in brackets, none twice."""
        texts = list(dict.fromkeys(map(str, self.errors)))
        return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]" if texts else ""
