"""
Many TrainJobs at once, applied over HTTP to `ktrain up --pods off`: how soon their JobSets are all there.

The baseline is a client with no logic that applies the same JobSets directly to another such server. On both servers
the JobSet and the Job controller go on to make Services, Jobs and Pods of them, which competes for the same core.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
import msgspec

from ktrain.api.core import PODS
from ktrain.api.jobset import JOBSETS
from ktrain.api.meta import Object, Resource
from ktrain.api.trainer import TRAIN_JOBS
from ktrain.framework import Cache, Client, connect, system_env
from ktrain.framework.parallel import run_all

from .arrivals import Arrivals
from .figures import Figure, Outcome
from .objects import NAMESPACE, train_job
from .processes import PATIENCE_S, control_plane, cpu_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.meta import Json

CONCURRENCY: Final = 16
NODES: Final = 2
# By their metadata, so that this process leaves the server as much of the machine as it can.
_TRAIN_JOBS: Final = Resource(
    TRAIN_JOBS.group, TRAIN_JOBS.version, "TrainJob", "trainjobs", namespaced=True, type=Object
)
_JOBSETS: Final = Resource(JOBSETS.group, JOBSETS.version, "JobSet", "jobsets", namespaced=True, type=Object)
_PODS: Final = Resource(PODS.group, PODS.version, "Pod", "pods", namespaced=True, type=Object)


@dataclass(frozen=True, slots=True)
class Burst:
    """One burst: when the JobSets were there, and what the server had used then and when all Pods were there, too."""

    seconds: float
    cpu_ms: float
    whole_cpu_ms: float
    jobset: Json
    """One of the JobSets, for the baseline to make copies of."""


def burst(*, smoke: bool) -> Outcome:
    """Apply TrainJobs, and as a baseline their JobSets, each time to a new server."""
    jobs, runs = (3, 1) if smoke else (200, 3)
    names = [f"job-{number:03}" for number in range(jobs)]
    if not smoke:
        anyio.run(partial(_burst, _train_jobs(names[:1])))  # compiles the bytecode
    subjects: list[Burst] = []
    baselines: list[Burst] = []
    for number in range(runs):
        for is_subject in (True, False) if number % 2 == 0 or not subjects else (False, True):
            if is_subject:
                subjects.append(anyio.run(partial(_burst, _train_jobs(names))))
            else:
                baselines.append(anyio.run(partial(_burst, [_copy(subjects[0].jobset, name) for name in names])))
    return Outcome([*_figures("JobSets applied directly", baselines, jobs), *_compared(subjects, baselines, jobs)])


def _train_jobs(names: Sequence[str]) -> list[Json]:
    return [train_job(name, command=["true"], nodes=NODES) for name in names]


def _copy(jobset: Json, name: str) -> Json:
    metadata = {key: jobset["metadata"][key] for key in ("labels", "annotations") if key in jobset["metadata"]}
    return {
        "apiVersion": jobset["apiVersion"],
        "kind": jobset["kind"],
        "metadata": {**metadata, "name": name, "namespace": NAMESPACE},
        "spec": jobset["spec"],
    }


async def _burst(bodies: Sequence[Json]) -> Burst:
    async with control_plane() as (pid, kubeconfig):
        transport = await connect(kubeconfig)
        try:
            client = Client(transport, system_env(), field_manager="benchmarks")
            return await _apply_all(client, pid, bodies)
        finally:
            await transport.aclose()


async def _apply_all(client: Client, pid: int, bodies: Sequence[Json]) -> Burst:
    cache = Cache(client, system_env())
    jobsets = Arrivals(cache.informer(_JOBSETS), len(bodies))
    pods = Arrivals(cache.informer(_PODS), len(bodies) * NODES)
    resource = _TRAIN_JOBS if bodies[0]["kind"] == "TrainJob" else _JOBSETS
    async with anyio.create_task_group() as group:
        await group.start(cache.run)
        await cache.wait_for_sync()
        cpu_before, started = cpu_ms(pid), time.perf_counter()
        await run_all([partial(client.apply, resource, body) for body in bodies], limit=CONCURRENCY)
        await jobsets.wait(PATIENCE_S)
        seconds, cpu = time.perf_counter() - started, cpu_ms(pid)
        await pods.wait(PATIENCE_S)
        whole_cpu = cpu_ms(pid)
        group.cancel_scope.cancel()
    answer = await client.raw("GET", JOBSETS.path(NAMESPACE, bodies[0]["metadata"]["name"]))
    return Burst(seconds, cpu - cpu_before, whole_cpu - cpu_before, msgspec.json.decode(answer.body))


def _figures(name: str, bursts: Sequence[Burst], jobs: int) -> list[Figure]:
    return [
        Figure(f"{name}: until all {jobs} JobSets exist", "s", [one.seconds for one in bursts]),
        Figure(f"{name}: rate", "jobs/s", [jobs / one.seconds for one in bursts]),
        Figure(f"{name}: server CPU until then", "ms/job", [one.cpu_ms / jobs for one in bursts]),
        Figure(f"{name}: server CPU until all Pods exist", "ms/job", [one.whole_cpu_ms / jobs for one in bursts]),
    ]


def _compared(subjects: Sequence[Burst], baselines: Sequence[Burst], jobs: int) -> list[Figure]:
    return [
        Figure(figure.name, figure.unit, figure.values, baseline=_named(baseline))
        for figure, baseline in zip(
            _figures("TrainJobs applied", subjects, jobs), _figures("", baselines, jobs), strict=True
        )
    ]


def _named(baseline: Figure) -> Figure:
    return Figure("JobSets directly", baseline.unit, baseline.values)
