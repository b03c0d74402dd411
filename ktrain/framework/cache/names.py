"""
Names of objects that are there and not held: nine bytes each, where an object by its metadata alone takes a kilobyte.

Of a name its hash is kept, 64 bits that nobody outside the process can foresee, in sorted runs. That tells whether an
object has a name, which is what has to be known of objects of others. Of a million names two are taken for one another
once in 37 million processes; then one of the two counts as free when the other goes.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable

    from structlog.typing import FilteringBoundLogger

    from ktrain.api.meta import Key

MAX_RUN: Final = 1024
"""A longer run is halved: what an insertion moves is 8 KB at the most, and no insertion moves everything."""
_FIRST: Final[itemgetter[Any]] = itemgetter(0)

log: FilteringBoundLogger = structlog.get_logger("ktrain.framework.cache")


class Names:
    """A set of keys that can be asked and not listed."""

    def __init__(self) -> None:
        self._runs: list[array[int]] = []
        """Sorted, and in order; none is empty."""
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __bool__(self) -> bool:
        return self._size > 0

    def __contains__(self, key: Key) -> bool:
        if not self._runs:
            return False
        number = hash(key)
        return self._find(number, self._runs[self._place(number)]) is not None

    @property
    def bytes(self) -> int:
        """Memory, without what is over-allocated."""
        return self._size * array("q").itemsize

    def add(self, key: Key) -> None:
        """Put a name in. Nothing if it is there."""
        number = hash(key)
        if not self._runs:
            self._runs.append(array("q"))
        place = self._place(number)
        run = self._runs[place]
        at = bisect_left(run, number)
        if at < len(run) and run[at] == number:
            return
        run.insert(at, number)
        self._size += 1
        if len(run) > MAX_RUN:
            half = len(run) // 2
            self._runs[place : place + 1] = run[:half], run[half:]

    def discard(self, key: Key) -> None:
        """Take a name out. Nothing if it is not there."""
        if not self._runs:
            return
        number = hash(key)
        place = self._place(number)
        run = self._runs[place]
        at = self._find(number, run)
        if at is None:
            return
        del run[at]
        self._size -= 1
        if not run:
            del self._runs[place]

    def _place(self, number: int) -> int:
        """Where the run is that has this number, or should."""
        return max(bisect_right(self._runs, number, key=_FIRST) - 1, 0) if len(self._runs) > 1 else 0

    @staticmethod
    def _find(number: int, run: array[int]) -> int | None:
        at = bisect_left(run, number)
        return at if at < len(run) and run[at] == number else None


class Departures:
    """Whom to tell, once, when the object of a name is gone."""

    def __init__(self) -> None:
        self._awaited: dict[Key, dict[Callable[[], None], None]] = {}

    def tell(self, key: Key, call: Callable[[], None]) -> None:
        """Remember a call; one that is equal to another for this name is the same."""
        self._awaited.setdefault(key, {})[call] = None

    def gone(self, key: Key) -> None:
        """Make the calls for a name."""
        for call in self._awaited.pop(key, ()):
            try:
                call()
            except Exception:
                # The boundary to other people's code, as with handlers.
                log.exception("departure.failed", key=str(key), call=repr(call))

    def check(self, is_there: Callable[[Key], bool]) -> None:
        """Make the calls for all names that are not there: the content was replaced."""
        for key in [key for key in self._awaited if not is_there(key)]:
            self.gone(key)

    def clear(self) -> None:
        """Forget everybody."""
        self._awaited.clear()

    def __len__(self) -> int:
        return len(self._awaited)
