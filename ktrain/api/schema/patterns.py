"""RE2 patterns, as schemas use them, compiled for Python's `re`."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_POSIX: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "digit": "0-9",
    "lower": "a-z",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": r"0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_TOKEN: Final = re.compile(r"\\.|\[\^?\]?(?:\[:\w+:\]|\\.|[^\]\\])*\]|\$|.", re.DOTALL)


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """
    Compile an RE2 pattern; searching with the result is what the API server does.

    The two dialects differ where schemas can tell: in RE2 `$` is the very end (not before a last newline), `\\z` is
    spelled so, classes have POSIX names, and `\\d`, `\\w`, `\\s` are ASCII.

    Raises:
        ValueError: If the pattern is not valid.
    """
    try:
        return re.compile("".join(_translate(token) for token in _TOKEN.findall(pattern)), re.ASCII)
    except re.error as error:
        raise ValueError(f"error parsing regexp: {error}: `{pattern}`") from error


def _translate(token: str) -> str:
    if token in {"$", r"\z"}:
        return r"\Z"
    if token.startswith("[") and "[:" in token:
        return re.sub(r"\[:(\w+):\]", lambda m: _POSIX.get(m[1], m[0]), token)
    return token
