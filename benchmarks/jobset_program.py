"""
The JobSet controller as `ktrain operator` runs it, and nothing else: `python -m benchmarks.jobset_program KUBECONFIG`.

Prints `ready` when it works, and at SIGTERM how often it called the API server: `calls {"GET": 8, ...}`. With a second
word it is profiled, into the file of that name.
"""

from __future__ import annotations

import cProfile
import gc
import json
import signal
import sys
from collections import Counter
from contextlib import aclosing
from typing import TYPE_CHECKING

import anyio
from prometheus_client import CollectorRegistry

from ktrain.controllers import jobset
from ktrain.framework import Cache, Client, EventRecorder, Manager, Metrics, connect, system_env
from ktrain.framework.telemetry.logging import configure

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractAsyncContextManager

    from ktrain.framework.client.transport import Query, Response, Stream, Transport


class Counting:
    """A transport that counts calls by method; a list that fills a cache, and a watch, are none."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.calls: Counter[str] = Counter()

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
        self.calls[method] += 1
        return await self._inner.request(method, path, query=query, headers=headers, body=body, timeout_s=timeout_s)

    def stream(
        self, path: str, *, query: Query = (), headers: Mapping[str, str] | None = None, idle_timeout_s: float = 75.0
    ) -> AbstractAsyncContextManager[Stream]:
        return self._inner.stream(path, query=query, headers=headers, idle_timeout_s=idle_timeout_s)

    async def aclose(self) -> None:
        await self._inner.aclose()


async def control(kubeconfig: str) -> None:
    """Run until SIGTERM."""
    env, metrics = system_env(), Metrics(CollectorRegistry())
    async with aclosing(await connect(kubeconfig)) as inner:
        transport = Counting(inner)
        client = Client(transport, env, field_manager=jobset.FIELD_MANAGER, metrics=metrics)
        cache = Cache(client, env, metrics=metrics)
        recorder = EventRecorder(client, env, component=jobset.COMPONENT, metrics=metrics, by_version=True)
        controllers = jobset.make_controllers(
            client, cache, env, recorder, patience_s=jobset.PATIENCE_S, metrics=metrics
        )
        manager = Manager(cache=cache, controllers=controllers, recorder=recorder)
        with anyio.open_signal_receiver(signal.SIGTERM) as signals:
            async with anyio.create_task_group() as group:
                await group.start(manager.run)
                gc.collect()
                gc.freeze()
                transport.calls.clear()
                print("ready", flush=True)
                async for _ in signals:
                    break
                group.cancel_scope.cancel()
        print(f"calls {json.dumps(transport.calls)}", flush=True)


def main() -> None:
    """Run it, profiled if asked for."""
    kubeconfig, *profile = sys.argv[1:]
    configure(level="error")
    if profile:
        with cProfile.Profile() as profiler:
            anyio.run(control, kubeconfig)
        profiler.dump_stats(profile[0])
    else:
        anyio.run(control, kubeconfig)


if __name__ == "__main__":
    main()
