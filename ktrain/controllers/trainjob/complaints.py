"""
What the controllers of JobSets and Jobs complain of, in events: read when it is wanted, since nobody can afford to
watch the events of a cluster.

Jobs that stand still often do so together, for one quota or one controller that is slow: an answer serves all jobs of
its namespace that want it at the time, and so does the news that there was none. Only an explanation is lost then. When
events are slow, much may be wrong, and workers are needed elsewhere: one of them asks at a time, and not for long.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
import msgspec
import structlog

from ktrain.api.meta import Object, Resource, Struct
from ktrain.framework.errors import FrameworkError
from ktrain.framework.parallel import run_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.framework.client.client import Client
    from ktrain.framework.env import Env

log = structlog.get_logger(__name__)

FRESH_S: Final = 2.0
"""For so long an answer serves others, from when it came."""
ANSWER_S: Final = 2.0
"""For so long an answer is waited for."""
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
        self._answers: dict[str, tuple[float, Sequence[Complaint] | None]] = {}
        self._is_silenced = False

    async def of(self, namespace: str) -> Sequence[Complaint] | None:
        """
        Return what is said about the JobSets and Jobs of a namespace; None if it could not be heard.

        Raises:
            anyio.WouldBlock: Somebody else is asking.
        """
        now_s = self._env.clock.monotonic()
        self._answers = {where: answer for where, answer in self._answers.items() if now_s - answer[0] < FRESH_S}
        if answer := self._answers.get(namespace):
            return answer[1]
        self._turn.acquire_nowait()
        try:
            said = await self._ask(namespace)
        finally:
            self._turn.release()
        self._answers[namespace] = (self._env.clock.monotonic(), said)
        return said

    async def _ask(self, namespace: str) -> Sequence[Complaint] | None:
        found: list[Complaint] = []
        reads = [partial(self._read, namespace, selector, found) for selector in _SELECTORS]
        try:
            with anyio.fail_after(ANSWER_S):
                await run_all(reads, limit=len(reads))
        except (FrameworkError, TimeoutError, msgspec.DecodeError) as error:
            if not self._is_silenced:
                why = str(error) or f"no answer within {ANSWER_S:g} s"
                log.warning("trainjob.events_unreadable", namespace=namespace, error=why)
            self._is_silenced = True
            return None
        self._is_silenced = False
        return found

    async def _read(self, namespace: str, selector: str, found: list[Complaint]) -> None:
        query = [("fieldSelector", selector), ("limit", str(MOST))]
        answer = await self._client.raw("GET", COMPLAINTS.path(namespace), query=query)
        found += msgspec.json.decode(answer.body, type=_Answers).items
