"""
The table of functions: what they are called, what they take, what they do.

A function is found at run time by its name, whether it is called on something, and the kind of its first operand; the
checker finds it by its whole signature. Functions raise `CelError`; a `TypeError` of theirs is a wrong operand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .types import Signature, Type, read_signature
from .values import Value

Function = Callable[..., Value]

SIGNATURES: Final[dict[tuple[str, bool, int], list[Signature]]] = {}
"""By name, whether called on a target, and number of arguments."""
_FUNCTIONS: Final[dict[tuple[str, bool, int], dict[str, Function]]] = {}
FIELDS: Final[dict[str, dict[str, Type]]] = {}
"""Fields of opaque types, which offer them by a method `cel_field`."""
_ANY: Final = "*"


def function(*signatures: str) -> Callable[[Function], Function]:
    """Register a function under its signatures."""

    def register(implementation: Function) -> Function:
        for text in signatures:
            signature = read_signature(text)
            key = (signature.name, signature.target is not None, len(signature.args))
            SIGNATURES.setdefault(key, []).append(signature)
            operands = ((signature.target,) if signature.target else ()) + signature.args
            first = operands[0][0] if operands else _ANY
            kind = _ANY if first == "dyn" or (len(first) == 1 and first.isupper()) else first
            _FUNCTIONS.setdefault(key, {})[kind] = implementation
        return implementation

    return register


def find(name: str, *, member: bool, count: int) -> dict[str, Function]:
    """Return the functions of a name by the kind of their first operand; `*` takes any. Empty if there is none."""
    return _FUNCTIONS.get((name, member, count), {})


def is_known(name: str) -> bool:
    """Whether any function has this name."""
    return any(key[0] == name for key in SIGNATURES)
