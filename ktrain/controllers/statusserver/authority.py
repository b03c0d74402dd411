"""Follows the CA of the server's certificate: a mounted `ca.crt`, or what the operator's own certificates say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread
import structlog

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio.abc import TaskStatus
    from structlog.typing import FilteringBoundLogger

    from ktrain.framework.env import Env

log: FilteringBoundLogger = structlog.get_logger(__name__)

RELOAD_S: Final = 10.0


class Authority:
    """
    A service that reads the CA every 10 seconds. One that is gone leaves what was known.

    Args:
        place: Where it is, for the log.
        read: Returns the certificates (PEM), in a thread. Raises OSError or UnicodeDecodeError if there are none.
        env: Time.
        use: Told the certificates at first, and then whenever they change.
    """

    needs_leader: Final = False

    def __init__(self, place: str, read: Callable[[], str], env: Env, use: Callable[[str], None]) -> None:
        self._place = place
        self._read = read
        self._env = env
        self._use = use

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Follow it until cancelled."""
        known, problem = "", ""
        while True:
            try:
                found = await anyio.to_thread.run_sync(self._read)
            except (OSError, UnicodeDecodeError) as error:
                if problem != str(error):
                    problem = str(error)
                    log.warning("statusserver.ca_unreadable", place=self._place, error=problem)
            else:
                problem = ""
                if found != known:
                    known = found
                    self._use(found)
            task_status.started()
            task_status = anyio.TASK_STATUS_IGNORED
            await self._env.clock.sleep(RELOAD_S)
