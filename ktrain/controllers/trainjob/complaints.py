"""
What the controllers of JobSets and Jobs complain of, in events: read when it is wanted, since nobody can afford to
watch the events of a cluster.

Jobs that stand still often do so together, for one quota or one controller that is slow: an answer serves all jobs of
its namespace that want it at the time.
"""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 -- msgspec resolves annotations at run time
from typing import TYPE_CHECKING, Final

import anyio
import msgspec
import structlog

from ktrain.api.meta import Object, Resource, Struct
from ktrain.framework.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.framework.client.client import Client
    from ktrain.framework.env import Env

log = structlog.get_logger(__name__)

FRESH_S: Final = 2.0
"""For so long an answer serves others."""
MOST: Final = 500
"""So many complaints of a namespace are read at most."""
_SELECTORS: Final = ("regarding.kind=JobSet,type=Warning", "regarding.kind=Job,reason=FailedCreate")


class Regarding(Struct, frozen=True):
    """What an event is about."""

    kind: str = ""
    name: str = ""
    uid: str = ""


class _Series(Struct, frozen=True):
    last_observed_time: datetime | None = None


class Complaint(Object, frozen=True):
    """An event, of either API."""

    regarding: Regarding = Regarding()
    reason: str = ""
    note: str = ""
    event_time: datetime | None = None
    deprecated_last_timestamp: datetime | None = None
    series: _Series | None = None

    @property
    def last(self) -> datetime | None:
        """When it was seen last."""
        observed = self.series.last_observed_time if self.series else None
        return observed or self.deprecated_last_timestamp or self.event_time or self.metadata.creation_timestamp


COMPLAINTS: Final = Resource("events.k8s.io", "v1", "Event", "events", namespaced=True, type=Complaint)


class _Answers(Struct, frozen=True):
    items: tuple[Complaint, ...] = ()


class Complaints:
    """Reads complaints, those of one namespace at a time."""

    def __init__(self, client: Client, env: Env) -> None:
        self._client = client
        self._env = env
        self._turn = anyio.Lock()
        self._read: dict[str, tuple[float, tuple[Complaint, ...]]] = {}
        self._is_silenced = False

    async def of(self, namespace: str) -> Sequence[Complaint]:
        """
        Return what is said about the JobSets and Jobs of a namespace; nothing if that may not be read.

        Raises:
            FrameworkError: The API server could not be reached.
        """
        async with self._turn:
            now_s = self._env.clock.monotonic()
            self._read = {where: answer for where, answer in self._read.items() if now_s - answer[0] < FRESH_S}
            if namespace not in self._read:
                self._read[namespace] = (now_s, await self._ask(namespace))
            return self._read[namespace][1]

    async def _ask(self, namespace: str) -> tuple[Complaint, ...]:
        found: list[Complaint] = []
        for selector in _SELECTORS:
            query = [("fieldSelector", selector), ("limit", str(MOST))]
            try:
                answer = await self._client.raw("GET", COMPLAINTS.path(namespace), query=query)
            except ApiError as error:
                # What is lost is an explanation; the job itself is none the worse.
                if not self._is_silenced:
                    log.warning("trainjob.events_unreadable", namespace=namespace, error=str(error))
                self._is_silenced = True
                return ()
            found += msgspec.json.decode(answer.body, type=_Answers).items
        self._is_silenced = False
        return tuple(found)
