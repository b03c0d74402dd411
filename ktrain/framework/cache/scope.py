"""Which objects of a kind an informer holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ktrain.api.meta import Resource


@dataclass(frozen=True, slots=True)
class Scope:
    """A namespace and selectors; what is empty limits nothing."""

    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""

    def __str__(self) -> str:
        parts = (self.namespace and f"in {self.namespace}", self.label_selector, self.field_selector)
        return " ".join(part for part in parts if part)

    def covers(self, other: Scope) -> bool:
        """Whether every object in the other scope is in this one, as far as the texts of the selectors tell."""
        return (
            self.namespace in ("", other.namespace)
            and self.label_selector in ("", other.label_selector)
            and self.field_selector in ("", other.field_selector)
        )


def describe(resource: Resource[Any], scope: Scope) -> str:
    """Name a kind in a scope, for people."""
    return f"{resource.qualified_name} {scope}".rstrip()
