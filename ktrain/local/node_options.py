"""What the user wants the nodes of the embedded control plane to be. Loads nothing: a control plane may have none."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class NodeLabels:
    """Labels of some nodes: of those numbered in `nodes`, of all if it is None."""

    labels: Mapping[str, str]
    nodes: range | None = None


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """What the user wants the nodes to be."""

    count: int | None = None
    """How many, called `local-0` and so on; None: one, called `local`."""
    resources: Mapping[str, str] = field(default_factory=dict)
    """What each of them has, counted strictly; what is not named is measured."""
    labels: tuple[NodeLabels, ...] = ()
    """The later wins."""

    @property
    def is_described(self) -> bool:
        """Whether the user said anything of them."""
        return self != NodeOptions()

    def labels_of(self, number: int) -> Mapping[str, str]:
        """Return the labels of one node."""
        found: dict[str, str] = {}
        for entry in self.labels:
            if entry.nodes is None or number in entry.nodes:
                found.update(entry.labels)
        return found
