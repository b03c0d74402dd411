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

import anyio
from prometheus_client import CollectorRegistry

from ktrain.controllers import jobset
from ktrain.framework import Cache, Client, EventRecorder, Manager, Metrics, connect, system_env
from ktrain.framework.telemetry.logging import configure

from .telling import WATCH, Telling


async def control(kubeconfig: str) -> None:
    """Run until SIGTERM."""
    env, metrics = system_env(), Metrics(CollectorRegistry())
    calls: Counter[str] = Counter()

    def count(method: str, _path: str) -> None:
        if method != WATCH:  # one for each kind, however many JobSets there are
            calls[method] += 1

    async with aclosing(Telling(await connect(kubeconfig), count)) as transport:
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
                calls.clear()  # of the lists that filled the cache
                print("ready", flush=True)
                async for _ in signals:
                    break
                group.cancel_scope.cancel()
        print(f"calls {json.dumps(calls)}", flush=True)


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
