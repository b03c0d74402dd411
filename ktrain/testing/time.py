"""
Virtual time: an event loop on which waiting costs nothing.

When nothing is ready to run, the loop's clock jumps to the next timer. A run of hours takes milliseconds and repeats
itself exactly: the same code with the same seed does the same things in the same order. There is no outside: sockets,
threads and child processes would live in real time, so a loop with nothing to do and no timer is reported as the
deadlock that it is.

    async def scenario(env: Env) -> float:
        await env.clock.sleep(3600)
        return env.clock.monotonic()

    assert simulate(scenario) == 3600
"""

from __future__ import annotations

import asyncio
import random
import selectors
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

from ktrain.framework.env import Env

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
"""Wall time at the start of every simulation."""


class Deadlock(AssertionError):
    """Everybody waits for somebody: nothing is ready and no timer is set."""


class VirtualSelector(selectors.SelectSelector):
    """Instead of waiting, moves the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return at once; time goes on by what the loop wanted to wait."""
        if timeout is None:
            waiting = "\n".join(f"  {task!r}" for task in asyncio.all_tasks(asyncio.get_event_loop()))
            raise Deadlock(f"nothing is ready and no timer is set; waiting are:\n{waiting}")
        self.now_s += max(timeout, 0.0)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is virtual."""

    def __init__(self) -> None:
        self._virtual = VirtualSelector()
        super().__init__(self._virtual)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._virtual.now_s


class VirtualClock:
    """The clock of a `VirtualLoop`, for `Env`. `skew_s` moves its wall time, as a bad NTP server would."""

    def __init__(self, *, skew_s: float = 0.0) -> None:
        self.skew_s = skew_s

    def monotonic(self) -> float:
        """Virtual seconds."""
        return asyncio.get_running_loop().time()

    def now(self) -> datetime:
        """Virtual wall time."""
        return EPOCH + timedelta(seconds=self.monotonic() + self.skew_s)

    async def sleep(self, seconds: float) -> None:
        """Sleep in virtual time."""
        await asyncio.sleep(seconds)


def virtual_env(seed: int = 0) -> Env:
    """Make an environment with virtual time and seeded randomness."""
    return Env(VirtualClock(), random.Random(seed))  # noqa: S311 - repeatable on purpose


def simulate(scenario: Callable[[Env], Awaitable[T]], *, seed: int = 0) -> T:
    """
    Run a scenario to its end in virtual time.

    Raises:
        Deadlock: Nothing could ever happen any more.
    """

    async def main() -> T:
        return await scenario(virtual_env(seed))

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main())
