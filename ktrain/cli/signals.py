"""What signals mean to a run."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio.abc import TaskStatus


class Signals:
    """SIGINT, SIGTERM, SIGHUP: the first one asks for an end, the second one kills."""

    def __init__(self) -> None:
        self.interrupted = anyio.Event()
        self._kill: Callable[[], None] | None = None

    def on_kill(self, kill: Callable[[], None]) -> None:
        """Say what the second signal does."""
        self._kill = kill

    async def listen(self, *, task_status: TaskStatus[None]) -> None:
        """Wait for signals until cancelled."""
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
            task_status.started()
            async for _signum in signals:
                if self.interrupted.is_set() and self._kill is not None:
                    self._kill()
                self.interrupted.set()
