"""
An end to hooks that do not come to one.

Hooks are synchronous, and everything else waits for them: all other jobs, webhooks, the renewal of the lease. One that
sleeps, or asks a server that does not answer, would stop the operator. So a timer of the operating system interrupts
it: in the main thread, where operators run. In others, in code that is not Python's, and where a program has a use of
its own for SIGALRM, a hook is only told of once it has returned; the job is refused all the same.

Setting a timer costs more than most hooks do, so it is set for other people's plugins only.
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

LIMIT_S: Final = 1.0
"""What a hook may take for one job: a thousand times what all of them together are to take."""


class Overrun(BaseException):
    """A hook was interrupted. No `Exception`: what the hook catches there is meant for something else."""

    def __str__(self) -> str:
        return f"it did not return within {LIMIT_S:g} s, for which everything else stood still; hooks must not wait"


class _Timer:
    """Interrupts hooks. There is one of it, as a process has one timer."""

    def __init__(self) -> None:
        self._in_hook = False

    @contextmanager
    def limiting(self) -> Iterator[None]:
        """
        Interrupt what this block does if it takes longer than `LIMIT_S`, where that can be.

        Raises:
            Overrun: It did.
        """
        if not self._is_ours():
            yield
            return
        self._in_hook = True
        signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
        try:
            try:
                yield
            finally:
                self._in_hook = False  # a timer that rings from here on is too late to interrupt anything
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _is_ours(self) -> bool:
        """Whether the timer can be had. It is taken at the first use."""
        if threading.current_thread() is not threading.main_thread():
            return False
        current = signal.getsignal(signal.SIGALRM)
        if current is signal.SIG_DFL:
            signal.signal(signal.SIGALRM, self._ring)
            return True
        return current == self._ring

    def _ring(self, signum: int, frame: FrameType | None) -> None:
        if self._in_hook:
            raise Overrun


TIMER: Final = _Timer()
