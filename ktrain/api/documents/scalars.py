"""What plain words of a YAML file mean: YAML 1.1, as the API server's parser reads it."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ..meta import JsonValue

_WORDS: Final[dict[str, bool | None]] = dict.fromkeys(("", "~", "null", "Null", "NULL"))
_WORDS.update({w: True for word in ("y", "yes", "true", "on") for w in (word, word.capitalize(), word.upper())})
_WORDS.update({w: False for word in ("n", "no", "false", "off") for w in (word, word.capitalize(), word.upper())})

_INTEGER: Final = re.compile(r"[-+]?(0[xX][0-9a-fA-F_]+|0[oO]?[0-7_]+|0[bB][01_]+|[1-9][0-9_]*|0)", re.ASCII)
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_NUMBER_STARTS: Final = frozenset("0123456789+-.")
_OLD_OCTAL: Final = re.compile(r"([-+]?)0([0-7_]+)", re.ASCII)


def resolve(word: str) -> JsonValue:
    """
    The value of an unquoted word.

    Unlike in PyYAML's reading, `y` and `n` are booleans, `1e3` is a number, and dates and `1:30` are strings: the API
    server takes them so.
    """
    if word in _WORDS:
        return _WORDS[word]
    if word[0] not in _NUMBER_STARTS or len(word) > 64:
        return word
    if _INTEGER.fullmatch(word):
        octal = _OLD_OCTAL.fullmatch(word)
        return int(f"{octal[1]}0o{octal[2]}" if octal else word.replace("_", ""), 0)
    if _FLOAT.fullmatch(word):
        number = float(word)
        if math.isinf(number):
            return word  # out of range is no number, as in Go
        return int(number) if "." not in word and number.is_integer() and abs(number) < 2**53 else number
    return word


def key_text(word: str) -> str:
    """An unquoted mapping key as JSON spells it: `on:` is the key "true", because YAML reads a boolean there."""
    value = resolve(word)
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else word
