"""
Continue tokens: where the next page of a list begins.

A token is opaque to clients, but what is wrong with one is told in a decoder's words, which they show to people.
"""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ktrain.local.apiserver.errors import bad_request

if TYPE_CHECKING:
    from ktrain.api.meta import Key

_FORMAT: Final = "meta.k8s.io/v1"
_LETTERS: Final = re.compile(r"[A-Za-z0-9_-]*")
_KINDS: Final = {bool: "bool", int: "number", float: "number", str: "string", list: "array", dict: "object"}
_TYPES: Final = {"v": "string", "rv": "int64", "start": "string"}


class Token(msgspec.Struct, frozen=True):
    """Where the next page begins: after this key, at this revision (-1: at the newest)."""

    v: str = ""
    rv: int = 0
    start: str = ""


def write(revision: int, last: Key) -> str:
    """Return the token of the page after this key."""
    return encode(Token(_FORMAT, revision, f"{last.namespace}/{last.name}"))


def encode(token: Token) -> str:
    """Return the token's text."""
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).rstrip(b"=").decode()


def read(text: str) -> Token | None:
    """
    Return the token in a text; None if there is no text.

    Raises:
        StatusError: 400: it is none of ours.
    """
    if not text:
        return None
    found = _decoded(text)
    wrong = found if isinstance(found, str) else _error(found)
    if isinstance(found, str) or wrong:
        raise bad_request(f"invalid continue token: continue key is not valid: {wrong}")
    return found


def _decoded(text: str) -> Token | str:
    """Return what a text says, or why it says nothing."""
    legal = len(_LETTERS.findall(text)[0])
    if legal < len(text) or legal % 4 == 1:
        # One letter alone is no byte.
        return f"illegal base64 data at input byte {legal if legal < len(text) else legal - 1}"
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    try:
        value: Any = msgspec.json.decode(raw)
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return "unexpected end of JSON input" if raw[:1] == b"{" else _unexpected(raw)
    if value is None:
        return Token()
    if not isinstance(value, dict):
        return f"json: cannot unmarshal {_KINDS[type(value)]} into Go value of type storage.continueToken"
    given = {name: entry for name, entry in value.items() if name in _TYPES and entry is not None}
    for name, entry in given.items():
        if type(entry) is not (int if name == "rv" else str):
            shown = f"number {entry}" if name == "rv" and type(entry) is float else _KINDS[type(entry)]
            return f"json: cannot unmarshal {shown} into Go struct field continueToken.{name} of type {_TYPES[name]}"
    return Token(**given)


def _unexpected(raw: bytes) -> str:
    letter = chr(raw[0])
    shown = letter if letter.isprintable() else f"\\x{raw[0]:02x}"
    return f"invalid character '{shown}' looking for beginning of value"


def _error(token: Token) -> str:
    """Return what keeps a token from being one of ours."""
    if token.v != _FORMAT:
        return f"server does not recognize this encoded version {token.v}"
    if not token.rv:
        return f"incorrect encoded start resourceVersion (version {token.v})"
    if not token.start:
        return f"encoded start key empty (version {token.v})"
    return token.start if any(part in {".", ".."} for part in token.start.split("/")) else ""
