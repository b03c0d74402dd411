"""
The one seam for the world: time and randomness. The third piece, the transport, is given to each `Client`.

Production uses `system_env()`. Simulations pass a clock of virtual time, that of their event loop, and a seeded
`Random` (`ktrain.testing`), so the same code runs deterministically and thousands of times faster than life. No other
module of the framework, the pipeline, the plugins and the controllers asks `time`, `random` or `datetime.now`, but for
two that are about this process in the real world: the times of log lines, and the watchdog of the event loop. Timers
and deadlines below HTTP go by the loop's clock, which is the virtual one in a simulation.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Where time comes from."""

    def monotonic(self) -> float:
        """Seconds that never go back; differences are meaningful, the zero is not."""

    def boottime(self) -> float:
        """Like `monotonic`, and also while the machine sleeps: what others saw pass. For leases."""

    def now(self) -> datetime:
        """Wall time, aware, UTC. For stamps on objects, never for measuring."""

    async def sleep(self, seconds: float) -> None:
        """Wait. Cancellation ends the wait."""


class SystemClock:
    """The machine's clocks."""

    monotonic: staticmethod[[], float] = staticmethod(time.monotonic)
    """
    Also the time of an event loop. Nothing is in between, not even a call, as all that is measured is measured by this:
    it is read 150 times in the life of one TrainJob.
    """

    def boottime(self) -> float:
        """Seconds on the running loop's clock, and on Linux with those for which the machine was suspended."""
        loop = asyncio.get_running_loop()
        boot = getattr(time, "CLOCK_BOOTTIME", None)
        if boot is None:
            return loop.time()
        # In this order: a process that is stopped between the three gets the time before the stop, the safe guess.
        return time.clock_gettime(boot) - time.clock_gettime(time.CLOCK_MONOTONIC) + loop.time()

    def now(self) -> datetime:
        """The machine's wall clock."""
        return datetime.fromtimestamp(time.time(), UTC)

    async def sleep(self, seconds: float) -> None:
        """Sleep on the running loop."""
        await asyncio.sleep(seconds)


@dataclass(frozen=True, slots=True)
class Env:
    """Time and randomness, passed to whoever needs them."""

    clock: Clock = field(default_factory=SystemClock)
    random: random.Random = field(default_factory=random.SystemRandom)
    """
    One source for all: jitter, names, and also keys. So the default is cryptographically secure, and a simulation that
    passes a seeded `Random` gets the same keys each time.
    """


def system_env() -> Env:
    """Return the production environment: real clocks, and the operating system's randomness."""
    return Env()
