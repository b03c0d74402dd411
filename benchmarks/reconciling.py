"""
A controller without an API server: what the framework itself costs per reconcile, and how long keys wait.

The reconcile function does nothing, metrics are on, the log level is the default. The baseline is what everybody would
write without a framework: an `asyncio.Queue` and a worker.
"""

from __future__ import annotations

import asyncio
import gc
import time
from functools import partial
from statistics import quantiles
from typing import TYPE_CHECKING, Final

import anyio
from prometheus_client import CollectorRegistry

from ktrain.api.meta import Key
from ktrain.framework import Cache, Client, Controller, Metrics, system_env

from .figures import Figure, Goal, Outcome
from .processes import PATIENCE_S, in_turns
from .watching import Recording

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from anyio.abc import TaskGroup

WORKERS: Final = 4
LOAD: Final = 0.2
RATE_PER_S: Final = 20_000
"""The rate that is asked for; the load is a part of it."""
TICK_S: Final = 0.005
"""Keys arrive in groups this far apart, as the events of one read of a socket do."""


def reconcile_noop(*, smoke: bool) -> Outcome:
    """Reconciles that do nothing: how many per second of CPU, and how long keys wait at a fifth of the load."""
    count, seconds, runs = (200, 0.1, 1) if smoke else (20_000, 3.0, 5)
    keys = [Key("default", f"job-{number:05}") for number in range(count)]
    bare, plain, measured = in_turns(
        runs,
        lambda: count / anyio.run(partial(_through_queue, keys)),
        lambda: count / anyio.run(partial(_through_controller, keys, Metrics())),
        lambda: count / anyio.run(partial(_through_controller, keys, Metrics(CollectorRegistry()))),
    )
    waits = in_turns(
        runs,
        lambda: _p99_ms(anyio.run(partial(_waits_in_queue, keys, seconds))),
        lambda: _p99_ms(anyio.run(partial(_waits_in_controller, keys, seconds))),
    )
    queue = Figure("asyncio.Queue", "/s", bare)
    queue_wait = Figure("asyncio.Queue", "ms", waits[0])
    return Outcome(
        [
            queue,
            Figure("reconciles, without metrics", "/s", plain, None, queue),
            Figure("reconciles", "/s", measured, Goal(RATE_PER_S, at_least=True), queue),
            Figure(f"p99 of the wait at {LOAD * RATE_PER_S:,.0f} /s", "ms", waits[1], Goal(2), queue_wait),
        ]
    )


def _p99_ms(waits_s: Sequence[float]) -> float:
    return quantiles(waits_s, n=100)[98] * 1e3


def _controller(reconcile: Callable[[Key], Awaitable[None]], metrics: Metrics) -> Controller:
    cache = Cache(Client(Recording([]), system_env(), field_manager="benchmarks"), system_env())
    return Controller(
        "noop",
        reconcile,
        env=system_env(),
        cache=cache,
        max_concurrent_reconciles=WORKERS,
        metrics=metrics,
    )


class Countdown:
    """A reconcile function that does nothing but count."""

    def __init__(self, count: int) -> None:
        self._left = count
        self.over = asyncio.Event()

    async def reconcile(self, key: Key) -> None:
        self._left -= 1
        if not self._left:
            self.over.set()


async def _through_controller(keys: Sequence[Key], metrics: Metrics) -> float:
    """CPU seconds."""
    countdown = Countdown(len(keys))
    controller = _controller(countdown.reconcile, metrics)
    async with anyio.create_task_group() as group:
        await group.start(controller.run)
        gc.collect()
        started = time.process_time()
        for key in keys:
            controller.enqueue(key)
        await countdown.over.wait()
        used = time.process_time() - started
        controller.shut_down()
    return used


async def _through_queue(keys: Sequence[Key]) -> float:
    """CPU seconds."""
    countdown = Countdown(len(keys))
    async with anyio.create_task_group() as group:
        queue = _start_queue(group, countdown.reconcile)
        await asyncio.sleep(0)
        gc.collect()
        started = time.process_time()
        for key in keys:
            queue.put_nowait(key)
        await countdown.over.wait()
        used = time.process_time() - started
        group.cancel_scope.cancel()
    return used


def _start_queue(group: TaskGroup, reconcile: Callable[[Key], Awaitable[None]]) -> asyncio.Queue[Key]:
    queue: asyncio.Queue[Key] = asyncio.Queue()

    async def work() -> None:
        while True:
            await reconcile(await queue.get())

    for _ in range(WORKERS):
        group.start_soon(work)
    return queue


class Waits:
    """A reconcile function that notes how long its key waited."""

    def __init__(self, seconds: float) -> None:
        self.sent: dict[Key, float] = {}
        self.waits_s: list[float] = []
        self._expected = int(LOAD * RATE_PER_S * TICK_S) * int(seconds / TICK_S)
        self._over = asyncio.Event()

    async def reconcile(self, key: Key) -> None:
        self.waits_s.append(time.perf_counter() - self.sent[key])
        if len(self.waits_s) == self._expected:
            self._over.set()

    async def feed(self, put: Callable[[Key], None], keys: Sequence[Key]) -> None:
        """Put keys at an even rate, as groups; the next is not put off by a late one."""
        group = int(LOAD * RATE_PER_S * TICK_S)
        started = time.perf_counter()
        for number in range(self._expected):
            if number % group == 0:
                due = started + number / group * TICK_S
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
            key = keys[number % len(keys)]
            self.sent[key] = time.perf_counter()
            put(key)
        with anyio.fail_after(PATIENCE_S):
            await self._over.wait()


async def _waits_in_controller(keys: Sequence[Key], seconds: float) -> list[float]:
    waits = Waits(seconds)
    controller = _controller(waits.reconcile, Metrics(CollectorRegistry()))
    async with anyio.create_task_group() as group:
        await group.start(controller.run)
        await waits.feed(controller.enqueue, keys)
        controller.shut_down()
    return waits.waits_s


async def _waits_in_queue(keys: Sequence[Key], seconds: float) -> list[float]:
    waits = Waits(seconds)
    async with anyio.create_task_group() as group:
        queue = _start_queue(group, waits.reconcile)
        await waits.feed(queue.put_nowait, keys)
        group.cancel_scope.cancel()
    return waits.waits_s
