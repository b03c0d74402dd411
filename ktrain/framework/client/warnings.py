"""
What the API server has to say besides its answer: Warning headers (RFC 7234, code 299), for example about a version
that will be removed. Each text is logged once, however often it comes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

log: FilteringBoundLogger = structlog.get_logger("ktrain.framework.client")

MAX_TEXTS: Final = 1000
"""How many texts are remembered; the oldest are forgotten first, and would be logged again."""
_WARNING: Final = re.compile(r'299 +\S+ +"((?:[^"\\]|\\.)*)"')
_ESCAPED: Final = re.compile(r"\\(.)")


def warning_texts(header: str) -> list[str]:
    """Return the texts of a Warning header, in which several come joined by commas."""
    return [_ESCAPED.sub(r"\1", quoted) for quoted in _WARNING.findall(header)]


class WarningLog:
    """Logs warnings, each once."""

    def __init__(self) -> None:
        self._seen: dict[str, None] = {}

    def note(self, header: str, *, method: str, path: str) -> None:
        """Log what is new in a Warning header."""
        for text in warning_texts(header):
            if text in self._seen:
                continue
            if len(self._seen) >= MAX_TEXTS:
                del self._seen[next(iter(self._seen))]
            self._seen[text] = None
            log.warning("api.warning", text=text, method=method, path=path)
