"""How long a user waits: for help, and for the first line of a run."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import yaml

from .figures import Figure, Goal, Outcome
from .objects import train_job
from .processes import KTRAIN, Finished, in_turns, run, started_program, time_to_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_PROGRAM: Final = "print('the first line')\n"
_STAGES: Final = ("imported", "plane up", "submitted", "pod started", "first line")


def help_text(*, smoke: bool) -> Outcome:
    """`ktrain --help`, against a Python that does nothing."""
    bare, subject = (sys.executable, "-c", "pass"), (*KTRAIN, "--help")
    run(subject)  # compiles the bytecode
    peaks: dict[Sequence[str], list[float]] = {bare: [], subject: []}

    def measured(command: Sequence[str]) -> Callable[[], float]:
        def once() -> float:
            finished = run(command)
            peaks[command].append(finished.peak_mb)
            return finished.wall_ms

        return once

    bare_ms, subject_ms = in_turns(1 if smoke else 20, measured(bare), measured(subject))
    bare_wall, bare_peak = Figure("python -c pass", "ms", bare_ms), Figure("python -c pass", "MB", peaks[bare])
    return Outcome(
        [
            bare_wall,
            Figure("ktrain --help", "ms", subject_ms, Goal(150), bare_wall),
            bare_peak,
            Figure("ktrain --help, peak memory", "MB", peaks[subject], Goal(40), bare_peak),
        ]
    )


def framework_import(*, smoke: bool) -> Outcome:
    """`ktrain.framework` with every name it exports, against a Python that does nothing."""
    # The names load on first use: importing the package alone would measure nothing.
    program = "import ktrain.framework as f; [getattr(f, name) for name in f.__all__]"
    bare, subject = (sys.executable, "-c", "pass"), (sys.executable, "-c", program)
    run(subject)  # compiles the bytecode
    finished: dict[Sequence[str], list[Finished]] = {bare: [], subject: []}

    def measured(command: Sequence[str]) -> Callable[[], float]:
        def once() -> float:
            finished[command].append(run(command))
            return finished[command][-1].wall_ms

        return once

    in_turns(1 if smoke else 20, measured(bare), measured(subject))
    ours, python = finished[subject], finished[bare]
    return Outcome(
        [
            *_beyond("ms", [one.wall_ms for one in ours], [one.wall_ms for one in python], Goal(250)),
            *_beyond("ms of CPU", [one.cpu_ms for one in ours], [one.cpu_ms for one in python], None),
            *_beyond("MB", [one.peak_mb for one in ours], [one.peak_mb for one in python], Goal(60)),
        ]
    )


def _beyond(unit: str, ours: Sequence[float], python: Sequence[float], goal: Goal | None) -> list[Figure]:
    baseline = Figure("python -c pass", unit, python)
    more = [value - baseline.median for value in ours]
    return [baseline, Figure("all of ktrain.framework, beyond that", unit, more, goal, baseline)]


def first_line(*, smoke: bool) -> Outcome:
    """`ktrain run` of two nodes to the first line of rank 0, against the same program run bare."""
    runs = 1 if smoke else 10
    with tempfile.TemporaryDirectory(prefix="ktrain-bench-") as name:
        directory = Path(name)
        (directory / "program.py").write_text(_PROGRAM)
        job = directory / "job.yaml"
        job.write_text(yaml.safe_dump(train_job("first-line", command=["python", "program.py"])))
        bare = (sys.executable, "program.py")

        def to_line(command: Sequence[str], wanted: str) -> Callable[[], float]:
            return lambda: time_to_line(command, wanted, directory)

        modes = ["host"] if smoke or not _has_namespaces(directory) else ["ns", "host"]
        in_modes = [to_line((*KTRAIN, "run", str(job), "--pods", mode), "[node-0]") for mode in modes]
        subjects = [to_line(bare, ""), *in_modes]
        if not smoke:
            in_turns(1, *subjects)  # compiles the bytecode
        bare_ms, *modes_ms = in_turns(runs, *subjects)
        stages = [_stages(mode, job, directory, runs=1 if smoke else 5) for mode in modes]
    baseline = Figure("the program, run bare", "ms", bare_ms)
    figures = [baseline]
    for mode, values in zip(modes, modes_ms, strict=True):
        beyond = [value - baseline.median for value in values]
        figures.append(Figure(f"ktrain run --pods {mode}", "ms", values, None, baseline))
        figures.append(Figure(f"ktrain run --pods {mode}, beyond bare", "ms", beyond, Goal(1500)))
    for mode, found in zip(modes, stages, strict=True):
        figures += [Figure(f"{mode}: {stage}", "ms", values) for stage, values in found.items()]
    notes = [] if smoke or "ns" in modes else ["this machine has no user namespaces: --pods ns was not measured"]
    return Outcome(figures, notes)


def _has_namespaces(directory: Path) -> bool:
    with started_program((*KTRAIN, "up", "--pods", "ns"), directory) as process:
        assert process.stdout is not None
        return process.stdout.readline().startswith("ready ")


def _stages(mode: str, job: Path, directory: Path, *, runs: int) -> dict[str, list[float]]:
    """Where the time goes: milliseconds that each stage took (see `stages`)."""
    found: dict[str, list[float]] = {stage: [] for stage in _STAGES}
    for _ in range(runs):
        command = (sys.executable, "-m", "benchmarks.stages", mode, str(job), str(time.monotonic()))
        with started_program(command, directory) as process:
            assert process.stdout is not None
            for stage, took_ms in json.loads(process.stdout.read()).items():
                found[stage].append(took_ms)
    return found
