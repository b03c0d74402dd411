"""
A manager with nothing to do, and two of them of which the leader ends.

Each manager is a process (`manager_program`): an election with the default times, five informers, a controller with a
hundred objects. Idle is measured against a process that renews a lease and does nothing else. A hand-over counts from
the signal to the standby's first reconcile; the lease duration, which nobody may be faster than after a crash, stands
beside it.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from ktrain.api.core import CONFIG_MAPS
from ktrain.framework.parallel import run_all

from .figures import Figure, Goal, Outcome
from .objects import NAMESPACE
from .processes import PATIENCE_S, cpu_ms, started_program
from .servers import client_of, notes, servers

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from ktrain.api.meta import Json

OBJECTS: Final = 100
DEFAULT_TIMES: Final = (15.0, 10.0, 2.0)
SETTLE_S: Final = 3.0


def idle(*, smoke: bool) -> Outcome:
    """A manager that leads and has nothing to do: its calls other than renewals, and its CPU."""
    seconds, runs = (0.5, 1) if smoke else (20.0, 3)
    figures: list[Figure] = []
    for name, server in servers(smoke=smoke).items():
        calls: list[float] = []
        percent: list[float] = []
        bare: list[float] = []
        for _ in range(runs):
            with server() as kubeconfig, ExitStack() as stack:
                anyio.run(_create_objects, kubeconfig)
                manager = stack.enter_context(started_program(_command(kubeconfig), Path.cwd()))
                renewing = stack.enter_context(started_program(_command(kubeconfig, "bare"), Path.cwd()))
                for process in (manager, renewing):
                    _wait_for("leading", process)
                time.sleep(min(SETTLE_S, seconds))
                before, used, used_bare = time.monotonic(), cpu_ms(manager.pid), cpu_ms(renewing.pid)
                time.sleep(seconds)
                percent.append((cpu_ms(manager.pid) - used) / seconds / 10)
                bare.append((cpu_ms(renewing.pid) - used_bare) / seconds / 10)
                after = time.monotonic()
                manager.terminate()
                calls.append(sum(before < at < after and "/leases/" not in what for at, what in _lines(manager)))
        baseline = Figure("renewing alone", "% of a core", bare)
        figures += [
            Figure(f"{name}: calls in {seconds:g} s but renewals", "", calls, Goal(0)),
            Figure(f"{name}: CPU", "% of a core", percent, Goal(0.2), baseline),
        ]
    return Outcome(figures, notes(smoke=smoke))


def failover(*, smoke: bool) -> Outcome:
    """From the end of the leader to the first reconcile of the standby: SIGTERM, and SIGKILL."""
    times, runs = ((2.0, 1.5, 0.5), 1) if smoke else (DEFAULT_TIMES, 3)
    figures: list[Figure] = []
    lease_s, _, retry_s = times
    lease = Figure("the lease duration", "s", [lease_s])
    for name, server in servers(smoke=smoke).items():
        with server() as kubeconfig:
            anyio.run(_create_objects, kubeconfig)
            graceful = [_hand_over(kubeconfig, times, signal.SIGTERM) for _ in range(runs)]
            crash = [_hand_over(kubeconfig, times, signal.SIGKILL) for _ in range(runs)]
        figures += [
            Figure(f"{name}: after SIGTERM", "s", graceful, Goal(1), lease),
            Figure(f"{name}: after SIGKILL", "s", crash, Goal(lease_s + retry_s), lease),
        ]
    return Outcome(figures, notes(smoke=smoke))


def _hand_over(kubeconfig: str, times: tuple[float, float, float], how: signal.Signals) -> float:
    command = _command(kubeconfig, *map(str, times))
    with started_program(command, Path.cwd()) as leader:
        _wait_for("leading", leader)
        with started_program(command, Path.cwd()) as standby:
            _wait_for("ready", standby)
            time.sleep(times[2])
            ended = time.monotonic()
            leader.send_signal(how)
            return _wait_for("leading", standby) - ended


def _command(kubeconfig: str, *rest: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "benchmarks.manager_program", kubeconfig, *rest)


def _wait_for(event: str, process: subprocess.Popen[str]) -> float:
    """
    When a process told of an event, on the machine's monotonic clock.

    Raises:
        RuntimeError: It ended, or did not come to it in time.
    """
    patience = threading.Timer(PATIENCE_S, process.kill)
    patience.start()
    try:
        for at, what in _lines(process):
            if what == event:
                return at
    finally:
        patience.cancel()
    raise RuntimeError(f"a manager ended before it was {event}; BENCHMARKS_STDERR=1 shows its errors")


def _lines(process: subprocess.Popen[str]) -> Iterator[tuple[float, str]]:
    assert process.stdout is not None
    for line in process.stdout:
        at, _, what = line.strip().partition(" ")
        yield float(at), what


async def _create_objects(kubeconfig: str) -> None:
    async with client_of(kubeconfig) as client:
        await run_all([partial(client.apply, CONFIG_MAPS, _object(number)) for number in range(OBJECTS)], limit=16)


def _object(number: int) -> Json:
    metadata = {"name": f"object-{number:03}", "namespace": NAMESPACE, "labels": {"benchmark": "yes"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
