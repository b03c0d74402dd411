"""
A process that reads many objects and keeps them: `python -m benchmarks.sync_program MODE KUBECONFIG [SELECTOR]`.

MODE is `typed` or `metadata`, an informer of TrainJobs with two indexes, or `bare`: aiohttp reads pages, the standard
library's json decodes them, a dict keeps them. Prints one line of JSON (see `Sync`), then sleeps until SIGTERM.
"""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import os
import ssl
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import aiohttp
import anyio
import yaml

from ktrain.api.meta import Object, Resource
from ktrain.api.trainer import TRAIN_JOBS
from ktrain.framework import Cache, Client, connect, system_env
from ktrain.framework.telemetry.logging import configure

from .processes import PATIENCE_S, resident_mb

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from ktrain.api.meta import Json

T = TypeVar("T", bound=Object)

METADATA: Final = Resource(TRAIN_JOBS.group, TRAIN_JOBS.version, "TrainJob", "trainjobs", namespaced=True, type=Object)
TICK_S: Final = 0.001


@dataclass(slots=True)
class Sync:
    """
    What the first content cost.

    `stall_ms` is the longest that the event loop was not free, by this process's CPU time, which others on the machine
    cannot lengthen; `stall_wall_ms` is the same by the wall clock.
    """

    objects: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    before_mb: float = 0.0
    peak_mb: float = 0.0
    steady_mb: float = 0.0
    stall_ms: float = 0.0
    stall_wall_ms: float = 0.0


def queue_of(obj: Object) -> Iterable[str]:
    """First index."""
    queue = obj.metadata.labels.get("queue")
    return [queue] if queue else []


def namespace_of(obj: Object) -> Iterable[str]:
    """Second index."""
    return [obj.metadata.namespace]


async def synced(resource: Resource[T], kubeconfig: str, selector: str) -> None:
    """Fill an informer, tell what it took, stay."""
    transport = await connect(kubeconfig)
    client = Client(transport, system_env(), field_manager="benchmarks")
    # The connection and what it imports are no cost of the objects.
    await client.raw("GET", "/version")
    cache = Cache(client, system_env())
    informer = cache.informer(resource, label_selector=selector)
    informer.add_index("queue", queue_of)
    informer.add_index("namespace", namespace_of)
    async with anyio.create_task_group() as group:

        async def fill() -> int:
            await group.start(cache.run)
            await cache.wait_for_sync(PATIENCE_S)
            return len(informer)

        await _measured(fill)
        await anyio.sleep_forever()


async def bare(kubeconfig: str, selector: str) -> None:
    """The same without a framework."""
    config = _read(kubeconfig)
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    context = ssl.create_default_context(
        cafile=cluster.get("certificate-authority"), cadata=_pem(cluster.get("certificate-authority-data"))
    )
    headers = {"Authorization": f"Bearer {user['token']}"}
    async with aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(ssl=context)) as session:
        objects = {}

        async def fill() -> int:
            query = {"limit": "500", "labelSelector": selector}
            while True:
                async with session.get(cluster["server"] + TRAIN_JOBS.path(), params=query) as answer:
                    page = json.loads(await answer.read())
                for item in page["items"]:
                    objects[item["metadata"]["namespace"], item["metadata"]["name"]] = item
                if not page["metadata"].get("continue"):
                    return len(objects)
                query["continue"] = page["metadata"]["continue"]

        await _measured(fill)
        await anyio.sleep_forever()


def _read(kubeconfig: str) -> Json:
    config: Json = yaml.safe_load(Path(kubeconfig).read_text())
    return config


def _pem(encoded: str | None) -> str | None:
    return base64.b64decode(encoded).decode() if encoded else None


async def _measured(fill: Callable[[], Coroutine[None, None, int]]) -> None:
    gc.collect()
    # As `ktrain operator` does: what starting loaded is not looked through again.
    gc.freeze()
    found = Sync(before_mb=resident_mb(os.getpid()))
    _forget_peak()
    ticker = asyncio.create_task(_tick(found), name="tick")
    started, cpu = time.perf_counter(), time.process_time()
    found.objects = await fill()
    found.wall_s, found.cpu_s = time.perf_counter() - started, time.process_time() - cpu
    await asyncio.sleep(2 * TICK_S)
    ticker.cancel()
    found.peak_mb = _peak_mb()
    gc.collect()
    await asyncio.sleep(0.5)
    found.steady_mb = resident_mb(os.getpid())
    print(json.dumps(asdict(found)), flush=True)


async def _tick(found: Sync) -> None:
    """Note the longest time between two turns of the loop."""
    while True:
        wall, cpu = time.perf_counter(), time.thread_time()
        await asyncio.sleep(TICK_S)
        found.stall_wall_ms = max(found.stall_wall_ms, (time.perf_counter() - wall - TICK_S) * 1e3)
        found.stall_ms = max(found.stall_ms, (time.thread_time() - cpu) * 1e3)


def _forget_peak() -> None:
    with suppress(OSError):  # where the kernel does not let it, the peak is that of the whole life
        Path("/proc/self/clear_refs").write_text("5")


def _peak_mb() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024 / 1e6


def main() -> None:
    """Run one mode."""
    mode, kubeconfig, *rest = sys.argv[1:]
    selector = rest[0] if rest else ""
    configure(level="error")
    if mode == "bare":
        anyio.run(bare, kubeconfig, selector)
    elif mode == "metadata":
        anyio.run(synced, METADATA, kubeconfig, selector)
    else:
        anyio.run(synced, TRAIN_JOBS, kubeconfig, selector)


if __name__ == "__main__":
    main()
