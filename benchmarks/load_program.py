"""
Load on one API server: `python -m benchmarks.load_program KUBECONFIG SCENARIO KIND CLIENTS COUNT` prints JSON.

Each client has a connection of its own and one request in progress. `rate` counts requests per second, of `watch` the
events that all clients together saw.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import sys
import time
from typing import TYPE_CHECKING

import msgspec

from .objects import NAMESPACE, job_set
from .raw_client import Connection, Target

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ktrain.api.meta import Json

PATHS = {
    "configmap": f"/api/v1/namespaces/{NAMESPACE}/configmaps",
    "pod": f"/api/v1/namespaces/{NAMESPACE}/pods",
    "jobset": f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{NAMESPACE}/jobsets",
}
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
NAMES = 100
"""Objects that changes go to."""
LISTED = "kube-public"
"""A namespace for `fill` and `list`."""
MODIFIED = b'{"type":"MODIFIED"'
"""How an event of a change begins."""
WRITERS = 4
"""Who write while the clients watch."""
STANDSTILL_S = 3.0


def body_of(kind: str, name: str, value: str, run: str = "") -> Json:
    """An object of about a kilobyte."""
    if kind == "jobset":
        document = job_set(name, variables=5)
    elif kind == "pod":
        env = [{"name": f"VARIABLE_{number:03}", "value": f"value of number {number}"} for number in range(8)]
        container = {"name": "c", "image": "python:3.13-slim", "command": ["true"], "env": env}
        spec = {"automountServiceAccountToken": False, "containers": [container]}
        document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}
    else:
        data = {f"key-{number}": f"a value of some length, number {number}" for number in range(16)}
        document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": NAMESPACE}}
        document["data"] = data
    document["metadata"]["labels"] = {"value": value, "run": run}
    return document


class Load:
    """The scenarios, on one server and of one kind of object."""

    def __init__(self, target: Target, connections: Sequence[Connection], kind: str, count: int) -> None:
        self._target = target
        self._connections = connections
        self._kind = kind
        self._count = count
        self._run = str(time.time_ns())
        self._url = PATHS[kind]

    async def create(self) -> Json:
        return await self._measure([self._post(f"c-{self._run}-{number}", "0") for number in range(self._count)])

    async def apply_new(self) -> Json:
        return await self._measure([self._apply(f"a-{self._run}-{number}", "0") for number in range(self._count)])

    async def apply_changed(self) -> Json:
        names = await self._prepare()
        return await self._measure([self._apply(names[number % NAMES], str(number)) for number in range(self._count)])

    async def merge(self) -> Json:
        names = await self._prepare()
        return await self._measure([self._merge(names[number % NAMES], number) for number in range(self._count)])

    async def get(self) -> Json:
        names = await self._prepare()
        requests = [self._target.request("GET", f"{self._url}/{names[number % NAMES]}") for number in range(NAMES)]
        return await self._measure([requests[number % NAMES] for number in range(self._count)])

    async def fill(self) -> Json:
        """Objects for `list`."""
        self._url = self._url.replace(NAMESPACE, LISTED)
        return await self._measure([self._post(f"listed-{number}", "listed") for number in range(self._count)])

    async def list(self) -> Json:
        url = self._url.replace(NAMESPACE, LISTED)
        return await self._measure([self._target.request("GET", url)] * self._count)

    async def watch(self) -> Json:
        """Changes by few writers, each seen by every client."""
        names = await self._prepare()
        writers = [await Connection.to(self._target) for _ in range(WRITERS)]
        seen = [0] * len(self._connections)
        done = asyncio.Event()

        def counting(index: int) -> Callable[[bytes], None]:
            rest = b""

            def take(data: bytes) -> None:
                nonlocal rest
                data = rest + data  # the beginning of an event may come in two pieces
                rest = data[1 - len(MODIFIED) :]
                seen[index] += data.count(MODIFIED)
                if min(seen) >= self._count:
                    done.set()

            return take

        request = self._target.request("GET", f"{self._url}?watch=1&labelSelector=run%3D{self._run}")
        for index, connection in enumerate(self._connections):
            connection.follow(request, counting(index))
        await asyncio.sleep(1.0)
        changes = [self._merge(names[number % NAMES], number) for number in range(self._count)]
        started = time.perf_counter()
        found = await self._measure(changes, writers)
        rate = await self._rate(seen, done, started)
        for writer in writers:
            writer.close()
        return {**found, "rate": rate, "writes": found["rate"]}

    async def _rate(self, seen: Sequence[int], done: asyncio.Event, started: float) -> float:
        """Events per second, until all are seen; or until no more come: a server may cut off who reads too slowly."""
        before, last = -1, started
        while not done.is_set() and (total := sum(seen)) > before:
            before, last = total, time.perf_counter()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(done.wait(), STANDSTILL_S)
        return sum(seen) / ((time.perf_counter() if done.is_set() else last) - started)

    async def _prepare(self) -> Sequence[str]:
        names = [f"n-{self._run}-{number}" for number in range(NAMES)]
        await self._measure([self._apply(name, "first") for name in names])
        return names

    async def _measure(self, requests: Sequence[bytes], connections: Sequence[Connection] = ()) -> Json:
        latencies: list[float] = []
        waiting = iter(requests)

        async def client(connection: Connection) -> None:
            for request in waiting:
                started = time.perf_counter()
                await connection.call(request)
                latencies.append(time.perf_counter() - started)

        started = time.perf_counter()
        await asyncio.gather(*map(client, connections or self._connections))
        rate = len(requests) / (time.perf_counter() - started)
        latencies.sort()
        middle, end = latencies[len(latencies) // 2], latencies[len(latencies) * 99 // 100]
        return {"rate": rate, "p50_ms": middle * 1e3, "p99_ms": end * 1e3}

    def _post(self, name: str, value: str) -> bytes:
        return self._target.request("POST", self._url, self._body(name, value))

    def _apply(self, name: str, value: str) -> bytes:
        path = f"{self._url}/{name}?fieldManager=load&force=true"
        return self._target.request("PATCH", path, self._body(name, value), APPLY)

    def _merge(self, name: str, number: int) -> bytes:
        body = msgspec.json.encode({"metadata": {"labels": {"value": str(number)}}})
        return self._target.request("PATCH", f"{self._url}/{name}", body, MERGE)

    def _body(self, name: str, value: str) -> bytes:
        document = body_of(self._kind, name, value, self._run)
        del document["metadata"]["namespace"]
        return msgspec.json.encode(document)


async def main(kubeconfig: str, scenario: str, kind: str, clients: int, count: int) -> Json:
    """Run one scenario."""
    target = Target.of(kubeconfig)
    connections = [await Connection.to(target) for _ in range(clients)]
    load = Load(target, connections, kind, count)
    scenarios: dict[str, Callable[[], Awaitable[Json]]] = {
        "create": load.create,
        "apply_new": load.apply_new,
        "apply_changed": load.apply_changed,
        "merge": load.merge,
        "get": load.get,
        "fill": load.fill,
        "list": load.list,
        "watch": load.watch,
    }
    gc.disable()
    try:
        used = time.process_time()
        found = await scenarios[scenario]()
        return {**found, "client_cpu_s": time.process_time() - used}
    finally:
        for connection in connections:
            connection.close()


if __name__ == "__main__":
    file, scenario, kind, clients, count = sys.argv[1:]
    print(json.dumps(asyncio.run(main(file, scenario, kind, int(clients), int(count)))))
