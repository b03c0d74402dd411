"""
structlog, set up once per process by whoever owns the process (the command line, an operator's main).

Log lines are events with fields: `log.warning("watch.restarted", resource=...)`. What runs inside a reconcile carries
the fields `controller`, `object`, `reconcile_id` and `reason` by a context variable, so that all lines of one pass can
be found.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, TextIO

import msgspec
import structlog

from .reconcile_context import add_reconcile

if TYPE_CHECKING:
    from structlog.typing import Processor


def configure(*, level: str = "info", json: bool | None = None, stream: TextIO | None = None) -> None:
    """
    Send all log lines to `stream` (stderr by default) as JSON, or as aligned text.

    Args:
        level: debug, info, warning or error.
        json: None chooses text on a terminal and JSON elsewhere.
        stream: Where lines go.
    """
    out = stream or sys.stderr
    as_json = not out.isatty() if json is None else json
    renderers: list[Processor] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(serializer=_to_json)]
        if as_json
        # Not its default: with rich installed that prints the local variables of every frame, tokens included.
        else [structlog.dev.ConsoleRenderer(colors=out.isatty(), exception_formatter=structlog.dev.plain_traceback)]
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            add_reconcile,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *renderers,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(out),
        cache_logger_on_first_use=True,
    )
    # At DEBUG this library prints the body of every answer, Secrets included.
    logging.getLogger("kubernetes_asyncio").setLevel(logging.INFO)


def _to_json(event: object, **_: object) -> str:
    return msgspec.json.encode(event, enc_hook=str).decode()
