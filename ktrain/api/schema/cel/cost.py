"""
What an expression may cost at worst, from how large the values of its schema can get.

An estimate from below: an expression is refused only if it would be absurd by any measure. Upstream's own estimate is
finer and refuses sooner; a schema that it accepts is never refused here. Units are upstream's: about one operation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from .syntax import Call, Conditional, Ident, Index, ListOf, Logic, Macro, MapOf, Node, Select

if TYPE_CHECKING:
    from collections.abc import Mapping

REQUEST_BYTES: Final = 3 << 20
LIMIT: Final = 10_000_000
"""Of one rule."""
LIMIT_OF_ALL: Final = 100_000_000
ABSURD: Final = 100
"""How many times the limit an estimate from below has to be."""
ADVICE: Final = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
    "declared)"
)


@dataclass(frozen=True, slots=True)
class Bound:
    """How large a value can get: characters, items or entries; and what is inside."""

    most: int = 1
    item: Bound | None = None
    fields: Mapping[str, Bound] = field(default_factory=dict)

    def inside(self) -> Bound:
        """Return the bound of items; unknown ones are small."""
        return self.item or _SMALL


_SMALL: Final = Bound()
_LITERAL: Final = 10


def worst_cost(node: Node, bounds: Mapping[str, Bound]) -> int:
    """Return what evaluating a tree costs at worst, or less than that."""
    return _cost(node, bounds)[0]


def _cost(node: Node, bounds: Mapping[str, Bound]) -> tuple[int, Bound]:  # noqa: PLR0911 - one for each kind of node
    match node:
        case Ident():
            return 1, bounds.get(node.name, _SMALL)
        case Select():
            cost, found = _cost(node.operand, bounds)
            return cost + 1, found.fields.get(node.field) or found.inside()
        case Index():
            cost, found = _cost(node.operand, bounds)
            return cost + _cost(node.index, bounds)[0] + 1, found.inside()
        case Call():
            operands = [_cost(one, bounds) for one in ((node.target,) if node.target else ()) + node.args]
            largest = max((bound.most for _, bound in operands), default=1)
            return sum(cost for cost, _ in operands) + 1 + largest // 10, operands[0][1] if operands else _SMALL
        case Logic():
            return sum(_cost(one, bounds)[0] for one in node.operands), _SMALL
        case Conditional():
            branches = [_cost(node.then, bounds), _cost(node.otherwise, bounds)]
            return _cost(node.test, bounds)[0] + max(cost for cost, _ in branches), branches[0][1]
        case ListOf():
            return sum(_cost(one, bounds)[0] for one in node.items) + _LITERAL, Bound(len(node.items))
        case MapOf():
            return sum(_cost(k, bounds)[0] + _cost(v, bounds)[0] for k, v in node.entries) + _LITERAL, _SMALL
        case Macro():
            cost, over = _cost(node.range, bounds)
            inner = {**bounds, **dict.fromkeys(node.names, over.inside())}
            turn = sum(_cost(body, inner)[0] for body in node.bodies)
            turns = 1 if node.name in {"optMap", "optFlatMap"} else over.most
            return cost + turns * turn, over
    return 1, _SMALL
