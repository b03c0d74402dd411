"""
The first content of a large informer, what it holds per object, and what objects cost that nobody asked for.

The subject is a process of its own (`sync_program`), so that its memory is its own; so is the baseline, which reads the
same pages with aiohttp and json. A tenth of the objects carries a label of its own, and the difference between all and
the tenth gives the memory per object without what a process has anyway.
"""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from ktrain.api.trainer import TRAIN_JOBS
from ktrain.framework.parallel import run_all

from .figures import Figure, Goal, Outcome
from .objects import train_job
from .processes import resident_mb, started_program
from .servers import client_of, notes, servers
from .sync_program import Sync

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ktrain.api.meta import Json

CONCURRENCY: Final = 16
TENTH: Final = "tenth=yes"
FOREIGN_BYTES: Final = 10_000


def sync(*, smoke: bool) -> Outcome:
    """10,000 TrainJobs into an informer with two indexes: time, memory, and how long the loop was not free."""
    jobs, runs = (20, 1) if smoke else (10_000, 3)
    figures: list[Figure] = []
    for name, server in servers(smoke=smoke).items():
        with server() as kubeconfig:
            anyio.run(_create_jobs, kubeconfig, jobs)
            rounds = [{mode: _synced(mode, kubeconfig) for mode in ("bare", "typed", "metadata")} for _ in range(runs)]
            tenths = {mode: _synced(mode, kubeconfig, TENTH) for mode in ("bare", "typed", "metadata")}
        figures += _figures(name, rounds, tenths)
    job = len(json.dumps(_job(0)))
    return Outcome(
        figures, [f"a TrainJob has {job:,} bytes as it is written, without managedFields", *notes(smoke=smoke)]
    )


def _figures(name: str, rounds: Sequence[dict[str, Sync]], tenths: dict[str, Sync]) -> list[Figure]:
    typed, bare = [one["typed"] for one in rounds], [one["bare"] for one in rounds]

    def per_object(mode: str) -> list[float]:
        tenth = tenths[mode]
        return [(one[mode].steady_mb - tenth.steady_mb) * 1e3 / (one[mode].objects - tenth.objects) for one in rounds]

    bare_wall = Figure("aiohttp and json", "s", [one.wall_s for one in bare])
    bare_peak = Figure("aiohttp and json", "of steady", [one.peak_mb / one.steady_mb for one in bare])
    bare_stall = Figure("aiohttp and json", "ms", [one.stall_ms for one in bare])
    bare_size = Figure("aiohttp and json", "KB", per_object("bare"))
    return [
        Figure(f"{name}: synced after", "s", [one.wall_s for one in typed], Goal(3), bare_wall),
        Figure(f"{name}: CPU of it", "s", [one.cpu_s for one in typed]),
        Figure(
            f"{name}: synced after, metadata only", "s", [one["metadata"].wall_s for one in rounds], None, bare_wall
        ),
        Figure(f"{name}: steady memory", "MB", [one.steady_mb for one in typed]),
        Figure(
            f"{name}: peak memory", "of steady", [one.peak_mb / one.steady_mb for one in typed], Goal(1.3), bare_peak
        ),
        Figure(
            f"{name}: peak growth",
            "of steady",
            [_growth(one) for one in typed],
            None,
            _like(bare_peak, map(_growth, bare)),
        ),
        Figure(f"{name}: longest stall, CPU time", "ms", [one.stall_ms for one in typed], Goal(20), bare_stall),
        Figure(f"{name}: longest stall, wall", "ms", [one.stall_wall_ms for one in typed]),
        Figure(f"{name}: memory per TrainJob", "KB", per_object("typed"), Goal(4), bare_size),
        Figure(f"{name}: memory per TrainJob, metadata only", "KB", per_object("metadata"), None, bare_size),
    ]


def _growth(found: Sync) -> float:
    """The peak beyond what the process had before, in parts of what it kept."""
    kept = found.steady_mb - found.before_mb
    return (found.peak_mb - found.before_mb) / kept if kept > 0 else 1.0


def _like(figure: Figure, values: Iterable[float]) -> Figure:
    return Figure(figure.name, figure.unit, list(values))


def foreign_objects(*, smoke: bool) -> Outcome:
    """What an informer with a selector grows by when 3,000 objects of 10 KB appear that it does not select."""
    count, runs = (10, 1) if smoke else (3_000, 3)
    figures = []
    for name, server in servers(smoke=smoke).items():
        grown: list[float] = []
        everything: list[float] = []
        for _ in range(runs):
            with server() as kubeconfig:
                anyio.run(_create_jobs, kubeconfig, 10)
                with _program("typed", kubeconfig, TENTH) as (pid, _), _program("typed", kubeconfig, "") as (other, _):
                    before, other_before = resident_mb(pid), resident_mb(other)
                    anyio.run(partial(_create_foreign, kubeconfig, count))
                    grown.append(resident_mb(pid) - before)
                    everything.append(resident_mb(other) - other_before)
        baseline = Figure("the same without a selector", "MB", everything)
        figures.append(Figure(f"{name}: growth by {count:,} foreign objects", "MB", grown, Goal(1), baseline))
    return Outcome(figures, notes(smoke=smoke))


def _job(number: int) -> Json:
    job = train_job(f"job-{number:05}", command=["python", "train.py", "--epochs", "3"])
    labels = {"queue": f"team-{number % 20}", **({"tenth": "yes"} if number % 10 == 0 else {})}
    job["metadata"] = {**job["metadata"], "labels": labels, "annotations": {"owner": "somebody@example.com"}}
    job["spec"]["trainer"]["env"] = [{"name": f"VARIABLE_{one}", "value": f"value {one}"} for one in range(10)]
    return job


async def _create_jobs(kubeconfig: str, count: int) -> None:
    async with client_of(kubeconfig) as client:
        calls = [partial(client.create, TRAIN_JOBS, _job(number)) for number in range(count)]
        await run_all(calls, limit=CONCURRENCY)


async def _create_foreign(kubeconfig: str, count: int) -> None:
    async with client_of(kubeconfig) as client:
        calls = [partial(client.create, TRAIN_JOBS, _foreign(number)) for number in range(count)]
        await run_all(calls, limit=CONCURRENCY)


def _foreign(number: int) -> Json:
    job = train_job(f"foreign-{number:05}", command=["true"])
    job["metadata"] = {**job["metadata"], "annotations": {"filler": "x" * FOREIGN_BYTES}}
    return job


def _synced(mode: str, kubeconfig: str, selector: str = "") -> Sync:
    with _program(mode, kubeconfig, selector) as (_, found):
        return found


@contextmanager
def _program(mode: str, kubeconfig: str, selector: str) -> Iterator[tuple[int, Sync]]:
    """A running `sync_program` that has its content: process ID, and what it told."""
    command = (sys.executable, "-m", "benchmarks.sync_program", mode, kubeconfig, selector)
    with started_program(command, Path.cwd()) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"{' '.join(command)} ended without a word; BENCHMARKS_STDERR=1 shows its errors")
        yield process.pid, Sync(**json.loads(line))
