"""
A burst of keys, each of which writes one object: what a controller adds to the writes themselves.

The subject is a controller with 16 workers whose reconcile function applies a ConfigMap, with the informer of the
ConfigMaps that it writes, as read-your-own-writes needs it. The baseline is the same client with the same 16 calls in
progress and nothing else. Server and benchmark are two processes; both ways use the same connection settings.
"""

from __future__ import annotations

import time
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final

import anyio
from prometheus_client import CollectorRegistry

from ktrain.api.core import CONFIG_MAPS
from ktrain.api.meta import Key
from ktrain.framework import Cache, Client, Controller, Metrics, system_env
from ktrain.framework.parallel import run_all

from .figures import Figure, Goal, Outcome
from .objects import NAMESPACE
from .processes import PATIENCE_S, in_turns
from .servers import client_of, notes, servers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.meta import Json

CONCURRENCY: Final = 16
LABEL: Final = "benchmark"


def applies(*, smoke: bool) -> Outcome:
    """1,000 keys with one apply each through a controller, against a client that fires the same applies."""
    keys, runs = (10, 1) if smoke else (1_000, 5)
    figures = []
    for name, server in servers(smoke=smoke).items():
        with server() as kubeconfig:
            numbers = count()

            def burst(mode: str, kubeconfig: str = kubeconfig, numbers: count[int] = numbers) -> float:
                return anyio.run(_burst, mode, kubeconfig, [_config_map(next(numbers)) for _ in range(keys)])

            burst("bare")
            bare, alone, watching = in_turns(
                runs, partial(burst, "bare"), partial(burst, "alone"), partial(burst, "watching")
            )
        baseline = Figure("the applies alone", "s", bare)
        figures += [
            Figure(f"{name}: {keys:,} applies by a client", "s", bare),
            Figure(f"{name}: by a controller that does not watch them", "s", alone, None, baseline),
            Figure(f"{name}: by a controller that watches them", "s", watching, None, baseline),
            Figure(
                f"{name}: the controller's time, in that of the client",
                "",
                [ours / theirs for ours, theirs in zip(watching, bare, strict=True)],
                Goal(1.15),
            ),
        ]
    return Outcome(figures, notes(smoke=smoke))


async def _burst(mode: str, kubeconfig: str, bodies: Sequence[Json]) -> float:
    async with client_of(kubeconfig) as client:
        await client.raw("GET", "/version")
        if mode == "bare":
            started = time.perf_counter()
            await run_all([partial(client.apply, CONFIG_MAPS, body) for body in bodies], limit=CONCURRENCY)
            return time.perf_counter() - started
        return await _by_controller(client, bodies, watching=mode == "watching")


async def _by_controller(client: Client, bodies: Sequence[Json], *, watching: bool) -> float:
    """Seconds until the last apply was answered."""
    env = system_env()
    cache = Cache(client, env)
    wanted = {Key(NAMESPACE, body["metadata"]["name"]): body for body in bodies}
    left = set(wanted)
    done = anyio.Event()

    async def reconcile(key: Key) -> None:
        # A second pass, by the event of the first one's write, finds what it wants and writes nothing.
        if key in left:
            await client.apply(CONFIG_MAPS, wanted[key])
            left.discard(key)
            if not left:
                done.set()

    metrics = Metrics(CollectorRegistry())
    controller = Controller(
        "burst", reconcile, env=env, cache=cache, max_concurrent_reconciles=CONCURRENCY, metrics=metrics
    )
    if watching:
        controller.watches(cache.informer(CONFIG_MAPS, label_selector=f"{LABEL}=yes"))
    async with anyio.create_task_group() as group:
        await group.start(cache.run)
        await group.start(controller.run)
        started = time.perf_counter()
        for key in wanted:
            controller.enqueue(key)
        with anyio.fail_after(PATIENCE_S):
            await done.wait()
        seconds = time.perf_counter() - started
        controller.shut_down()
        group.cancel_scope.cancel()
    return seconds


def _config_map(number: int) -> Json:
    metadata = {"name": f"burst-{number:05}", "namespace": NAMESPACE, "labels": {LABEL: "yes"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"number": str(number)}}
