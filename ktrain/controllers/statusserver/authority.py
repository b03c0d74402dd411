"""Follows the CA of the server's certificate: `ca.crt` beside `tls.crt` and `tls.key`, as Secrets are mounted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread
import structlog

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from anyio.abc import TaskStatus
    from structlog.typing import FilteringBoundLogger

    from ktrain.framework.env import Env

log: FilteringBoundLogger = structlog.get_logger(__name__)

RELOAD_S: Final = 10.0


class AuthorityFile:
    """
    A service that reads `ca.crt` of a directory every 10 seconds. One that is gone leaves what was known.

    Args:
        directory: Holds the file.
        env: Time.
        use: Told the certificates (PEM) at first, empty if there is no such file, and then whenever they change.
    """

    needs_leader: Final = False

    def __init__(self, directory: Path, env: Env, use: Callable[[str], None]) -> None:
        self._file = directory / "ca.crt"
        self._env = env
        self._use = use

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Follow the file until cancelled."""
        known, problem = "", ""
        while True:
            try:
                found = await anyio.to_thread.run_sync(self._file.read_text)
            except (OSError, UnicodeDecodeError) as error:
                if problem != str(error):
                    problem = str(error)
                    log.warning("statusserver.ca_unreadable", file=str(self._file), error=problem)
            else:
                problem = ""
                if found != known:
                    known = found
                    self._use(found)
            task_status.started()
            task_status = anyio.TASK_STATUS_IGNORED
            await self._env.clock.sleep(RELOAD_S)
