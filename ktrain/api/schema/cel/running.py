"""
What the functions that `evaluate.py` and `macros.py` make of trees are, and the two things that they share.

`is_decided` is why errors are values: `&&`, `||` and the quantifiers all look for one operand or item that decides, and
an error counts only if none does. It is here once so that they cannot come to differ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from .errors import CelError, OutOfBudget
from .values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable

Variables = dict[str, Value]
Run = Callable[[Variables], Value]
BUDGET: Final = ""
"""Where the budget is among the variables: under a name that no variable can have."""


class Budget:
    """What evaluation may still cost, in steps: an operation in a loop, ten characters read, an item copied."""

    __slots__ = ("left",)

    def __init__(self, steps: int) -> None:
        self.left = steps

    def spend(self, steps: int) -> None:
        """
        Take some of it.

        Raises:
            OutOfBudget: It is used up.
        """
        self.left -= steps
        if self.left < 0:
            raise OutOfBudget("operation cancelled: actual cost limit exceeded")


def is_decided(runs: Iterable[Run], variables: Variables, *, decisive: bool) -> bool:
    """
    Return whether some function gives `decisive`; none after it runs.

    Raises:
        OutOfBudget: As soon as one needs too much.
        CelError: None gives it, and one gave no bool: what was wrong with the first.
    """
    failure: CelError | None = None
    for run in runs:
        try:
            value = run(variables)
        except OutOfBudget:
            raise
        except CelError as error:
            failure = failure or error
            continue
        if value is decisive:
            return True
        if type(value) is not bool:
            failure = failure or CelError("no such overload")
    if failure is not None:
        raise failure
    return False
