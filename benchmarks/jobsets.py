"""
Many JobSets at once, and the JobSet controller in a process of its own: how soon all Jobs are there, at what cost.

No Job controller runs. The baseline is a client that fires the same writes for each JobSet and does nothing else; both
have the same server, one after the other.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from ktrain.api.core import SERVICES
from ktrain.api.jobset import JOBSETS
from ktrain.api.meta import Key, Object, Resource
from ktrain.controllers.jobset.admission import default_jobset
from ktrain.framework import Cache, Client, connect, system_env
from ktrain.framework.errors import NotFound
from ktrain.framework.parallel import run_all

from .arrivals import Arrivals
from .figures import Figure, Goal, Outcome
from .objects import NAMESPACE, job_set
from .processes import PATIENCE_S, cpu_ms, started_program
from .servers import notes, servers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.meta import Json
    from ktrain.framework import Informer

CONCURRENCY: Final = 16
PARTS: Final = ("leader", "worker")
UPSTREAM_JOBS_PER_S: Final = 68
"""What the JobSet operator was seen to do on a machine of two cores with a real API server."""
WRITES: Final = ("POST", "PUT", "PATCH", "DELETE")
_JOBS: Final = Resource("batch", "v1", "Job", "jobs", namespaced=True, type=Object)


@dataclass(frozen=True, slots=True)
class Burst:
    """One burst: seconds until all Jobs existed; for each JobSet CPU of the controller, and its calls."""

    seconds: float
    cpu_ms: float
    writes: float = 0.0
    reads: float = 0.0


def jobsets(*, smoke: bool) -> Outcome:
    """200 JobSets of two replicated jobs: Jobs per second, calls and CPU of the controller for each."""
    count, runs = (3, 1) if smoke else (200, 5)
    figures: list[Figure] = []
    for server, started in servers(smoke=smoke).items():
        with started() as kubeconfig:
            if not smoke:
                _round(kubeconfig, "jobset_program", "warm", 20)
            ours: list[Burst] = []
            theirs: list[Burst] = []
            for number in range(runs):
                for is_ours in (True, False) if number % 2 == 0 else (False, True):
                    program = "jobset_program" if is_ours else "null_jobsets"
                    (ours if is_ours else theirs).append(_round(kubeconfig, program, f"run-{number}", count))
        figures += _figures(server, ours, theirs, count)
    return Outcome(figures, notes(smoke=smoke))


def _figures(server: str, ours: Sequence[Burst], theirs: Sequence[Burst], count: int) -> list[Figure]:
    jobs = count * len(PARTS)
    null = Figure(f"{server}, null client: until all Jobs exist", "s", [one.seconds for one in theirs])
    seconds = Figure(f"{server}: until all {jobs} Jobs exist", "s", [one.seconds for one in ours], None, null)
    rate = Goal(5 * UPSTREAM_JOBS_PER_S, at_least=True)
    ratios = [one.seconds / null.median for one in ours]
    return [
        null,
        seconds,
        Figure(f"{server}: ratio to the null client", "", ratios, Goal(1.2)),
        Figure(f"{server}, null client: rate", "Jobs/s", [jobs / one.seconds for one in theirs]),
        Figure(f"{server}: rate", "Jobs/s", [jobs / one.seconds for one in ours], rate),
        Figure(f"{server}: writes per JobSet", "", [one.writes for one in ours], Goal(4)),
        Figure(f"{server}: reads per JobSet", "", [one.reads for one in ours], Goal(0)),
        Figure(f"{server}, null client: CPU per JobSet", "ms", [one.cpu_ms for one in theirs]),
        Figure(f"{server}: CPU per JobSet", "ms", [one.cpu_ms for one in ours], Goal(3)),
    ]


def _round(kubeconfig: str, program: str, prefix: str, count: int) -> Burst:
    """Have one program work on new JobSets, and remove them and what came of them."""
    command = (sys.executable, "-m", f"benchmarks.{program}", kubeconfig)
    with tempfile.TemporaryDirectory(prefix="ktrain-bench-") as directory:
        with started_program(command, Path(directory)) as process:
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                raise RuntimeError(f"{program} did not start")
            names = [f"{prefix}-{number:03}" for number in range(count)]
            seconds, cpu = anyio.run(partial(_burst, kubeconfig, process.pid, [_body(name) for name in names]))
            process.terminate()
            calls = _calls(process.stdout.read())
        anyio.run(_clean, kubeconfig, names)
    writes = sum(calls.get(method, 0) for method in WRITES)
    return Burst(seconds, cpu / count, writes / count, calls.get("GET", 0) / count)


def _calls(output: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for line in output.splitlines():
        if line.startswith("calls "):
            found = json.loads(line.removeprefix("calls "))
    return found


def _body(name: str) -> Json:
    body = job_set(name)
    template = body["spec"]["replicatedJobs"][0]["template"]
    body["spec"]["replicatedJobs"] = [{"name": part, "replicas": 1, "template": template} for part in PARTS]
    return default_jobset(body)


async def _burst(kubeconfig: str, pid: int, bodies: Sequence[Json]) -> tuple[float, float]:
    """Seconds from the first post until all Jobs exist, and the program's CPU until all statuses do."""
    async with aclosing(await connect(kubeconfig)) as transport:
        client = Client(transport, system_env(), field_manager="benchmarks")
        cache = Cache(client, system_env())
        jobs = Arrivals(_jobs(cache), len(bodies) * len(PARTS))
        ended = Arrivals(cache.informer(JOBSETS), len(bodies), lambda jobset: jobset.status is not None)
        async with anyio.create_task_group() as group:
            await group.start(cache.run)
            await cache.wait_for_sync()
            cpu_before, started = cpu_ms(pid), time.perf_counter()
            await run_all([partial(client.create, JOBSETS, body) for body in bodies], limit=CONCURRENCY)
            await jobs.wait(PATIENCE_S)
            seconds = time.perf_counter() - started
            await ended.wait(PATIENCE_S)
            await anyio.sleep(0.5)  # passes that write nothing count, too
            cpu = cpu_ms(pid) - cpu_before
            group.cancel_scope.cancel()
    return seconds, cpu


def _jobs(cache: Cache) -> Informer[Object]:
    return cache.informer(_JOBS)


async def _clean(kubeconfig: str, names: Sequence[str]) -> None:
    async with aclosing(await connect(kubeconfig)) as transport:
        client = Client(transport, system_env(), field_manager="benchmarks")

        async def remove(resource: Resource[Object], name: str) -> None:
            try:
                await client.delete(resource, Key(NAMESPACE, name), propagation="Background")
            except NotFound:
                return  # whoever collects garbage here was faster

        doomed: list[tuple[Resource[Object], str]] = [(SERVICES, name) for name in names]
        doomed += [(_JOBS, f"{name}-{part}-0") for name in names for part in PARTS]
        await run_all([partial(client.delete, JOBSETS, Key(NAMESPACE, name)) for name in names], limit=CONCURRENCY)
        await run_all([partial(remove, *one) for one in doomed], limit=CONCURRENCY)
