"""What can go wrong with an expression, in cel-go's words."""

from __future__ import annotations

from typing import NoReturn


class CelError(Exception):
    """An expression that does not compile, or that has no value for what it was given."""


class OutOfBudget(CelError):
    """Evaluation cost more than it was allowed to."""


def located(source: str, offset: int, text: str) -> str:
    """Return a message with its place, and the line it is about."""
    before = source[:offset]
    line = before.count("\n") + 1
    column = offset - (before.rfind("\n") + 1)
    shown = source.split("\n")[line - 1]
    return f"ERROR: <input>:{line}:{column + 1}: {text}\n | {shown}\n | {'.' * column}^"


def no_overload() -> NoReturn:
    """
    Refuse operands of types that an operator or a function does not take.

    Raises:
        CelError: Always.
    """
    raise CelError("no such overload")
