"""How long it takes until 200 pods run, and what that costs, against 200 processes that somebody simply starts."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .figures import Figure, Goal, Outcome
from .pods_program import Started
from .processes import in_turns, started_program

if TYPE_CHECKING:
    from collections.abc import Callable

GOAL_MS: Final = 5_000.0
CPU_GOALS_MS: Final = {"ns": 4_000.0, "host": 3_000.0}


def pods(*, smoke: bool) -> Outcome:
    """A Job of 200 pods that sleep, on `ktrain up` with pods in namespaces and on the shared host."""
    count, runs = (3, 1) if smoke else (200, 5)
    modes = ["host"] if smoke else [mode for mode in CPU_GOALS_MS if _runs(mode)]
    found: dict[str, list[Started]] = {mode: [] for mode in modes}

    def measured(mode: str) -> Callable[[], float]:
        def once() -> float:
            found[mode].append(_started(mode, count))
            return found[mode][-1].wall_ms

        return once

    bare_ms, *_ = in_turns(runs, lambda: _bare_ms(count), *(measured(mode) for mode in modes))
    bare = Figure(f"{count} processes, bare", "ms", bare_ms)
    figures = [bare]
    for mode, several in found.items():
        cpu = [one.plane_ms + one.below_ms for one in several]
        figures += [
            Figure(f"{mode}: {count} pods run", "ms", [one.wall_ms for one in several], Goal(GOAL_MS), bare),
            Figure(f"{mode}: CPU, all processes", "ms", cpu, Goal(CPU_GOALS_MS[mode])),
            Figure(f"{mode}: of that the control plane", "ms", [one.plane_ms for one in several]),
        ]
    notes = [] if smoke or "ns" in modes else ["this machine has no user namespaces: --pods ns was not measured"]
    return Outcome(figures, notes)


def _started(mode: str, count: int) -> Started:
    command = (sys.executable, "-m", "benchmarks.pods_program", mode, str(count))
    with tempfile.TemporaryDirectory(prefix="ktrain-bench-") as place, started_program(command, Path(place)) as process:
        assert process.stdout is not None
        if not (line := process.stdout.readline()):
            raise RuntimeError(f"pods do not run here in mode {mode}")
        return Started(**json.loads(line))


def _runs(mode: str) -> bool:
    try:
        return bool(_started(mode, 1))  # Compiles the bytecode, too.
    except RuntimeError:
        return False


def _bare_ms(count: int) -> float:
    begun = time.perf_counter()
    processes = [subprocess.Popen(("sleep", "600")) for _ in range(count)]
    took_ms = (time.perf_counter() - begun) * 1e3
    for process in processes:
        process.kill()
        process.wait()
    return took_ms
