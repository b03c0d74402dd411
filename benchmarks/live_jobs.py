"""
Memory of the operator: for each TrainJob that runs, with its JobSet and its snapshot, and for what is not its own.

`ktrain operator` is a process; a first number of jobs comes before anything counts, so that a slope is what an object
adds to a process that has worked. JobSets are made active and ready and stay so.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import msgspec

from ktrain.api.jobset import JOBSETS
from ktrain.api.trainer import TRAIN_JOBS, TrainJob
from ktrain.framework import Cache, system_env
from ktrain.framework.parallel import run_all

from .arrivals import Arrivals
from .figures import Figure, Goal, Outcome
from .load_program import PATHS, body_of
from .objects import NAMESPACE
from .processes import PATIENCE_S, resident_mb
from .servers import client_of, notes, servers
from .trainers import MPI, TORCH, TORCH_SHARED, JobSetPlayer, clean, install_runtimes, operator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.meta import Json
    from ktrain.framework import Client

    from .trainers import Kind

CONCURRENCY: Final = 16
FOREIGN_PER_JOB: Final = 3
"""The allocator takes a mebibyte at a time: of fewer objects one such step would look like their size."""
_FOREIGN: Final = {**PATHS, "secret": f"/api/v1/namespaces/{NAMESPACE}/secrets"}


def live_jobs(*, smoke: bool) -> Outcome:
    """Memory of the operator for each live TrainJob, and for ConfigMaps, Secrets, Pods and JobSets that are not its."""
    before, jobs, settle_s = (1, 3, 0.1) if smoke else (1_000, 1_000, 3.0)
    figures: list[Figure] = []
    for name, server in servers(smoke=smoke).items():
        with server() as kubeconfig:
            anyio.run(install_runtimes, kubeconfig)
            for kind in (TORCH, TORCH_SHARED, MPI):
                grown, foreign = anyio.run(partial(_grown, kubeconfig, kind, before, jobs, settle_s))
                figures.append(Figure(f"{name}, {kind.name}: memory", "KB/job", [grown], Goal(8)))
                if kind is TORCH:
                    figures += [
                        Figure(f"{name}: memory for a foreign {what}", "KB", [size]) for what, size in foreign.items()
                    ]
    return Outcome(figures, notes(smoke=smoke))


async def _grown(
    kubeconfig: str, kind: Kind, before: int, jobs: int, settle_s: float
) -> tuple[float, dict[str, float]]:
    """KB for each job, and for each foreign object by its kind."""
    async with client_of(kubeconfig) as client:
        with operator(Path(kubeconfig), kind) as process:
            cache = Cache(client, system_env())
            train_jobs = cache.informer(TRAIN_JOBS)
            async with anyio.create_task_group() as group:
                await group.start(cache.run)
                cache.informer(JOBSETS).add_handler(JobSetPlayer(client, group, None))
                names = [f"job-{number:05}" for number in range(before + jobs)]
                sizes: list[float] = []
                for some in (names[:before], names[before:]):
                    running = Arrivals(train_jobs, len(some) if not sizes else len(names), _runs)
                    await run_all(
                        [partial(client.create, TRAIN_JOBS, kind.job(one)) for one in some], limit=CONCURRENCY
                    )
                    await running.wait(PATIENCE_S)
                    await anyio.sleep(settle_s)
                    sizes.append(resident_mb(process.pid))
                group.cancel_scope.cancel()
            foreign = await _foreign(client, process.pid, FOREIGN_PER_JOB * jobs, settle_s) if kind is TORCH else {}
        await clean(client)
    return (sizes[1] - sizes[0]) * 1e3 / jobs, foreign


def _runs(job: TrainJob) -> bool:
    return any(counters.ready for counters in job.status.jobs_status)


async def _foreign(client: Client, pid: int, count: int, settle_s: float) -> dict[str, float]:
    grown = {}
    for kind, path in _FOREIGN.items():
        memory = resident_mb(pid)
        bodies: Sequence[Json] = [_body(kind, f"foreign-{number:05}") for number in range(count)]
        calls = [partial(client.raw, "POST", path, body=msgspec.json.encode(body)) for body in bodies]
        await run_all(calls, limit=CONCURRENCY)
        await anyio.sleep(settle_s)
        grown[kind] = (resident_mb(pid) - memory) * 1e3 / count
    return grown


def _body(kind: str, name: str) -> Json:
    if kind != "secret":
        return body_of(kind, name, "foreign")
    body = body_of("configmap", name, "foreign")
    return {**body, "kind": "Secret", "stringData": body["data"], "data": {}}
