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


class WarningLog:
    """Logs warnings, each once."""

    def __init__(self) -> None:
        self._seen: dict[str, None] = {}

    def note(self, header: str, *, method: str, path: str) -> None:
        """Log what is new in a Warning header; several headers come joined by commas."""
        for quoted in _WARNING.findall(header):
            text = _ESCAPED.sub(r"\1", quoted)
            if text in self._seen:
                continue
            if len(self._seen) >= MAX_TEXTS:
                del self._seen[next(iter(self._seen))]
            self._seen[text] = None
            log.warning("api.warning", text=text, method=method, path=path)
