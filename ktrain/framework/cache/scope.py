"""Which objects of a kind an informer holds."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ktrain.api.meta import Resource

NAMED: Final = 3
"""Names and labels of metrics name so many namespaces, and count more."""
_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
"""A DNS label (RFC 1123): what the API server takes as the name of a namespace."""
MAX_NAMESPACES: Final = 100
"""Each watched namespace costs a connection for each kind that the operator follows."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Namespaces and selectors; what is empty limits nothing."""

    namespaces: tuple[str, ...] = ()
    label_selector: str = ""
    field_selector: str = ""

    def __str__(self) -> str:
        many = len(self.namespaces) > NAMED
        namespaces = f"{len(self.namespaces)} namespaces" if many else ", ".join(self.namespaces)
        parts = (namespaces and f"in {namespaces}", self.label_selector, self.field_selector)
        return " ".join(part for part in parts if part)

    @property
    def namespace(self) -> str:
        """The only namespace of a partition; empty if it has all."""
        return self.namespaces[0] if self.namespaces else ""

    def partitions(self) -> Iterator[Scope]:
        """Return the scope of each list and watch: one for each namespace, or one for all of them."""
        if not self.namespaces:
            yield self
        for namespace in self.namespaces:
            yield replace(self, namespaces=(namespace,))

    def covers(self, other: Scope) -> bool:
        """Whether every object in the other scope is in this one, as far as the texts of the selectors tell."""
        return (
            (not self.namespaces or (bool(other.namespaces) and set(other.namespaces) <= set(self.namespaces)))
            and self.label_selector in ("", other.label_selector)
            and self.field_selector in ("", other.field_selector)
        )


def namespaces_problem(namespaces: Sequence[str]) -> str:
    """Return why an operator cannot be limited to these namespaces; empty if it can."""
    for namespace in namespaces:
        if not _NAMESPACE.fullmatch(namespace):
            return f"{namespace!r} is no name of a namespace: at most 63 of a-z, 0-9 and -"
        if namespaces.count(namespace) > 1:
            return f"{namespace!r} is there more than once"
    if len(namespaces) > MAX_NAMESPACES:
        return f"at most {MAX_NAMESPACES} namespaces can be watched one by one, not {len(namespaces)}"
    return ""


def describe(resource: Resource[Any], scope: Scope) -> str:
    """Name a kind in a scope, for people."""
    return f"{resource.qualified_name} {scope}".rstrip()
