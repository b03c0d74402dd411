"""
Keys that are kept from their next pass until the cache shows what the last one wrote.

A key that is held has no task and no timer of its own, which would cost more than its pass: a future of the informer
wakes it, and one timer for all ends the first that is late. They are late in the order in which they came, since all
have the same time.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from structlog.typing import FilteringBoundLogger

    from ktrain.api.meta import Key
    from ktrain.framework.cache.cache import Cache
    from ktrain.framework.cache.informer import Informer
    from ktrain.framework.env import Env
    from ktrain.framework.metrics.controller import ControllerMetrics
    from ktrain.framework.writes import Write

log: FilteringBoundLogger = structlog.get_logger("ktrain.framework.controller")

OWN_WRITE_TIMEOUT_S: Final = 5.0
MAX_HOLDS: Final = 1000
"""Keys held back for own writes at a time; beyond, the cache is far behind, and workers wait with their keys."""


class _Hold:
    """One key that is held."""

    __slots__ = ("behind", "ended", "key", "since_s", "woken", "writes")

    def __init__(self, key: Key, writes: Sequence[Write], since_s: float) -> None:
        self.key = key
        self.writes = writes
        self.since_s = since_s
        self.behind: tuple[Informer[Any], Write] | None = None
        """The first write that the cache lacks, and where."""
        self.woken: asyncio.Future[None] | None = None
        """Done when it may be there."""
        self.ended: asyncio.Future[None] | None = None
        """Of a worker that waits with its key."""


class Holds:
    """
    The keys of one controller that are held.

    Args:
        controller: Its name.
        env: For the clock.
        caches: What has to show the writes, each those to its own cluster; may grow.
        metrics: Where waits are counted.
        release: Called with each key when it may have its next pass.
    """

    def __init__(
        self,
        controller: str,
        *,
        env: Env,
        caches: Sequence[Cache],
        metrics: ControllerMetrics,
        release: Callable[[Key], None],
    ) -> None:
        self._controller = controller
        self._clock = env.clock
        self._caches = caches
        self._metrics = metrics
        self._release = release
        self._held: dict[Key, _Hold] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._held)

    async def hold(self, key: Key, writes: Sequence[Write]) -> None:
        """Release a key when the cache shows its writes, or the time is up. Waits itself only if many are held."""
        if self._behind(writes) is None:
            self._release(key)
            return
        hold = self._held[key] = _Hold(key, writes, self._clock.monotonic())
        self._look(hold)
        if self._timer is None:
            self._arm(hold)
        if len(self._held) > MAX_HOLDS:
            hold.ended = asyncio.get_running_loop().create_future()
            await hold.ended

    def close(self) -> None:
        """Release all."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for hold in list(self._held.values()):
            self._end(hold)

    def _look(self, hold: _Hold, _: object = None) -> None:
        if self._held.get(hold.key) is not hold:  # it was late, or all were released
            return
        behind = self._behind(hold.writes)
        if behind is not None:
            hold.behind = informer, write = behind
            hold.woken = informer.next_change(write)
            hold.woken.add_done_callback(partial(self._look, hold))
            return
        self._end(hold)
        self._metrics.own_write_wait(self._clock.monotonic() - hold.since_s)

    def _behind(self, writes: Sequence[Write]) -> tuple[Informer[Any], Write] | None:
        for cache in self._caches:
            if (found := cache.behind(writes)) is not None:
                return found
        return None

    def _arm(self, first: _Hold) -> None:
        self._timer = asyncio.get_running_loop().call_at(first.since_s + OWN_WRITE_TIMEOUT_S, self._expire)

    def _expire(self) -> None:
        self._timer = None
        now_s = self._clock.monotonic()
        for hold in list(self._held.values()):
            if now_s < hold.since_s + OWN_WRITE_TIMEOUT_S:
                self._arm(hold)
                return
            self._end(hold)
            self._metrics.own_write_wait(now_s - hold.since_s)
            self._metrics.own_write_timeout()
            log.warning(
                "cache.own_write_not_seen",
                controller=self._controller,
                object=str(hold.key),
                waited_s=OWN_WRITE_TIMEOUT_S,
            )

    def _end(self, hold: _Hold) -> None:
        del self._held[hold.key]
        if hold.woken is not None and hold.behind is not None:
            informer, write = hold.behind
            informer.give_up(write, hold.woken)
        if hold.ended is not None and not hold.ended.done():  # its worker was cancelled
            hold.ended.set_result(None)
        self._release(hold.key)
