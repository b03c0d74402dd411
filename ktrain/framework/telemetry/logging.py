"""
structlog, set up once per process by whoever owns the process (the command line, an operator's main).

Log lines are events with fields: `log.warning("watch.restarted", resource=...)`. What runs inside a reconcile carries
the fields `controller`, `object`, `reconcile_id` and `reason` by a context variable (`reconcile_context`), so that all
lines of one pass can be found, and `trace_id` and `span_id` if it is traced.

Who sets structlog up otherwise adds `add_reconcile` and `trace_fields` to the processors.

Lines that code of other people writes come out in the same form inside of `foreign.adopted`.
"""

from __future__ import annotations

import logging
import re
import sys
import time
import traceback
from typing import TYPE_CHECKING, Final, TextIO

import msgspec
import structlog

from ktrain.framework.controller.context import add_reconcile

if TYPE_CHECKING:
    from collections.abc import Callable

    from structlog.typing import EventDict, ExcInfo, Processor

_UNSEEN: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
AS_JSON: Final[dict[str, bool | None]] = {"json": True, "text": False, "auto": None}
"""What the names of formats in settings are to `configure`."""
LINES_PER_S: Final = 100
"""Of one event. Enough to see what happens, too few to fill a disk."""


def configure(
    *,
    level: str = "info",
    json: bool | None = None,
    stream: TextIO | None = None,
    lines_per_s: int | None = LINES_PER_S,
) -> None:
    """
    Send all log lines to `stream` (stderr by default) as JSON, or as aligned text.

    Args:
        level: debug, info, warning or error.
        json: None chooses text on a terminal and JSON elsewhere.
        stream: Where lines go.
        lines_per_s: How many lines of one event and level a second may have; the next line of that event tells as
            `suppressed` how many were left out. None: all.
    """
    out = stream or sys.stderr
    as_json = is_json(out) if json is None else json
    renderers: list[Processor] = (
        [structlog.processors.ExceptionRenderer(_exception), structlog.processors.JSONRenderer(serializer=_to_json)]
        if as_json
        # Not its default: with rich installed that prints the local variables of every frame, tokens included.
        else [visible, structlog.dev.ConsoleRenderer(colors=out.isatty(), exception_formatter=_plain_traceback)]
    )
    structlog.configure(
        processors=[
            *([] if lines_per_s is None else [Limiter(lines_per_s)]),
            structlog.contextvars.merge_contextvars,
            add_reconcile,
            trace_fields,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *renderers,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(out),
        # Not where a test has put its own stream for a while: loggers would keep it.
        cache_logger_on_first_use=stream is not None or sys.stderr is sys.__stderr__,
    )
    # At DEBUG this library prints the body of every answer, Secrets included.
    logging.getLogger("kubernetes_asyncio").setLevel(logging.INFO)


def is_json(stream: TextIO | None = None) -> bool:
    """Return whether lines are JSON unless something else is asked for: everywhere but on a terminal."""
    return not (stream or sys.stderr).isatty()


def visible(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Write out what a terminal would obey (escape sequences): values come from anybody's objects. A processor."""
    return {
        name: _UNSEEN.sub(_escape, value) if isinstance(value, str) else value  # line ends in values are quoted anyway
        for name, value in event.items()
    }


def _plain_traceback(out: TextIO, exc_info: ExcInfo) -> None:
    out.write("\n" + _UNSEEN.sub(_escape, "".join(traceback.format_exception(exc_info[1])).rstrip("\n")))


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def trace_fields(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Add `trace_id` and `span_id` if a span is current, ours or another's. A processor."""
    # Nobody who has not imported it can have a span, and importing it costs too much to look.
    get_current_span = getattr(sys.modules.get("opentelemetry.trace"), "get_current_span", None)
    if get_current_span is not None:
        own = get_current_span().get_span_context()
        if own.is_valid:
            event["trace_id"], event["span_id"] = f"{own.trace_id:032x}", f"{own.span_id:016x}"
    return event


class Limiter:
    """
    Bounds the lines of each event and level per second. A processor, the first one: what is dropped costs nothing more.

    Lines are told apart by event and level only, whatever their fields: a thousand objects that fail for one reason are
    a flood, too. Event names are few by our rule, and what is kept is at most one number for each.

    Args:
        per_s: Lines of one event and level in one second.
        clock: Seconds that never go back. Of the process, not of `Env`: lines from any thread and loop pass here.
    """

    def __init__(self, per_s: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_s = per_s
        self._clock = clock
        self._second = 0
        self._written: dict[tuple[str, object], int] = {}
        self._suppressed: dict[tuple[str, object], int] = {}

    def __call__(self, logger: object, method: str, event: EventDict) -> EventDict:
        """Let a line pass, or drop it."""
        second = int(self._clock())
        if second != self._second:
            self._second = second
            self._written.clear()
        what = (method, event.get("event"))
        written = self._written.get(what, 0)
        if written >= self._per_s:
            self._suppressed[what] = self._suppressed.get(what, 0) + 1
            raise structlog.DropEvent
        self._written[what] = written + 1
        suppressed = self._suppressed.pop(what, 0)
        return {**event, "suppressed": suppressed} if suppressed else event


def _exception(exc_info: ExcInfo) -> dict[str, str]:
    """An exception by parts, for those who search logs. Frames by their place only, never by their variables."""
    kind, error, _ = exc_info
    text = "".join(traceback.format_exception(error))
    return {"type": f"{kind.__module__}.{kind.__qualname__}", "message": str(error), "stacktrace": text}


def _to_json(event: object, **_: object) -> str:
    return msgspec.json.encode(event, enc_hook=str).decode()
