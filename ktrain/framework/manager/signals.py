"""What signals mean to a process: the first one asks for an end, the second one does not wait for it."""

from __future__ import annotations

import os
import signal
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from ktrain.framework.parallel import unwrap

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from anyio.abc import TaskStatus

EXIT_KILLED: Final = 1


class Signals:
    """
    The signals that end this process. One listener per process, in its main thread.

    Args:
        numbers: Which ones; by default SIGINT and SIGTERM.
    """

    def __init__(self, *numbers: signal.Signals) -> None:
        self.interrupted: anyio.Event = anyio.Event()
        """Set by the first signal."""
        self._numbers = numbers or (signal.SIGINT, signal.SIGTERM)
        self._kill: Callable[[], None] | None = None

    def on_kill(self, kill: Callable[[], None]) -> None:
        """Say what the second signal does; without this it does nothing."""
        self._kill = kill

    async def listen(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Wait for signals until cancelled; afterwards they do what they did before."""
        with anyio.open_signal_receiver(*self._numbers) as signals:
            task_status.started()
            async for _signum in signals:
                if self.interrupted.is_set() and self._kill is not None:
                    self._kill()
                self.interrupted.set()


@asynccontextmanager
async def until_signal(stop: Callable[[], None]) -> AsyncIterator[None]:
    """Call *stop* at the first signal that comes during the block; the second one ends the process at once."""
    signals = Signals()
    signals.on_kill(partial(os._exit, EXIT_KILLED))

    async def wait() -> None:
        await signals.interrupted.wait()
        stop()

    try:
        async with anyio.create_task_group() as tasks:
            await tasks.start(signals.listen, name="signals")
            tasks.start_soon(wait, name="stop on signal")
            yield
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise unwrap(group) from None
