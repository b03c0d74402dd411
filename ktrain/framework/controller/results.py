"""
What the end of a pass means for its key: see the table in `controller`.

An error wins over everything: a reconcile that raises has returned nothing. A terminal error forgets the failures
before it (controller-runtime keeps them, so that the next ordinary failure starts with a long delay): what comes after
it is the answer to a new event.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from ktrain.framework.errors import ApiError, Blocked, Conflict, FrameworkError, TerminalError

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from ktrain.api.meta import Key
    from ktrain.framework.metrics.controller import ControllerMetrics
    from ktrain.framework.workqueue.queue import WorkQueue

log: FilteringBoundLogger = structlog.get_logger("ktrain.framework.controller")

RETRY: Final = "retry"
REQUEUED: Final = "requeued"


@dataclass(frozen=True, slots=True)
class Result:
    """
    What a reconcile asks for.

    Raises:
        ValueError: The time is not a number.
    """

    requeue_after_s: float | None = None
    """Run again after that time; at once if it is over already. None waits for the next event."""
    priority: int | None = None
    """Of that run; None for the priority of this one."""

    def __post_init__(self) -> None:
        if self.requeue_after_s is not None and math.isnan(self.requeue_after_s):
            raise ValueError("requeue_after_s must be a number of seconds or None; it is not a number")


NOTHING: Final = Result()


class Results:
    """Applies the ends of passes to the queue of a controller, and counts and logs them."""

    def __init__(self, queue: WorkQueue[Key], metrics: ControllerMetrics) -> None:
        self._queue = queue
        self._metrics = metrics

    def returned(self, key: Key, result: Result | None) -> str:
        """
        Apply what a pass returned. Returns why the key runs again, or an empty text.

        Raises:
            TypeError: It is something else than a result; the pass has failed.
        """
        if result is None:
            result = NOTHING
        elif not isinstance(result, Result):
            raise TypeError(f"a reconcile must return a Result or None, and returned {type(result).__name__}")
        self._queue.forget(key)
        if result.requeue_after_s is None:
            self._metrics.result("success")
            return ""
        priority = self._queue.taken_priority(key) if result.priority is None else result.priority
        self._queue.add_after(key, result.requeue_after_s, priority=priority)
        self._metrics.result("requeue_after")
        return REQUEUED

    def raised(self, key: Key, error: BaseException) -> str:
        """Apply the error of a pass. Returns why the key runs again, or an empty text."""
        if isinstance(error, Blocked):
            self._metrics.result("requeue_after")
            self._queue.retry(key)
            if self._queue.failures(key) == 1:
                log.info("reconcile.blocked", blocker=str(error))
            return RETRY
        self._metrics.result("error")
        if isinstance(error, TerminalError):
            self._metrics.terminal_error()
            self._queue.forget(key)
            log.error("reconcile.failed_for_good", error=str(error))
            return ""
        asked_s = error.retry_after_s if isinstance(error, ApiError) else 0
        retry_in_s = self._queue.retry(key, at_least_s=asked_s)
        details = {"failures": self._queue.failures(key), "retry_in_s": round(retry_in_s, 3)}
        if isinstance(error, Conflict):
            log.info("reconcile.conflict", error=str(error), **details)
        elif isinstance(error, FrameworkError | TimeoutError):
            log.warning("reconcile.failed", error=str(error), **details)
        else:
            self._metrics.panic()
            log.error("reconcile.crashed", error=repr(error), exc_info=error, **details)
        return RETRY
