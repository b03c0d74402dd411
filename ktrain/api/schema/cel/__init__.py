"""
The Common Expression Language, as Kubernetes speaks it: in rules of schemas, conditions and policies.

    expression = compiled("self.replicas <= self.max")       # parsed once
    expression.evaluate({"self": {...}}) -> value            # within a budget of steps
    problems("object.spec.x > 1", {"object": DYN}, BOOL)     # what is wrong with it, before it ever runs

    parser.py (lexer.py)      text to a tree (syntax.py)
    check.py (types.py)       a tree against the types of its variables
    evaluate.py, macros.py    a tree to a function (running.py: of what, and within which budget)
    library.py                functions, registered by standard.py, texts.py and kubernetes.py

Why our own: an API server evaluates what its users send. It has to bound time and memory, to say what is wrong before
an expression is stored, and to do so in upstream's words; the libraries for Python do none of it.

Source: the CEL specification, cel-go, and `k8s.io/apiserver/pkg/cel`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from . import kubernetes, standard, texts
from .check import Checker
from .cost import Bound, worst_cost
from .errors import CelError, OutOfBudget
from .evaluate import compile_tree
from .parser import parse
from .running import BUDGET, Budget
from .types import BOOL, DYN, STRING, Type, object_type
from .types import show as show_type
from .values import NONE, Optional, Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...meta import Json
    from .running import Run
    from .syntax import Node

__all__ = [
    "BOOL",
    "DYN",
    "STEPS_OF_ONE",
    "STRING",
    "Budget",
    "CelError",
    "Expression",
    "OutOfBudget",
    "Type",
    "Value",
    "check",
    "compiled",
    "object_type",
    "optional",
    "show_type",
]
STEPS_OF_ONE: Final = 1_000_000
"""What one evaluation may cost, as upstream has it."""
_LIBRARY: Final = (standard, texts, kubernetes)


class Expression:
    """One expression, parsed and ready to run."""

    __slots__ = ("_run", "_tree", "source")

    def __init__(self, source: str) -> None:
        """
        Compile the expression.

        Raises:
            CelError: If its syntax is wrong.
        """
        self.source: Final = source
        try:
            self._tree: Node = parse(source)
            self._run: Run = compile_tree(self._tree)
        except RecursionError as error:
            # What fits usually may not where Python's stack is full already.
            raise CelError("expression recursion limit exceeded") from error

    def evaluate(self, variables: Json, budget: Budget | None = None) -> Value:
        """
        The value of the expression. `budget` is what several evaluations share; each is bounded anyway.

        Raises:
            OutOfBudget: If it takes too long.
            CelError: If it has none: a key or index that is not there, operands that do not fit.
        """
        own = Budget(STEPS_OF_ONE if budget is None else min(STEPS_OF_ONE, budget.left))
        granted = own.left
        try:
            return self._run({**variables, BUDGET: own})
        except (OverflowError, MemoryError, RecursionError) as error:
            raise CelError(str(error) or type(error).__name__) from error
        finally:
            if budget is not None:
                budget.left -= granted - max(own.left, 0)

    def check(self, variables: Mapping[str, Type]) -> tuple[Type, list[str]]:
        """The type of the expression's value, and what is wrong with it; dyn is unknown."""
        checker = Checker(self.source, variables)
        return checker.check(self._tree), checker.problems

    def worst_cost(self, bounds: Mapping[str, Bound]) -> int:
        """What evaluation costs at least, if variables are as large as they can get."""
        return worst_cost(self._tree, bounds)


@lru_cache(maxsize=2048)
def compiled(source: str) -> Expression:
    """
    The expression, compiled once.

    Raises:
        CelError: If its syntax is wrong.
    """
    return Expression(source)


def check(source: str, variables: Mapping[str, Type]) -> tuple[Type, str]:
    """The type of an expression's value, and what is wrong with it: the text of a compilation error, or nothing."""
    try:
        found, problems = Expression(source).check(variables)
    except CelError as error:
        return DYN, str(error)
    except RecursionError:
        return DYN, "expression recursion limit exceeded"
    return found, "\n".join(problems)


def optional(*value: Value) -> Optional:
    """CEL's optional: of the value given, or none."""
    return Optional(value[0], present=True) if value else NONE
