"""Jittered exponential back-off, the only kind of waiting after a failure in this package."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .env import Env


@dataclass(slots=True)
class Backoff:
    """
    Delays that double from `base_s` up to `cap_s`, each times a random factor in [1, 2).

    The jitter keeps those who failed together from coming back together; at the cap it spreads them over a whole
    second `cap_s`. After `reset_s` seconds without a failure the next delay is the first again.
    """

    env: Env
    base_s: float = 0.8
    cap_s: float = 30.0
    reset_s: float = 120.0
    _failures: int = field(default=0, init=False)
    _last_s: float = field(default=float("-inf"), init=False)

    def next_s(self) -> float:
        """Seconds to wait now; counts one failure."""
        now = self.env.clock.monotonic()
        if now - self._last_s > self.reset_s:
            self._failures = 0
        delay = min(self.base_s * 2.0 ** min(self._failures, 64), self.cap_s) * self.env.random.uniform(1.0, 2.0)
        self._failures += 1
        self._last_s = now + delay
        return delay

    async def sleep(self, *, at_least_s: float = 0.0) -> None:
        """Wait for the next delay, or for as long as the server asked and up to a fifth more, if that is longer."""
        delay_s = self.next_s()
        if at_least_s > delay_s:
            # All whom it asked at once must not come back at once.
            delay_s = at_least_s * self.env.random.uniform(1.0, 1.2)
        await self.env.clock.sleep(delay_s)

    def reset(self) -> None:
        """Forget failures: the next delay is the first."""
        self._failures = 0
