"""
How many calls of one client are under way at once, and whose turn it is when there are too many.

A controller that floods, or whose calls all hang, must not keep the others from the API server. So calls belong to
flows (a flow is a controller, named by a context variable), and a flow may hold at most as many slots as are free at
that moment: alone it gets half of them, n flows get a share of 1/(n+1) each, and something is always left for a flow
that comes new. Buffers of network switches are shared by this rule (Choudhury and Hahne's dynamic thresholds): nobody
has to know beforehand how many flows there will be. When slots come back, the waiting flow that holds fewest gets one.

Only attempts hold slots. A call that sleeps because the server asked it to come back later holds none, neither do
watches, which last for ever. The client of a leader election has no fairness at all: a renewal never waits here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from ktrain.framework.errors import ClientBusy
from ktrain.framework.metrics.registry import nothing

if TYPE_CHECKING:
    from ktrain.framework.env import Env
    from ktrain.framework.metrics.registry import Observe

MAX_IN_FLIGHT: Final = 200
"""Calls of one client at once. A kube-apiserver without priority and fairness takes 400 reads and 200 writes."""

FLOW: Final[ContextVar[str]] = ContextVar("ktrain_flow", default="")
"""Whose calls these are. A controller sets it once in each of its workers; all others share the flow without a name."""


class Fairness:
    """
    The slots of one client. Used from one event loop.

    Args:
        env: For the clock.
        max_in_flight: How many slots there are.
        waited: Observes the seconds that a call had to wait; calls that found a slot are not observed.
    """

    def __init__(self, env: Env, *, max_in_flight: int = MAX_IN_FLIGHT, waited: Observe = nothing) -> None:
        if max_in_flight < 2:
            raise ValueError(f"a client needs at least 2 slots, one of them for who comes next; got {max_in_flight}")
        self._env = env
        self._waited = waited
        self._max = max_in_flight
        self._free = max_in_flight
        self._held: dict[str, int] = {}
        # In the order in which their flows began to wait, and go back to the end after each turn.
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @property
    def in_flight(self) -> int:
        """Slots that are taken."""
        return self._max - self._free

    @property
    def waiting(self) -> int:
        """Calls without a slot."""
        return sum(map(len, self._waiting.values()))

    async def acquire(self, flow: str, *, timeout_s: float) -> float:
        """
        Take a slot for a flow, and return how many seconds that took; `release` it afterwards. Safe to cancel.

        Raises:
            ClientBusy: No turn came within `timeout_s` seconds.
        """
        held = self._held.get(flow, 0)
        if held < self._free and flow not in self._waiting:
            self._take(flow)
            return 0.0
        began_s = self._env.clock.monotonic()
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(flow, deque()).append(turn)
        try:
            async with asyncio.timeout(timeout_s):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self.release(flow)  # the turn came together with the end of the waiting
            else:
                self._forget(flow, turn)
            if isinstance(error, TimeoutError):
                raise ClientBusy(
                    f"no turn within {timeout_s:g} s: {self.in_flight} calls of this client are under way, {held} of "
                    f"them by {flow or 'the flow without a name'}, and {self.waiting} more wait"
                ) from None
            raise
        took_s = self._env.clock.monotonic() - began_s
        self._waited(took_s)
        return took_s

    def release(self, flow: str) -> None:
        """Give a slot back, and to whoever waits."""
        self._free += 1
        self._held[flow] -= 1
        if not self._held[flow]:
            del self._held[flow]
        if self._waiting:
            self._serve()

    def _take(self, flow: str) -> None:
        self._free -= 1
        self._held[flow] = self._held.get(flow, 0) + 1

    def _serve(self) -> None:
        while self._waiting:
            flow = min(self._waiting, key=lambda each: self._held.get(each, 0))
            if self._held.get(flow, 0) >= self._free:
                return
            turns = self._waiting.pop(flow)
            turns.popleft().set_result(None)
            self._take(flow)
            if turns:
                self._waiting[flow] = turns

    def _forget(self, flow: str, turn: asyncio.Future[None]) -> None:
        turns = self._waiting[flow]
        turns.remove(turn)
        if not turns:
            del self._waiting[flow]
