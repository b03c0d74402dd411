"""
RE2 patterns, as schemas, expressions and failure policies use them.

Python's `re` goes back and tries again, so some patterns take it longer than anybody waits; RE2 never does. Plain
patterns on short texts, nearly all there are, go to `re`, which is at hand and fast; whatever could be long, or is
spelled as only one of the two knows it, goes to RE2 itself (`google-re2`), which is loaded when first needed.
"""

from __future__ import annotations

import re
from functools import cached_property, lru_cache
from math import prod
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

_CLASS: Final = r"\[\^?-?(?:[A-Za-z0-9]-[A-Za-z0-9]|[A-Za-z0-9_.+/:@%,])+-?\]"
_ATOM: Final = rf"(?:[A-Za-z0-9_/:@ ,=-]|\\[./+*?|-]|{_CLASS})"
_COUNT: Final = r"(?:[*+?]|\{\d{1,2}(?:,\d{0,2})?\})?"
# A row of atoms, and of groups that were recognized already: they are optional, but not repeated.
_ROW: Final = rf"(?:{_ATOM}{_COUNT}|\0)+"
_ROWS: Final = re.compile(rf"\^?{_ROW}\$?")
_GROUP: Final = re.compile(rf"\({_ROW}(?:\|{_ROW})*\)\??")
_LEVELS: Final = 8
"""So many groups within groups are looked into."""
_QUANTITY: Final = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
_LINEAR: Final = frozenset({rf"^(\+|-)?{_QUANTITY}(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?{_QUANTITY}))?$"})
"""Kubernetes' own, in the definition of every amount: one character decides each choice, so `re` does not try twice."""
_UNBOUNDED: Final = re.compile(r"[*+]|,\}")
_BOUNDED: Final = re.compile(r"\{(\d+),(\d+)\}")
_WORK: Final = 1_000_000
"""Steps that `re` may take: every choice doubles them, and every part without bound may take all of a text."""
_IN_GO: Final = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "bad repetition operator": "invalid nested repetition operator",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid named capture group": "invalid named capture",
    "trailing \\": "trailing backslash at end of expression",
}
_MEMORY: Final = 8 * 1024 * 1024
"""Bytes that one pattern may take, compiled, and while it searches."""


class _Match(Protocol):
    def __getitem__(self, group: int, /) -> str: ...


class _Engine(Protocol):
    """A pattern, compiled by either of the two."""

    def search(self, text: str, /) -> _Match | None: ...

    def finditer(self, text: str, /) -> Iterator[_Match]: ...


class Pattern:
    """A compiled pattern. Searching takes time linear in the text."""

    def __init__(self, source: str) -> None:
        """
        Compile it.

        Raises:
            ValueError: If the pattern is not valid.
        """
        self.source: Final = source
        self._short: Final = _short(source)
        self._plain: Final = self._compile_plain() if _is_spelled_alike(source) else None
        self._engine("")  # What RE2 refuses is refused now.

    def matches(self, text: str) -> bool:
        """Whether the pattern is anywhere in the text."""
        return self._engine(text).search(text) is not None

    def find(self, text: str, limit: int = -1) -> list[str]:
        """The parts of the text that match, at most `limit` of them."""
        found: list[str] = []
        for match in self._engine(text).finditer(text) if limit else ():
            found.append(match[0])
            if len(found) == limit:
                break
        return found

    def _engine(self, text: str) -> _Engine:
        return self._plain if self._plain is not None and len(text) <= self._short else self._linear

    def _compile_plain(self) -> re.Pattern[str]:
        try:
            # In `re`, `$` is also before a last newline.
            return re.compile(f"{self.source[:-1]}\\Z" if self.source.endswith("$") else self.source, re.ASCII)
        except re.error as error:
            raise ValueError(f"error parsing regexp: {error}: `{self.source}`") from error

    @cached_property
    def _linear(self) -> _Engine:
        import re2

        options = re2.Options()
        options.log_errors = False
        options.max_mem = _MEMORY
        try:
            engine: _Engine = re2.compile(self.source, options)
        except re2.error as error:
            raise ValueError(f"error parsing regexp: {_said(error)}") from error
        return engine


def _short(source: str) -> int:
    """Return the length of the longest text on which `re` surely takes no more than `_WORK` steps."""
    if source in _LINEAR:
        return _WORK
    bare = re.sub(r"\\.|\[[^\]]*\]", "x", source)
    counts = [max(int(most) - int(least) + 1, 1) for least, most in _BOUNDED.findall(bare)]
    choices = 2 ** (bare.count("?") + bare.count("|")) * prod(counts)
    parts = len(_UNBOUNDED.findall(bare)) + (not bare.startswith("^"))
    return int((_WORK // choices) ** (1 / max(parts, 1)))


def _is_spelled_alike(source: str) -> bool:
    """Whether both engines understand a pattern in the same way: the innermost groups go first, then those around."""
    if "\0" in source:
        return False
    for _ in range(_LEVELS):
        source, groups = _GROUP.subn("\0", source)
        if not groups:
            break
    return _ROWS.fullmatch(source) is not None


def _said(error: Exception) -> str:
    """What RE2 has against a pattern, and the part of it that it means, in the words of Go's RE2."""
    text = error.args[0] if error.args else ""
    text = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
    what, _, part = text.partition(": ")
    return f"{_IN_GO.get(what, what)}: `{part}`" if part else _IN_GO.get(what, what)


@lru_cache(maxsize=1024)
def compile_pattern(source: str) -> Pattern:
    """
    Compile an RE2 pattern.

    Raises:
        ValueError: If the pattern is not valid.
    """
    return Pattern(source)
