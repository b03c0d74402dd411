"""
Looks at JobSets that stand still: each at its time, one read of events at once.

A look is the last that a pass does: its answer may be slow, and only explains. The next pass tells what was heard.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import anyio

from ktrain.framework.workqueue.delays import Delays

from . import stalls
from .complaints import Complaints

if TYPE_CHECKING:
    from collections.abc import Callable

    from ktrain.api.meta import Key
    from ktrain.framework.client.client import Client
    from ktrain.framework.env import Env
    from ktrain.plugins.jobset import JobSetState

    from .observe import Stall

ASK_AGAIN_S: Final = 1.0
"""When another job's events are being read, the wait for a turn. It is less than an answer serves others."""


class Looks:
    """Wakes jobs for their looks. Of each there is one time, the next."""

    def __init__(self, client: Client, env: Env, wake: Callable[[Key, float], None]) -> None:
        self._env = env
        self._complaints = Complaints(client, env)
        self._due: Delays[Key] = Delays(env, lambda key: wake(key, 0))

    def drop(self, key: Key) -> None:
        """Have no more looks at a job that gets on."""
        if key in self._due:
            self._due.remove(key)

    async def look(self, job_set: JobSetState | None, key: Key, stall: Stall) -> Stall:
        """Return *stall* with what is heard of a JobSet if the time has come. The job is woken when there is more."""
        clock, wait_s = self._env.clock, self._left_s(stall)
        if wait_s <= 0 and job_set:
            try:
                complaints = await self._complaints.of(key.namespace)
            except anyio.WouldBlock:
                wait_s = ASK_AGAIN_S
            else:
                known, stall = stall, stalls.heard(stall, job_set, complaints, clock.now())
                wait_s = self._left_s(stall) if stall.failure == known.failure else 0
        self._due.put(key, clock.monotonic() + wait_s)
        return stall

    def _left_s(self, stall: Stall) -> float:
        return (stall.due - self._env.clock.now()).total_seconds()
