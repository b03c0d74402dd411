"""From text to tokens, after the lexical grammar of the CEL specification."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from .errors import CelError, located
from .values import UInt

_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_PREFIX: Final = r"(?P<prefix>[rRbB]{0,2})"
_TOKEN: Final = re.compile(
    rf"""
    (?P<space>\s+|//[^\n]*)
    |(?P<text>{_PREFIX}(?:\"\"\"(?P<long>(?:\\.|[^\\])*?)\"\"\"|'''(?P<long1>(?:\\.|[^\\])*?)'''
        |"(?P<short>(?:\\.|[^"\\\n])*)"|'(?P<short1>(?:\\.|[^'\\\n])*)'))
    |(?P<float>(?:\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?))
    |(?P<int>0x[0-9a-fA-F]+|\d+)(?P<unsigned>[uU]?)
    |(?P<ident>[_a-zA-Z][_a-zA-Z0-9]*)
    |(?P<quoted>`[a-zA-Z0-9_.\-/ ]+`)
    |(?P<symbol>\.\?|\[\?|&&|\|\||==|!=|<=|>=|[-+*/%!<>?:,.()\[\]{{}}])
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL
)


class Token(NamedTuple):
    """`kind` is literal, ident, quoted, symbol or end; `value` what a literal is, or the text."""

    kind: str
    value: object
    offset: int
    text: str


def tokenize(source: str) -> list[Token]:
    """
    Cut an expression into tokens; the last is the end.

    Raises:
        CelError: Some character begins no token.
    """
    tokens: list[Token] = []
    position = 0
    while position < len(source):
        match = _TOKEN.match(source, position)
        if match is None:
            raise CelError(located(source, position, f"Syntax error: token recognition error at: '{source[position]}'"))
        kind = match.lastgroup or ""
        if match["text"] is not None:
            tokens.append(Token("literal", _text(match, source), position, match[0]))
        elif match["float"] is not None:
            tokens.append(Token("literal", float(match[0]), position, match[0]))
        elif match["int"] is not None:
            tokens.append(Token("literal", _integer(match), position, match[0]))
        elif match["space"] is None:
            tokens.append(Token(kind, match[0].strip("`"), position, match[0]))
        position = match.end()
    tokens.append(Token("end", "<EOF>", position, "<EOF>"))
    return tokens


def _integer(match: re.Match[str]) -> int:
    value = int(match["int"], 0) if match["int"].startswith("0x") else int(match["int"])
    return UInt(value) if match["unsigned"] else value


def _text(match: re.Match[str], source: str) -> str | bytes:
    prefix = match["prefix"].lower()
    raw = next(match[name] for name in ("long", "long1", "short", "short1") if match[name] is not None)
    parts = [raw] if "r" in prefix or "\\" not in raw else _unescape(raw, match.start(), source)
    if "b" in prefix:
        # \\x and octal escapes are bytes here, everything else is UTF-8.
        return b"".join(bytes([part]) if isinstance(part, int) else part.encode() for part in parts)
    return "".join(chr(part) if isinstance(part, int) else part for part in parts)


def _unescape(raw: str, offset: int, source: str) -> list[str | int]:
    """Return the pieces of a literal: text, and the numbers of \\x and octal escapes."""
    parts: list[str | int] = []
    end = 0
    for escape in _ESCAPE.finditer(raw):
        parts.append(raw[end : escape.start()])
        byte, short, long, octal, char = escape.groups()
        if byte or octal:
            parts.append(int(byte, 16) if byte else int(octal, 8))
        elif short or long:
            point = int(short or long, 16)
            if point > 0x10FFFF or 0xD800 <= point < 0xE000:
                raise CelError(located(source, offset, "Syntax error: invalid unicode code point"))
            parts.append(chr(point))
        elif char in _ESCAPES or char in "\\?\"'`":
            parts.append(_ESCAPES.get(char, char))
        else:
            raise CelError(located(source, offset, f"Syntax error: token recognition error at: '\\{char}'"))
        end = escape.end()
    return [*parts, raw[end:]]
