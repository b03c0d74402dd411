"""
Writing a pod's status: one writer per pod, only on change, as few writes as tell the story.

Changes that come together (started, ready, address) are written together: the first one waits a moment for the others,
and while a write is under way all further ones wait for it to finish. Nothing waits for a write except the end: a
terminal status must be stored before the pod may be deleted, or controllers would count it as lost.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from ktrain.framework import PatchType
from ktrain.framework.backoff import Backoff
from ktrain.framework.errors import Conflict, FrameworkError, Invalid, NotFound

from .spec import PODS

if TYPE_CHECKING:
    from collections.abc import Callable

    from ktrain.api.meta import Json, Key
    from ktrain.framework import Client, Env

    from .spec import Pod

SETTLE_S: Final = 0.01
"""How long a change waits for others that belong to it."""

log = structlog.get_logger(__name__)


class StatusReporter:
    """
    Writes the status of one pod.

    Args:
        client: Where to.
        env: For waiting.
        key: The pod.
        uid: Its UID, a precondition of every write: names are reused.
        build: Computes the whole status as it is now.
        stored: Called with the pod after each write.
    """

    def __init__(
        self,
        client: Client,
        env: Env,
        *,
        key: Key,
        uid: str,
        build: Callable[[], Json],
        stored: Callable[[Pod], None],
    ) -> None:
        self._client = client
        self._env = env
        self._key = key
        self._uid = uid
        self._build = build
        self._stored = stored
        self._dirty = asyncio.Event()
        self._written: Json | None = None
        self.gone = False
        """The API server has no such pod any more."""

    def changed(self) -> None:
        """Something the status tells has changed. Never waits."""
        self._dirty.set()

    async def run(self) -> None:
        """Write changes until cancelled, or the pod is gone. A write that is cancelled may have happened."""
        while not self.gone:
            await self._dirty.wait()
            await self._env.clock.sleep(SETTLE_S)
            self._dirty.clear()
            await self.flush()

    async def flush(self) -> None:
        """Write the status as it is now, however long it takes, unless it is written already or the pod is gone."""
        backoff = Backoff(self._env, base_s=0.1, cap_s=5.0)
        while not self.gone:
            status = self._build()
            if status == self._written:
                return
            try:
                # Strategic: conditions merge by type, so those of other writers stay.
                patch = {"metadata": {"uid": self._uid}, "status": status}
                pod = await self._client.patch(PODS, self._key, patch, type=PatchType.STRATEGIC, subresource="status")
            except NotFound:
                self.gone = True
            except FrameworkError as error:
                if isinstance(error, (Conflict, Invalid)) and await self._replaced():
                    self.gone = True
                    return
                log.warning("pod.status_not_written", pod=str(self._key), error=str(error))
                await backoff.sleep()
            else:
                self._written = status
                self._stored(pod)

    async def _replaced(self) -> bool:
        """Whether the name belongs to another pod now. Servers differ in how they refuse a UID; ask what is there."""
        try:
            return (await self._client.get(PODS, self._key.name, self._key.namespace)).uid != self._uid
        except NotFound:
            return True
        except FrameworkError:
            return False


async def delete_finally(client: Client, env: Env, pod: Pod) -> None:
    """Let a pod go that was deleted and has ended: DELETE without grace, until the API server has taken it."""
    backoff = Backoff(env, base_s=0.1, cap_s=5.0)
    while True:
        try:
            await client.delete(PODS, pod.key, uid=pod.uid, grace_period_s=0)
        except (NotFound, Conflict):
            return
        except FrameworkError as error:
            log.warning("pod.not_deleted", pod=str(pod.key), error=str(error))
            await backoff.sleep()
        else:
            return
