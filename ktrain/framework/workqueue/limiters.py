"""
How long a key that failed has to wait.

A limiter is asked once per failure and counts it; `forget` ends the story of a key. The default of a workqueue is
`Exponential` alone, as in controller-runtime, but with jitter, so that keys which failed together do not come back
together. The others are client-go's and combine: `MaxOf(Exponential(env), Bucket(env))` is its classic default.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

if TYPE_CHECKING:
    from ktrain.framework.env import Env

K = TypeVar("K", bound=Hashable)
K_contra = TypeVar("K_contra", bound=Hashable, contravariant=True)

BASE_S: Final = 0.005
CAP_S: Final = 1000.0
JITTER: Final = 0.2
"""Largest part of a delay that is added to it by chance."""


class Limiter(Protocol[K_contra]):
    """Delays for keys that failed."""

    def delay_s(self, key: K_contra) -> float:
        """Count one failure and return the seconds to wait."""

    def forget(self, key: K_contra) -> None:
        """Begin anew with a key: its next failure is the first."""

    def failures(self, key: K_contra) -> int:
        """How many failures were counted in a row."""

    def failing(self) -> int:
        """How many keys have failures."""


class _Counting:
    """The part of a limiter that counts failures by key."""

    def __init__(self) -> None:
        self._failures: dict[Hashable, int] = {}

    def _count(self, key: Hashable) -> int:
        """Return the failures before this one."""
        before = self._failures.get(key, 0)
        self._failures[key] = before + 1
        return before

    def forget(self, key: Hashable) -> None:
        """Begin anew with a key: its next failure is the first."""
        if self._failures:
            self._failures.pop(key, None)

    def failures(self, key: Hashable) -> int:
        """How many failures were counted in a row."""
        return self._failures.get(key, 0)

    def failing(self) -> int:
        """How many keys have failures."""
        return len(self._failures)


class Exponential(_Counting):
    """
    Doubles with each failure of a key.

    Args:
        env: Randomness.
        base_s: After the first failure.
        cap_s: Never more, jitter aside.
        jitter: Each delay grows by up to this part of itself, by chance.
    """

    def __init__(self, env: Env, *, base_s: float = BASE_S, cap_s: float = CAP_S, jitter: float = JITTER) -> None:
        super().__init__()
        self._random = env.random
        self._base_s = base_s
        self._cap_s = cap_s
        self._jitter = jitter

    def delay_s(self, key: Hashable) -> float:
        """Count one failure and return the seconds to wait."""
        # The exponent is capped too: 2.0 ** 1024 does not fit a float.
        delay = min(self._base_s * 2.0 ** min(self._count(key), 64), self._cap_s)
        return delay * self._random.uniform(1.0, 1.0 + self._jitter)


class FastSlow(_Counting):
    """A fast delay for the first `tries` failures of a key, a slow one from then on."""

    def __init__(self, *, fast_s: float, slow_s: float, tries: int) -> None:
        super().__init__()
        self._fast_s = fast_s
        self._slow_s = slow_s
        self._tries = tries

    def delay_s(self, key: Hashable) -> float:
        """Count one failure and return the seconds to wait."""
        return self._fast_s if self._count(key) < self._tries else self._slow_s


class Bucket:
    """All keys together: `burst` retries at once, then `rate` per second, in the order in which they asked."""

    def __init__(self, env: Env, *, rate: float = 10.0, burst: int = 100) -> None:
        self._env = env
        self._pause_s = 1.0 / rate
        self._burst = burst
        self._full_at_s = float("-inf")  # when every token taken so far is back

    def delay_s(self, key: Hashable) -> float:
        """Take the next token and return the seconds until it is there."""
        now = self._env.clock.monotonic()
        self._full_at_s = max(self._full_at_s, now) + self._pause_s
        return max(0.0, self._full_at_s - now - self._burst * self._pause_s)

    def forget(self, key: Hashable) -> None:
        """Do nothing: tokens come back by themselves."""

    def failures(self, key: Hashable) -> int:
        """Return 0: it knows no keys."""
        return 0

    def failing(self) -> int:
        """Return 0: it knows no keys."""
        return 0


class MaxOf(_Counting):
    """The longest delay of several limiters; each of them counts every failure."""

    def __init__(self, *limiters: Limiter[Hashable]) -> None:
        super().__init__()
        self._limiters = limiters

    def delay_s(self, key: Hashable) -> float:
        """Count one failure and return the seconds to wait."""
        self._count(key)
        return max(limiter.delay_s(key) for limiter in self._limiters)

    def forget(self, key: Hashable) -> None:
        """Begin anew with a key: its next failure is the first."""
        super().forget(key)
        for limiter in self._limiters:
            limiter.forget(key)


class MaxWait:
    """Another limiter, whose delays end at `most_s`."""

    def __init__(self, limiter: Limiter[Hashable], most_s: float) -> None:
        self._limiter = limiter
        self._most_s = most_s

    def delay_s(self, key: Hashable) -> float:
        """Count one failure and return the seconds to wait."""
        return min(self._limiter.delay_s(key), self._most_s)

    def forget(self, key: Hashable) -> None:
        """Begin anew with a key: its next failure is the first."""
        self._limiter.forget(key)

    def failures(self, key: Hashable) -> int:
        """How many failures were counted in a row."""
        return self._limiter.failures(key)

    def failing(self) -> int:
        """How many keys have failures."""
        return self._limiter.failing()
