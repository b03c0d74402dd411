"""
Many TrainJobs at once, and TrainJobs one at a time: from each of them to its JobSet.

`trainjobs` is a burst: all are created by 16 clients while the operator works. `delivery` is paced at a fifth of the
rate of a burst; it counts from the event of the TrainJob to that of its JobSet, both seen by one watcher. The baseline
of both is the null controller, which fires the same writes and does nothing else, in the second one only the JobSet:
one delivery by the watch and one apply, than which nobody can be faster. No JobSet controller runs.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING, Final

import anyio

from ktrain.api.jobset import JOBSETS
from ktrain.api.meta import Key, Object, Resource
from ktrain.api.trainer import TRAIN_JOBS
from ktrain.framework import Cache, system_env
from ktrain.framework.parallel import run_all

from .arrivals import Arrivals
from .figures import Figure, Goal, Outcome
from .processes import PATIENCE_S, cpu_ms
from .servers import client_of, notes, servers
from .trainers import TORCH, TORCH_SHARED, canned, clean, install_runtimes, null_controller, operator

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from ktrain.framework import Client

    from .trainers import Kind

    Subject = Callable[[Path], AbstractContextManager[subprocess.Popen[str]]]

CONCURRENCY: Final = 16
LOAD: Final = 0.2
GO_JOBS_PER_S: Final = 42
"""What Kubeflow Trainer was seen to do in a burst, on a machine of two cores with a real API server."""
# By their metadata, so that this process leaves the others as much of the machine as it can.
_TRAIN_JOBS: Final = Resource(
    TRAIN_JOBS.group, TRAIN_JOBS.version, "TrainJob", "trainjobs", namespaced=True, type=Object
)
_JOBSETS: Final = Resource(JOBSETS.group, JOBSETS.version, "JobSet", "jobsets", namespaced=True, type=Object)


@dataclass(frozen=True, slots=True)
class Round:
    """One controller and a number of jobs: until all had their JobSets, its CPU until then, and how long each took."""

    seconds: float
    cpu_ms: float
    latencies_ms: Sequence[float]

    @property
    def p50(self) -> float:
        return quantiles(self.latencies_ms, n=100)[49]

    @property
    def p99(self) -> float:
        return quantiles(self.latencies_ms, n=100)[98]


class Stamps:
    """Notes when each object was first seen."""

    def __init__(self) -> None:
        self.at_s: dict[Key, float] = {}

    def on_add(self, obj: Object, *, initial: bool) -> None:
        self.at_s[obj.key] = time.perf_counter()

    def on_update(self, old: Object, new: Object) -> None:
        pass

    def on_delete(self, obj: Object) -> None:
        pass


def trainjobs(*, smoke: bool) -> Outcome:
    """1,000 TrainJobs at once until all have their JobSets, to a client that only fires the same writes."""
    jobs, runs = (5, 1) if smoke else (1_000, 3)
    figures: list[Figure] = []
    for name, server in servers(smoke=smoke).items():
        with server() as kubeconfig:
            anyio.run(install_runtimes, kubeconfig)
            run = partial(_round, kubeconfig, jobs=jobs, per_s=0.0)
            null = partial(null_controller, canned=canned(kubeconfig, TORCH))
            found: dict[str, list[Round]] = {"null": [], "own": [], "shared": []}
            for number in range(runs):
                for which in found if number % 2 == 0 else reversed(found):
                    subject = null if which == "null" else partial(operator, kind=_KINDS[which])
                    found[which].append(run(subject, _KINDS[which]))
        figures += _burst_figures(name, jobs, **found)
    return Outcome(figures, notes(smoke=smoke))


_KINDS: Final = {"null": TORCH, "own": TORCH, "shared": TORCH_SHARED}


def _burst_figures(
    name: str, jobs: int, *, null: Sequence[Round], own: Sequence[Round], shared: Sequence[Round]
) -> list[Figure]:
    wall = Figure("null controller", "s", [one.seconds for one in null])
    cpu = Figure("null controller", "ms/job", [one.cpu_ms / jobs for one in null])
    # In pairs that ran one after the other: minutes differ more on a shared machine than what is compared here.
    pairs = [ours.seconds / theirs.seconds for ours, theirs in zip(own, null, strict=True)]
    return [
        replace(wall, name=f"{name}, null controller: until {jobs:,} JobSets exist"),
        Figure(f"{name}: until {jobs:,} JobSets exist", "s", [one.seconds for one in own], None, wall),
        Figure(f"{name}: its time to the null controller's", "ratio", pairs, Goal(1.15)),
        Figure(f"{name}: CPU until then", "ms/job", [one.cpu_ms / jobs for one in own], None, cpu),
        Figure(f"{name}, shared: until {jobs:,} JobSets exist", "s", [one.seconds for one in shared], None, wall),
        Figure(
            f"{name}, shared: its rate to Go's {GO_JOBS_PER_S} jobs/s",
            "ratio",
            [jobs / one.seconds / GO_JOBS_PER_S for one in shared],
            Goal(2.5, at_least=True),
        ),
    ]


def delivery(*, smoke: bool) -> Outcome:
    """From a TrainJob to its JobSet at a fifth of the load of a burst, to one watch delivery and one apply."""
    jobs, runs = (5, 1) if smoke else (300, 3)
    figures: list[Figure] = []
    for name, server in servers(smoke=smoke).items():
        with server() as kubeconfig:
            anyio.run(install_runtimes, kubeconfig)
            null = partial(null_controller, canned=canned(kubeconfig, TORCH_SHARED))
            burst = _round(kubeconfig, partial(operator, kind=TORCH), TORCH, jobs=jobs, per_s=0.0)
            run = partial(_round, kubeconfig, jobs=jobs, per_s=LOAD * jobs / burst.seconds)
            probe: list[Round] = []
            found: dict[str, list[Round]] = {"": [], ", shared": []}
            for _ in range(runs):
                found[""].append(run(partial(operator, kind=TORCH), TORCH))
                probe.append(run(null, TORCH_SHARED))
                found[", shared"].append(run(partial(operator, kind=TORCH_SHARED), TORCH_SHARED))
        figures += [
            Figure(f"{name}: jobs created", "jobs/s", [LOAD * jobs / burst.seconds]),
            Figure(f"{name}, one delivery and one apply: p50", "ms", [one.p50 for one in probe]),
            Figure(f"{name}, one delivery and one apply: p99", "ms", [one.p99 for one in probe]),
        ]
        for which, rounds in found.items():
            figures += _delivery_figures(f"{name}{which}", rounds, probe)
    return Outcome(figures, notes(smoke=smoke))


def _delivery_figures(name: str, rounds: Sequence[Round], probe: Sequence[Round]) -> list[Figure]:
    pairs = list(zip(rounds, probe, strict=True))
    return [
        Figure(f"{name}: p50", "ms", [one.p50 for one in rounds]),
        Figure(f"{name}: p99", "ms", [one.p99 for one in rounds]),
        Figure(f"{name}: p50 to that", "ratio", [ours.p50 / theirs.p50 for ours, theirs in pairs], Goal(1.25)),
        Figure(f"{name}: p99 to that", "ratio", [ours.p99 / theirs.p99 for ours, theirs in pairs], Goal(1.5)),
    ]


def _round(kubeconfig: str, subject: Subject, kind: Kind, *, jobs: int, per_s: float) -> Round:
    """Have one controller work on new jobs: so many a second, or all at once. They are removed afterwards."""
    return anyio.run(partial(_work, kubeconfig, subject, kind, jobs=jobs, per_s=per_s))


async def _work(kubeconfig: str, subject: Subject, kind: Kind, *, jobs: int, per_s: float) -> Round:
    async with client_of(kubeconfig) as client:
        with subject(Path(kubeconfig)) as process:
            cache = Cache(client, system_env())
            job_sets = cache.informer(_JOBSETS)
            begun, done = Stamps(), Stamps()
            cache.informer(_TRAIN_JOBS).add_handler(begun)
            job_sets.add_handler(done)
            async with anyio.create_task_group() as group:
                await group.start(cache.run)
                first = Arrivals(job_sets, 1)
                await client.create(TRAIN_JOBS, kind.job("warm-up"))
                await first.wait(PATIENCE_S)
                begun.at_s.clear()
                last = Arrivals(job_sets, 1 + jobs)
                cpu, started = cpu_ms(process.pid), time.perf_counter()
                await _create(client, kind, [f"job-{number:04}" for number in range(jobs)], per_s)
                await last.wait(PATIENCE_S)
                seconds, cpu = time.perf_counter() - started, cpu_ms(process.pid) - cpu
                group.cancel_scope.cancel()
        await clean(client)
    return Round(seconds, cpu, [(done.at_s[key] - at_s) * 1e3 for key, at_s in begun.at_s.items()])


async def _create(client: Client, kind: Kind, names: Sequence[str], per_s: float) -> None:
    if not per_s:
        await run_all([partial(client.create, TRAIN_JOBS, kind.job(name)) for name in names], limit=CONCURRENCY)
        return
    started = time.perf_counter()
    for number, name in enumerate(names):
        await anyio.sleep(max(0.0, started + number / per_s - time.perf_counter()))
        await client.create(TRAIN_JOBS, kind.job(name))
