"""
A burst of keys, each of which writes one object: what a controller adds to the writes themselves.

The subject is a controller with 16 workers whose reconcile function applies a ConfigMap, with the informer of the
ConfigMaps that it writes, as read-your-own-writes needs it. The baseline is the same client with the same 16 calls in
progress and nothing else. Server and benchmark are two processes; both ways use the same connection settings.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Burst:
    """Until the last apply was answered: seconds by the clock, and of this process's CPU."""

    wall_s: float
    cpu_s: float


def applies(*, smoke: bool) -> Outcome:
    """1,000 keys with one apply each through a controller, against a client that fires the same applies."""
    keys, runs = (10, 1) if smoke else (1_000, 21)
    figures: list[Figure] = []
    for name, server in servers(smoke=smoke).items():
        with server() as kubeconfig:
            figures += _figures(name, keys, _bursts(kubeconfig, keys, runs))
    return Outcome(figures, notes(smoke=smoke))


def _bursts(kubeconfig: str, keys: int, runs: int) -> dict[str, list[Burst]]:
    numbers = count()
    found: dict[str, list[Burst]] = {"bare": [], "alone": [], "watching": []}

    def burst(mode: str) -> float:
        found[mode].append(anyio.run(_burst, mode, kubeconfig, _config_maps(next(numbers), keys)))
        return found[mode][-1].wall_s

    burst("bare")
    found["bare"].clear()  # it warmed the server up
    in_turns(runs, *(partial(burst, mode) for mode in found))
    return found


def _figures(name: str, keys: int, found: dict[str, list[Burst]]) -> list[Figure]:
    walls = {mode: [one.wall_s for one in bursts] for mode, bursts in found.items()}
    cpus = {mode: [one.cpu_s / keys * 1e3 for one in bursts] for mode, bursts in found.items()}
    # In pairs that ran one after the other: minutes differ more on a shared machine than what is compared here.
    pairs = [ours / theirs for ours, theirs in zip(walls["watching"], walls["bare"], strict=True)]
    wall, cpu = Figure("the applies alone", "s", walls["bare"]), Figure("the applies alone", "ms/apply", cpus["bare"])
    return [
        Figure(f"{name}: {keys:,} applies by a client", "s", walls["bare"]),
        Figure(f"{name}: by a controller that does not watch them", "s", walls["alone"], None, wall),
        Figure(f"{name}: by a controller that watches them", "s", walls["watching"], None, wall),
        Figure(f"{name}: the controller's time, to the client's", "ratio", pairs, Goal(1.15)),
        Figure(f"{name}: CPU of the controller's process", "ms/apply", cpus["watching"], None, cpu),
    ]


async def _burst(mode: str, kubeconfig: str, bodies: Sequence[Json]) -> Burst:
    async with client_of(kubeconfig) as client:
        await client.raw("GET", "/version")
        if mode == "bare":
            wall, cpu = time.perf_counter(), time.process_time()
            await run_all([partial(client.apply, CONFIG_MAPS, body) for body in bodies], limit=CONCURRENCY)
            return Burst(time.perf_counter() - wall, time.process_time() - cpu)
        return await _by_controller(client, bodies, watching=mode == "watching")


async def _by_controller(client: Client, bodies: Sequence[Json], *, watching: bool) -> Burst:
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
        controller.watches(
            cache.informer(CONFIG_MAPS, label_selector=f"{LABEL}={bodies[0]['metadata']['labels'][LABEL]}")
        )
    async with anyio.create_task_group() as group:
        await group.start(cache.run)
        await group.start(controller.run)
        wall, cpu = time.perf_counter(), time.process_time()
        for key in wanted:
            controller.enqueue(key)
        with anyio.fail_after(PATIENCE_S):
            await done.wait()
        took = Burst(time.perf_counter() - wall, time.process_time() - cpu)
        controller.shut_down()
        group.cancel_scope.cancel()
    return took


def _config_maps(burst: int, count: int) -> list[Json]:
    """Objects of one burst, with a label that no other burst's have."""
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": f"burst-{burst}-{number:05}",
                "namespace": NAMESPACE,
                "labels": {LABEL: str(burst)},
            },
            "data": {"number": str(number)},
        }
        for number in range(count)
    ]
