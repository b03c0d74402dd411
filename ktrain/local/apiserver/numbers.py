"""
Integers in requests, read as a real server reads them (Go's `strconv`), with its complaints.

Not by `int()` after `isdigit()`: Unicode has digits that `int` does not take, and `int` itself refuses thousands of
them. A number that does not fit 64 bits is out of range, however long it is.
"""

from __future__ import annotations

import re
from typing import Final

_UNSIGNED: Final = re.compile(r"[0-9]+")
_SIGNED: Final = re.compile(r"[+-]?[0-9]+")
_MOST_DIGITS: Final = 20
"""Of any number of 64 bits."""


class NumberError(ValueError):
    """The text is no integer of 64 bits; the message is Go's."""


def parse_unsigned(text: str) -> int:
    """
    Return a number from 0 to 2^64-1, such as a resourceVersion.

    Raises:
        NumberError: It is none.
    """
    return _parse(text, "ParseUint", _UNSIGNED, 0, 2**64 - 1)


def parse_signed(text: str) -> int:
    """
    Return a number from -2^63 to 2^63-1, such as a `limit`.

    Raises:
        NumberError: It is none.
    """
    return _parse(text, "ParseInt", _SIGNED, -(2**63), 2**63 - 1)


def _parse(text: str, function: str, pattern: re.Pattern[str], least: int, most: int) -> int:
    if not pattern.fullmatch(text):
        raise NumberError(f'strconv.{function}: parsing "{text}": invalid syntax')
    digits = text.lstrip("+-").lstrip("0")
    number = int(digits[:_MOST_DIGITS] or "0") * (-1 if text[0] == "-" else 1)
    if len(digits) > _MOST_DIGITS or not least <= number <= most:
        raise NumberError(f'strconv.{function}: parsing "{text}": value out of range')
    return number
