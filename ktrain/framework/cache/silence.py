"""
When a watch that says nothing is dead.

A socket whose other end is gone without a word looks like a kind in which nothing happens. Two things tell them apart:

- kube-apiserver sends a bookmark on every watch about once a minute (59.2 to 61.5 s were measured on 1.36), whatever
  else flows. So a bookmark that is overdue ends the stream: a watch is noticed to be dead half a minute after it died
  on average, `BOOKMARK_INTERVAL_S + GRACE_S` at the most. Ordinary events do not put this off, since the last one may
  have come just before the silence. But other servers have no such rhythm, and a kind of which the server has never
  seen an event may get its first bookmark a minute late. So a server that has not shown the rhythm is held to it once
  only, and one that has, until it misses twice in a row.
- The server was asked to end the watch after some time. One that still lives a little later is not heard any more.

Beside this the transport ends a stream without a single byte for `IDLE_TIMEOUT_S`.
"""

from __future__ import annotations

from typing import Final

BOOKMARK_INTERVAL_S: Final = 60.0
GRACE_S: Final = 2.5
TOLERANCE_S: Final = 5.0
"""A gap between bookmarks that is so close to a minute proves the rhythm. Others are sent too: before the end."""
IDLE_TIMEOUT_S: Final = 75.0
END_GRACE_S: Final = 5.0
"""How long after the time it was asked for a server may end a watch."""
MAX_MISSES: Final = 2


class Silence:
    """Knows until when a stream may go on. Lives as long as its reflector: a new stream profits from what was shown."""

    def __init__(self) -> None:
        self._misses = MAX_MISSES - 1
        self._since_s = 0.0
        self._end_s = 0.0

    def opened(self, now_s: float, timeout_s: float) -> None:
        """A stream begins that the server was asked to end after some seconds."""
        self._since_s = now_s
        self._end_s = now_s + timeout_s + END_GRACE_S

    def bookmark(self, now_s: float) -> None:
        """A bookmark came."""
        if abs(now_s - self._since_s - BOOKMARK_INTERVAL_S) <= TOLERANCE_S:
            self._misses = 0
        self._since_s = now_s

    def missed(self) -> None:
        """The deadline passed."""
        self._misses += 1

    def left_s(self, now_s: float) -> float:
        """Seconds until `deadline_s`."""
        return max(self.deadline_s - now_s, 0.0)

    @property
    def deadline_s(self) -> float:
        """When the stream is dead unless a bookmark came before."""
        if self._misses >= MAX_MISSES:
            return self._end_s
        return min(self._end_s, self._since_s + BOOKMARK_INTERVAL_S + GRACE_S)
