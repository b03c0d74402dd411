"""
How the server's own controllers work: one key at a time, and what goes wrong with one is that key's trouble only.

Whatever a pass raises is logged, and the key comes again after a back-off. A controller that died of one odd object
would leave every later deletion hanging, with nobody to tell why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import anyio
import structlog

from ktrain.framework.backoff import Backoff

if TYPE_CHECKING:
    from ktrain.framework.env import Env

K = TypeVar("K", bound=Hashable)

_RETRY_BASE_S: Final = 0.05
_RETRY_CAP_S: Final = 60.0
_YIELD_EVERY: Final = 32
"""Keys worked on before other tasks get their turn: a pass that need not wait gives them none."""

log = structlog.get_logger(__name__)


class Worklist(Generic[K]):
    """
    Keys that a controller has to look at, each once, in order.

    Unlike the framework's queue it is filled inside commits, the first of which come before there is an event loop.
    """

    def __init__(self, controller: str, env: Env) -> None:
        self._controller = controller
        self._env = env
        self._due: dict[K, None] = {}
        self._failing: dict[K, Backoff] = {}
        self._wakeup = asyncio.Event()

    def add(self, key: K) -> None:
        """Ask for a pass over this key, another one if it is being worked on."""
        self._due[key] = None
        self._wakeup.set()

    async def work(self, settle: Callable[[K], Awaitable[None]]) -> None:
        """Call `settle` for each key until cancelled."""
        done = 0
        async with anyio.create_task_group() as retries:
            while True:
                await self._wakeup.wait()
                self._wakeup.clear()
                while self._due:
                    key = next(iter(self._due))
                    del self._due[key]
                    try:
                        await settle(key)
                    except Exception:
                        log.exception("apiserver.pass_failed", controller=self._controller, key=str(key))
                        retries.start_soon(self._retry, key)
                    else:
                        self._failing.pop(key, None)
                    done += 1
                    if done % _YIELD_EVERY == 0:
                        await asyncio.sleep(0)

    async def _retry(self, key: K) -> None:
        backoff = self._failing.setdefault(key, Backoff(self._env, base_s=_RETRY_BASE_S, cap_s=_RETRY_CAP_S))
        await backoff.sleep()
        self.add(key)
