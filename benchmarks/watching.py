"""
Events of a watch, from the bytes of a line to an object in an informer with an index and a handler.

The whole way is measured that an event takes after HTTP: reflector, codec, store, index, handler. A transport plays
lines that were made before: an initial list without objects, then the events. The baseline is `json.loads` of the same
lines.
"""

from __future__ import annotations

import json
import time
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import anyio
import msgspec

from ktrain.api import assets
from ktrain.api.jobset import JOBSETS
from ktrain.api.meta import Object, Resource
from ktrain.framework import Cache, Client, system_env
from ktrain.framework.client.transport import Response, Stream
from ktrain.local.apiserver.server import ApiServer

from .figures import Figure, Goal, Outcome
from .objects import job_set
from .processes import PATIENCE_S, in_turns

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from ktrain.api.meta import Json
    from ktrain.framework.client.transport import Query

T = TypeVar("T", bound=Object)

METADATA: Final = Resource(JOBSETS.group, JOBSETS.version, "JobSet", "jobsets", namespaced=True, type=Object)
UNTYPED: Final = Resource(JOBSETS.group, JOBSETS.version, "JobSet", "jobsets", namespaced=True, type=dict)
NAMES: Final = 1000
"""Objects that the events are about."""
VARIABLES: Final = 26
"""They make an object of 4 KB, managedFields included."""
_BOOKMARK: Final = {
    "type": "BOOKMARK",
    "object": {
        "apiVersion": JOBSETS.api_version,
        "kind": "JobSet",
        "metadata": {"resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"}},
    },
}


class Recording:
    """A transport whose only watch plays lines and then is silent."""

    def __init__(self, lines: Sequence[bytes]) -> None:
        self._lines = lines

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout_s: float = 30.0,
    ) -> Response:
        raise NotImplementedError(f"{method} {path}: a recording has one watch only")

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] | None = None,
        idle_timeout_s: float = 75.0,
    ) -> AsyncIterator[Stream]:
        yield Stream(200, {}, self._play())

    async def _play(self) -> AsyncIterator[bytes]:
        for line in self._lines:
            yield line
        await anyio.sleep_forever()

    async def aclose(self) -> None:
        pass


class Arrived:
    """A handler as a controller's: it looks at each object's key. Set when the last version was there."""

    def __init__(self, last: str) -> None:
        self._last = last
        self.event = anyio.Event()

    def on_add(self, obj: Object, *, initial: bool) -> None:
        self._look(obj)

    def on_update(self, old: Object, new: Object) -> None:
        self._look(new)

    def on_delete(self, obj: Object) -> None:
        pass

    def _look(self, obj: Object) -> None:
        if obj.key and obj.metadata.resource_version == self._last:
            self.event.set()


def watch_store(*, smoke: bool) -> Outcome:
    """Watch events into an informer, per second of CPU: metadata only, and an object of 4 KB."""
    count, runs = (50, 1) if smoke else (10_000, 5)
    whole = anyio.run(_object)
    metadata = {"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": whole["metadata"]}
    lines = {METADATA: _lines(metadata, count), JOBSETS: _lines(whole, count)}

    def stored(resource: Resource[T]) -> Callable[[], float]:
        return lambda: count / anyio.run(partial(_store, resource, lines[resource]))

    def loaded(resource: Resource[T]) -> Callable[[], float]:
        def once() -> float:
            started = time.process_time()
            for line in lines[resource]:
                json.loads(line)
            return count / (time.process_time() - started)

        return once

    found = in_turns(runs, loaded(METADATA), stored(METADATA), loaded(JOBSETS), stored(JOBSETS))
    bare_metadata, bare_object = (Figure("json.loads", "events/s", found[index]) for index in (0, 2))
    return Outcome(
        [
            Figure("metadata only", "events/s", found[1], Goal(50_000, at_least=True), bare_metadata),
            Figure("an object of 4 KB", "events/s", found[3], Goal(20_000, at_least=True), bare_object),
        ],
        [f"an event of metadata has {len(lines[METADATA][0]):,} bytes, the other {len(lines[JOBSETS][0]):,}"],
    )


async def _object() -> Json:
    """A JobSet as a server sends it."""
    server = ApiServer(system_env(), crds=assets.crds())
    client = Client(server.transport(), system_env(), field_manager="benchmarks")
    await client.apply(UNTYPED, job_set("some", variables=VARIABLES))
    obj: Json = await client.get(UNTYPED, "some", "default")
    return obj


def _lines(obj: Json, count: int) -> list[bytes]:
    lines = []
    for number in range(count):
        metadata = {**obj["metadata"], "name": f"job-{number % NAMES:04}", "resourceVersion": str(number + 2)}
        kind = "ADDED" if number < NAMES else "MODIFIED"
        lines.append(msgspec.json.encode({"type": kind, "object": {**obj, "metadata": metadata}}))
    return lines


async def _store(resource: Resource[T], lines: Sequence[bytes]) -> float:
    """CPU seconds from the first event to the last."""
    client = Client(Recording([msgspec.json.encode(_BOOKMARK), *lines]), system_env(), field_manager="benchmarks")
    cache = Cache(client, system_env())
    informer = cache.informer(resource)
    informer.add_index("namespace", lambda obj: [obj.metadata.namespace])
    arrived = Arrived(str(len(lines) + 1))
    informer.add_handler(arrived)
    async with anyio.create_task_group() as group:
        started = time.process_time()
        await group.start(cache.run)
        with anyio.fail_after(PATIENCE_S):
            await arrived.event.wait()
        used = time.process_time() - started
        group.cancel_scope.cancel()
    return used
