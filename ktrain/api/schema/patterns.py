"""
RE2 patterns, as schemas and expressions use them.

Python's `re` goes back and tries again, so some patterns take it longer than anybody waits; RE2 never does. Short texts
and plain patterns go to `re`, which is at hand; the others to the linear engine in the `common-expression-language`
package (Rust's `regex`), which is loaded when first needed.
"""

from __future__ import annotations

import re
from functools import cached_property, lru_cache
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import Any, Final

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


_UNBOUNDED: Final = re.compile(r"[*+]|\{\d+,\d*\}")
_GROUPED: Final = re.compile(r"\)[*+{]")
_SHORT: Final = 256
_PLAIN: Final = 2
"""How many unbounded repetitions `re` may try against each other: the work is at most their power of the length."""


class Pattern:
    """A compiled pattern. Searching takes time linear in the text."""

    def __init__(self, source: str) -> None:
        """
        Compile it.

        Raises:
            ValueError: If the pattern is not valid.
        """
        self.source: Final = source
        try:
            self._re: Final = re.compile("".join(_translate(token) for token in _TOKEN.findall(source)), re.ASCII)
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"error parsing regexp: {error}: `{source}`") from error
        bare = re.sub(r"\\.|\[[^\]]*\]", "x", source)
        self._is_plain: Final = not _GROUPED.search(bare) and len(_UNBOUNDED.findall(bare)) <= _PLAIN

    def matches(self, text: str) -> bool:
        """Whether the pattern is anywhere in the text."""
        if len(text) <= _SHORT and self._is_plain:
            return self._re.search(text) is not None
        try:
            return bool(self._linear.execute({"text": text}))
        except (RuntimeError, TypeError, ValueError):
            # What the other engine does not know (it is nearly nothing) is left to this one.
            return self._re.search(text[:_SHORT]) is not None

    def find(self, text: str, limit: int = -1) -> list[str]:
        """
        The parts of the text that match, at most `limit` of them.

        Raises:
            ValueError: If that could take too long for this pattern and text.
        """
        if limit == 0 or not self.matches(text):
            return []
        if not (self._is_plain and len(text) <= _SHORT * _SHORT):
            raise ValueError(f"the pattern is too complex to find in this text: `{self.source}`")
        found = []
        for match in self._re.finditer(text):
            found.append(match[0])
            if len(found) == limit:
                break
        return found

    @cached_property
    def _linear(self) -> Any:  # noqa: ANN401 - a program of an untyped package
        quoted = "".join(f"\\U{ord(char):08x}" for char in self.source)
        return _engine().compile(f"text.matches('{quoted}')")


@lru_cache(maxsize=1)
def _engine() -> Any:  # noqa: ANN401 - an untyped package
    # The package's __init__ also loads its command line, with prompt_toolkit: a quarter of a second for nothing.
    package = find_spec("cel")
    spec = PathFinder.find_spec("cel.cel", package.submodule_search_locations) if package else None
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError("common-expression-language is not installed")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@lru_cache(maxsize=1024)
def compile_pattern(source: str) -> Pattern:
    """
    Compile an RE2 pattern.

    The two dialects differ where schemas can tell: in RE2 `$` is the very end (not before a last newline), `\\z` is
    spelled so, classes have POSIX names, and `\\d`, `\\w`, `\\s` are ASCII.

    Raises:
        ValueError: If the pattern is not valid.
    """
    return Pattern(source)


def _translate(token: str) -> str:
    if token in {"$", r"\z"}:
        return r"\Z"
    if token.startswith("[") and "[:" in token:
        return re.sub(r"\[:(\w+):\]", lambda m: _POSIX.get(m[1], m[0]), token)
    return token
