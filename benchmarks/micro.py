"""Parts that run often: decoding of watch events, and the embedded API server in process."""

from __future__ import annotations

import json
import time
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
import msgspec

from ktrain.api import assets
from ktrain.api.jobset import JOBSETS
from ktrain.api.meta import Key, Object, Resource
from ktrain.framework import Client, system_env
from ktrain.framework.client.codec import codec_for
from ktrain.local.apiserver.server import ApiServer

from .figures import Figure, Goal, Outcome
from .objects import NAMESPACE, job_set
from .processes import in_turns

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ktrain.api.meta import Json

METADATA: Final = Resource(JOBSETS.group, JOBSETS.version, "JobSet", "jobsets", namespaced=True, type=Object)
UNTYPED: Final = Resource(JOBSETS.group, JOBSETS.version, "JobSet", "jobsets", namespaced=True, type=dict)
VARIABLES: Final = 90
"""They make a body of 6 KB."""


def watch_decode(*, smoke: bool) -> Outcome:
    """Events per second of CPU, by how much of the object is read; the standard library's json beside them."""
    line = anyio.run(_watch_line)
    count = 50 if smoke else 5000

    def per_second(decode: Callable[[bytes], object]) -> Callable[[], float]:
        def once() -> float:
            started = time.process_time()
            for _ in range(count):
                decode(line)
            return count / (time.process_time() - started)

        return once

    found = in_turns(
        1 if smoke else 5,
        per_second(json.loads),
        per_second(codec_for(METADATA).decode_event),
        per_second(codec_for(JOBSETS).decode_event),
    )
    baseline = Figure("json.loads", "events/s", found[0])
    return Outcome(
        [
            baseline,
            Figure("metadata only", "events/s", found[1], Goal(50_000, at_least=True), baseline),
            Figure("as the JobSet controller reads it", "events/s", found[2], None, baseline),
        ],
        [f"one event: a JobSet with managedFields, {len(line):,} bytes"],
    )


async def _watch_line() -> bytes:
    """An event as a server sends it."""
    client = _client()
    await client.apply(UNTYPED, job_set("big", variables=VARIABLES))
    obj = await client.get(UNTYPED, "big", NAMESPACE)
    return msgspec.json.encode({"type": "MODIFIED", "object": obj})


def apiserver(*, smoke: bool) -> Outcome:
    """Calls per second of one client in the server's process; decoding and encoding the object once beside them."""
    count, runs = (5, 1) if smoke else (200, 5)
    rates: dict[str, list[float]] = {}
    for _ in range(runs):
        for name, rate in anyio.run(partial(_rates, count)).items():
            rates.setdefault(name, []).append(rate)
    size = len(msgspec.json.encode(job_set("big", variables=VARIABLES)))
    baseline = Figure("json.loads + json.dumps", "calls/s", rates.pop(_BASELINE))
    figures = [Figure(name, "calls/s", values, None, baseline) for name, values in rates.items()]
    return Outcome([baseline, *figures], [f"the object: a JobSet of {size:,} bytes, checked against its CRD"])


_BASELINE: Final = "baseline"


async def _rates(count: int) -> dict[str, float]:
    client = _client()
    body = job_set("big", variables=VARIABLES)
    text = json.dumps(body)
    await client.create(METADATA, _named(body, "warm-up"))

    async def baseline(_number: int) -> None:
        json.dumps(json.loads(text))

    async def create(number: int) -> None:
        await client.create(METADATA, _named(body, f"created-{number}"))

    async def apply(number: int) -> None:
        await client.apply(METADATA, _named(body, f"applied-{number}"))

    async def apply_same(number: int) -> None:
        await client.apply(METADATA, _named(body, f"applied-{number}"))

    async def patch_status(number: int) -> None:
        status = {"replicatedJobsStatus": [{"name": "node", **dict.fromkeys(_COUNTERS, number % 3)}]}
        await client.patch(METADATA, Key(NAMESPACE, f"created-{number}"), {"status": status}, subresource="status")

    async def get(number: int) -> None:
        await client.get(METADATA, f"created-{number}", NAMESPACE)

    async def list_all(_number: int) -> None:
        await client.list(METADATA, NAMESPACE)

    calls: dict[str, Callable[[int], Awaitable[None]]] = {
        _BASELINE: baseline,
        "create": create,
        "apply, new": apply,
        "apply, unchanged": apply_same,
        "patch of the status": patch_status,
        "get": get,
    }
    rates = {name: await _rate(call, count) for name, call in calls.items()}
    rates[f"list of {2 * count + 1}"] = await _rate(list_all, max(1, count // 20))
    return rates


_COUNTERS: Final = ("ready", "succeeded", "failed", "active", "suspended")


async def _rate(call: Callable[[int], Awaitable[None]], count: int) -> float:
    started = time.perf_counter()
    for number in range(count):
        await call(number)
    return count / (time.perf_counter() - started)


def _client() -> Client:
    server = ApiServer(system_env(), crds=assets.crds())
    return Client(server.transport(), system_env(), field_manager="benchmarks")


def _named(body: Json, name: str) -> Json:
    return {**body, "metadata": {**body["metadata"], "name": name}}
