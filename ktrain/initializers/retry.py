"""Tries again what a source interrupted, with growing, jittered delays, as long as it leads anywhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, TypeVar

import structlog

from .errors import Interrupted

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Event

T = TypeVar("T")

log = structlog.get_logger("ktrain.initializers")


class Stopped(Exception):
    """Another file has failed for good; this one need not go on."""


@dataclass(frozen=True, slots=True)
class Retry:
    """How often and how fast. Delays double; each is drawn from the upper half, so that many pods do not align."""

    attempts: int = 6
    """Attempts in a row that lead nowhere."""
    base_s: float = 1.0
    cap_s: float = 30.0
    random: Random = field(default_factory=Random)

    def delay_s(self, failures: int, asked_s: float = 0) -> float:
        """Seconds to wait after *failures* in a row; no less than the source asked for, within ten times the cap."""
        backoff = min(self.cap_s, self.base_s * 2.0 ** (failures - 1)) * self.random.uniform(0.5, 1)
        return max(backoff, min(asked_s, 10 * self.cap_s))

    def call(self, what: str, attempt: Callable[[], T], stop: Event, progress: Callable[[], int] = lambda: 0) -> T:
        """
        Call *attempt* until it is not interrupted.

        Args:
            what: For the log.
            attempt: Raises `Interrupted` to be called again; everything else passes.
            stop: Ends the waiting.
            progress: How far it is. An attempt that came farther than any before does not count as a failure, so a
                large file arrives over a bad line, and what starts anew again and again comes to an end.

        Raises:
            Interrupted: The last one, after `attempts` that led nowhere.
            Stopped: *stop* was set.
        """
        failures, farthest = 0, progress()
        while True:
            try:
                return attempt()
            except Interrupted as error:
                reached = progress()
                failures = 1 if reached > farthest else failures + 1
                farthest = max(farthest, reached)
                if failures >= self.attempts:
                    raise
                delay_s = self.delay_s(failures, error.retry_after_s)
                log.warning("download.retry", what=what, error=str(error), failures=failures, delay_s=round(delay_s, 2))
            if stop.wait(delay_s):
                raise Stopped
