"""Programs under test: started, timed, weighed, and ended."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence

KTRAIN: Final = (sys.executable, "-m", "ktrain")
PATIENCE_S: Final = 120.0
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_PAGE_MB: Final = os.sysconf("SC_PAGE_SIZE") / 1e6
_bytecode = tempfile.TemporaryDirectory(prefix="ktrain-bench-")


@lru_cache(maxsize=1)
def environment() -> Mapping[str, str]:
    """
    The environment of all programs under test: with compiled bytecode, as installed programs have it.

    The bytecode goes to a directory of its own, so that it makes no difference what ran here before.
    """
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    root = Path(__file__).resolve().parent.parent
    paths = [str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**kept, "PYTHONPYCACHEPREFIX": _bytecode.name, "PYTHONPATH": os.pathsep.join(paths)}


@dataclass(frozen=True, slots=True)
class Finished:
    """A program that has ended: how long it took, by the clock and of CPU time, and the most memory that it held."""

    wall_ms: float
    cpu_ms: float
    peak_mb: float


def run(command: Sequence[str]) -> Finished:
    """
    Run a program to its end and throw its output away.

    Raises:
        RuntimeError: It failed.
    """
    weigh = (sys.executable, "-I", str(Path(__file__).with_name("weigh.py")), *command)
    done = subprocess.run(weigh, env=environment(), stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} exited with code {done.returncode}")
    wall_ms, used_ms, peak_kb = map(float, done.stdout.split())
    return Finished(wall_ms, used_ms, peak_kb / 1e3)


def time_to_line(command: Sequence[str], wanted: str, cwd: Path) -> float:
    """
    Milliseconds from starting a program to the first line of its output that begins so. It runs to its end.

    Raises:
        RuntimeError: The line did not come.
    """
    started = time.perf_counter()
    with started_program(command, cwd) as process:
        seen = None
        output = []
        assert process.stdout is not None
        for line in process.stdout:
            output.append(line)
            if seen is None and line.startswith(wanted):
                seen = time.perf_counter()
        process.wait(PATIENCE_S)
    if seen is None:
        raise RuntimeError(f"{' '.join(command)} never printed {wanted!r}, but:\n{''.join(output)}")
    return (seen - started) * 1e3


@contextmanager
def started_program(command: Sequence[str], cwd: Path) -> Iterator[subprocess.Popen[str]]:
    """A running program with its output in a pipe; it is ended on leaving, if it has not ended itself."""
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env={**environment(), "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=sys.stderr.fileno() if os.environ.get("BENCHMARKS_STDERR") else subprocess.DEVNULL,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(10.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        assert process.stdout is not None
        process.stdout.close()


@asynccontextmanager
async def control_plane() -> AsyncIterator[tuple[int, str]]:
    """Run `ktrain up --pods off`; yields its process ID and a kubeconfig for it."""
    with tempfile.TemporaryDirectory(prefix="ktrain-bench-") as directory:
        file = Path(directory) / "kubeconfig"
        command = (*KTRAIN, "up", "--pods", "off", "--kubeconfig", str(file))
        with started_program(command, Path(directory)) as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line.startswith("ready "):
                raise RuntimeError(f"ktrain up is not ready: {line!r}")
            yield process.pid, str(file)


def cpu_ms(pid: int) -> float:
    """CPU time that a process has used, all threads, in milliseconds."""
    tasks = Path(f"/proc/{pid}/task")
    try:
        # Nanoseconds on a CPU, where the kernel keeps them; the usual count has ticks of 10 ms.
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e6
    except OSError:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * 1e3 / _TICKS_PER_S


def resident_mb(pid: int) -> float:
    """Memory that a process holds now."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_MB


def in_turns(runs: int, *subjects: Callable[[], float]) -> list[list[float]]:
    """
    Measure subjects in turns, every other round in reverse; returns the values of each.

    What else the machine does then hits all of them alike.
    """
    values: list[list[float]] = [[] for _ in subjects]
    for number in range(runs):
        order = range(len(subjects)) if number % 2 == 0 else reversed(range(len(subjects)))
        for index in order:
            values[index].append(subjects[index]())
    return values
