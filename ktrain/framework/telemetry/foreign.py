"""
Lines that code of other people writes: the loggers of `logging`, Python's warnings, exceptions that nothing caught.

They are one structlog event each, so that a log of JSON lines is JSON in every line. The event is `library.message`,
and its fields say which logger wrote which text. Exceptions that end a thread or the process, or that a finalizer
raises, are `exception.uncaught`.

`faulthandler` (a crash of the interpreter itself) writes without Python, so its lines stay plain text.
"""

from __future__ import annotations

import logging
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from structlog.typing import FilteringBoundLogger

log: FilteringBoundLogger = structlog.get_logger("ktrain.library")

_LEVELS: Final = ((logging.ERROR, "error"), (logging.WARNING, "warning"), (logging.INFO, "info"))


class Handler(logging.Handler):
    """Writes records of `logging` as structlog events."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record; a text that cannot be formatted is written as it is."""
        try:
            text = record.getMessage()
        except Exception:  # noqa: BLE001 - a mistake in somebody else's call of a logger
            text = str(record.msg)
        method = next((name for number, name in _LEVELS if record.levelno >= number), "debug")
        error = record.exc_info[1] if record.exc_info else None
        fields = {"exc_info": error} if error is not None else {}
        getattr(log, method)("library.message", logger=record.name, message=text, **fields)


@contextmanager
def adopted(level: str) -> Iterator[None]:
    """
    Have other people's lines written by structlog, until the block ends. May be nested.

    Warnings and errors of libraries are written; at the level `debug` also what they merely inform of.
    """
    root, handler = logging.getLogger(), Handler()
    before = root.level, sys.excepthook, sys.unraisablehook, threading.excepthook
    if not any(isinstance(one, Handler) for one in root.handlers):
        root.addHandler(handler)
    root.setLevel({"debug": logging.INFO, "error": logging.ERROR}.get(level, logging.WARNING))
    logging.captureWarnings(capture=True)
    sys.excepthook, sys.unraisablehook, threading.excepthook = _uncaught, _unraisable, _ended_thread
    try:
        yield
    finally:
        root.level, sys.excepthook, sys.unraisablehook, threading.excepthook = before
        if handler in root.handlers:
            root.removeHandler(handler)
            logging.captureWarnings(capture=False)


def _uncaught(_kind: type[BaseException], error: BaseException, _trace: TracebackType | None) -> None:
    log.error("exception.uncaught", where="process", exc_info=error)


def _unraisable(raised: sys.UnraisableHookArgs) -> None:
    log.error("exception.uncaught", where=raised.err_msg or "finalizer", exc_info=raised.exc_value)


def _ended_thread(raised: threading.ExceptHookArgs) -> None:
    if raised.exc_type is not SystemExit:
        log.error(
            "exception.uncaught", where=f"thread {raised.thread and raised.thread.name}", exc_info=raised.exc_value
        )
