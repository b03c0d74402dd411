"""A certificate that this process signs for itself: nobody on the way can read along; who it is, it does not prove."""

from __future__ import annotations

import socket
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

from ktrain.framework.webhook.authority import issue

if TYPE_CHECKING:
    from anyio.abc import TaskStatus

    from ktrain.framework.env import Env
    from ktrain.framework.webhook.certificates import KeyPair, Use

LIFETIME: Final = timedelta(days=90)
RENEWED_EVERY: Final = timedelta(days=30)


class SelfSigned:
    """A `CertificateSource`: a new pair for this host every 30 days, each good for 90. Nothing is written to disk."""

    def __init__(self, env: Env) -> None:
        self._env = env

    async def run(self, use: Use, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Make pairs until cancelled."""
        while True:
            await use(await anyio.to_thread.run_sync(self._issue))
            task_status.started()
            task_status = anyio.TASK_STATUS_IGNORED
            await self._env.clock.sleep(RENEWED_EVERY.total_seconds())

    def _issue(self) -> KeyPair:
        names = dict.fromkeys([socket.gethostname(), "localhost", "127.0.0.1"])
        return issue(list(names), now=self._env.clock.now(), lifetime=LIFETIME).pair
