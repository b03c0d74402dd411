"""A moment by which a pod must be gone: many waits share it, and it only ever comes nearer."""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.framework.env import Clock


class Deadline:
    """
    The end of a grace period. A second deletion may shorten it while hooks and processes are being waited for.

    Must be used on the event loop whose time the clock tells.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._scopes: dict[anyio.CancelScope, float] = {}
        self.at = math.inf

    @property
    def remaining_s(self) -> float:
        """Seconds left; never negative."""
        return max(0.0, self.at - self._clock.monotonic())

    def shorten(self, grace_s: float) -> None:
        """Let it be at most this many seconds from now."""
        self.at = min(self.at, self._clock.monotonic() + grace_s)
        for scope, earliest in self._scopes.items():
            scope.deadline = max(self.at, earliest)

    @contextmanager
    def scope(self, *, at_least_s: float = 0.0) -> Iterator[anyio.CancelScope]:
        """Cancel what is inside when the deadline comes, but not before `at_least_s` seconds have passed."""
        earliest = self._clock.monotonic() + at_least_s
        with anyio.CancelScope(deadline=max(self.at, earliest)) as scope:
            self._scopes[scope] = earliest
            try:
                yield scope
            finally:
                del self._scopes[scope]
