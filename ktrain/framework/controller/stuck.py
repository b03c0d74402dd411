"""
What stands still, and where: the deadline and the stuck detector of passes, and a watchdog for the event loop.

`Passes` has one timer for all passes of a controller, set to the first thing that could happen to any of them. A pass
that ends in time, as nearly all do, costs an entry in a dict.

A pass that blocks the event loop cannot be seen from inside of it: `LoopWatchdog` looks from a thread. It costs one
wake-up of each per second and more.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any, Final

import anyio
import structlog

from ktrain.framework.metrics.loop import LoopMetrics

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator
    from types import FrameType

    from anyio.abc import TaskStatus
    from structlog.typing import FilteringBoundLogger

    from ktrain.framework.metrics import Metrics

    from .context import Pass

log: FilteringBoundLogger = structlog.get_logger("ktrain.framework.controller")

FRAMES: Final = 30
"""Length of a stack in the log; the innermost frames are kept."""

_FRAMES_OF: Final = (("cr_frame", "cr_await"), ("gi_frame", "gi_yieldfrom"), ("ag_frame", "ag_await"))


class Passes:
    """
    The passes of one controller that are under way.

    Args:
        timeout_s: A pass is cancelled after this time, and again each time it has passed once more: some code takes a
            cancellation for a failure and goes on.
        stuck_after_s: A pass that still runs is reported once. None, here and above: never.
        on_stuck: Called with it.
    """

    def __init__(
        self, *, timeout_s: float | None, stuck_after_s: float | None, on_stuck: Callable[[Pass], None]
    ) -> None:
        self._timeout_s = timeout_s or float("inf")
        self._stuck_after_s = stuck_after_s or float("inf")
        self._first_s = min(self._timeout_s, self._stuck_after_s)
        self._on_stuck = on_stuck
        self._running: dict[Hashable, Pass] = {}
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, started: Pass) -> None:
        """Watch a pass. Its key must not be in another."""
        self._running[started.key] = started
        at = started.started_s + self._first_s
        if at != float("inf") and (self._timer is None or at < self._timer.when()):
            self._arm(at)

    def end(self, ended: Pass) -> None:
        """Watch it no more, and take back the cancellations of its task that its deadline has asked for."""
        del self._running[ended.key]
        for _ in range(ended.cancellations):
            ended.task.uncancel()

    def close(self) -> None:
        """Stop the timer. No pass must be under way."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def stuck(self) -> list[Pass]:
        """Return those that were reported and still run."""
        return [running for running in self._running.values() if running.reported]

    def __len__(self) -> int:
        return len(self._running)

    def _arm(self, at: float) -> None:
        self.close()
        self._timer = asyncio.get_running_loop().call_at(at, self._look)

    def _look(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        earliest = float("inf")
        for running in list(self._running.values()):
            if self._deadline(running) <= now:
                running.cancellations += 1
                running.task.cancel()
            stuck_at = running.started_s + self._stuck_after_s
            if stuck_at <= now and not running.reported:
                running.reported = True
                self._on_stuck(running)
            earliest = min(earliest, self._deadline(running), float("inf") if running.reported else stuck_at)
        if earliest < float("inf"):
            self._arm(earliest)

    def _deadline(self, running: Pass) -> float:
        return running.started_s + self._timeout_s * (running.cancellations + 1)


def task_stack(task: asyncio.Task[Any], *, limit: int = FRAMES) -> str:
    """
    Format where a suspended task waits, outermost frame first: places only, never values.

    `Task.get_stack` knows the outermost frame only; this follows what awaits what, up to a future or another task.
    """
    return _format(list(_awaited(task.get_coro()))[-limit:])


def _awaited(waiting: object) -> Iterator[tuple[FrameType, int]]:
    while waiting is not None:
        for frame_name, next_name in _FRAMES_OF:
            frame = getattr(waiting, frame_name, None)
            if frame is not None:
                yield frame, frame.f_lineno
                waiting = getattr(waiting, next_name)
                break
        else:
            return


def _format(frames: list[tuple[FrameType, int]]) -> str:
    return "".join(traceback.StackSummary.extract(iter(frames)).format()).rstrip()


class LoopWatchdog:
    """
    Tells when the event loop is blocked, and by what: logs the stack of its thread. A service of the manager.

    In real time only: on a virtual clock nothing takes time.

    Args:
        blocked_after_s: Seconds without a turn of the loop. Logged once per block, and again with its length when
            it is over.
        metrics: Where to count.
    """

    def __init__(self, *, blocked_after_s: float = 5.0, metrics: Metrics | None = None) -> None:
        self._blocked_after_s = blocked_after_s
        self._pause_s = blocked_after_s / 4
        self._metrics = LoopMetrics.of(metrics) if metrics else LoopMetrics()
        self._ticked_s = 0.0
        self._stop = threading.Event()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Watch the running loop until cancelled."""
        loop_thread = threading.get_ident()
        self._ticked_s = time.monotonic()
        # A daemon: an interpreter that ends without this `finally` must not wait for it.
        watcher = threading.Thread(target=self._watch, args=(loop_thread,), name="loop watchdog", daemon=True)
        watcher.start()
        try:
            task_status.started()
            while True:
                await asyncio.sleep(self._pause_s)
                self._ticked_s = time.monotonic()
        finally:
            self._stop.set()

    def _watch(self, loop_thread: int) -> None:
        blocked_since = 0.0
        before = time.monotonic()
        while not self._stop.wait(self._pause_s):
            now, ticked = time.monotonic(), self._ticked_s
            # If this thread overslept as well, the whole process was stopped: nobody's fault in here.
            awake, before = now - before < 2 * self._pause_s, now
            if blocked_since and ticked != blocked_since:
                log.warning("loop.continues", blocked_s=round(ticked - blocked_since, 1))
                blocked_since = 0.0
            elif not blocked_since and awake and now - ticked > self._blocked_after_s:
                blocked_since = ticked
                self._metrics.blocked()
                frame = sys._current_frames().get(loop_thread)  # noqa: SLF001 - the documented way to it
                frames = list(traceback.walk_stack(frame))[:FRAMES] if frame else []
                log.error("loop.blocked", blocked_s=round(now - ticked, 1), stack=_format(frames[::-1]))
