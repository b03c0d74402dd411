"""
What the operator asks of an API server, and of the machine, in the whole life of a TrainJob.

The API server is in this process, over HTTP, and counts. `ktrain operator` is a process of its own. The benchmark plays
the JobSet controller: it makes each JobSet's pods active, then ready, then the JobSet Completed, each with a patch of
its status, spread over about two seconds as real starts are spread over more. The baseline is `null_controller`: the
same writes by a program that only echoes.
"""

from __future__ import annotations

import json
import secrets
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from ktrain.api import assets
from ktrain.api.documents import load, resource_of
from ktrain.api.jobset import JOBSETS, JobSet
from ktrain.api.meta import format_time
from ktrain.api.trainer import CONDITION_COMPLETE, TRAIN_JOBS, TrainJob
from ktrain.framework import Cache, Client, system_env
from ktrain.local.apiserver.front.http import serve_http
from ktrain.local.apiserver.server import ApiServer

from .arrivals import Arrivals
from .figures import Figure, Goal, Outcome
from .objects import train_job
from .processes import KTRAIN, PATIENCE_S, cpu_ms, resident_mb, started_program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anyio.abc import TaskGroup

    from ktrain.api.meta import Json
    from ktrain.local.apiserver.requests import Answer, Request

NODES: Final = 2
READY_AFTER_S: Final = 0.1
SETTLE_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Script:
    """How many lives, how long each, and for how long afterwards nothing may happen."""

    jobs: int
    life_s: float
    idle_s: float


@dataclass(slots=True)
class Requests:
    """Requests from outside of this process since the last `clear`."""

    writes: list[tuple[str, str, bytes]] = field(default_factory=list)
    reads: list[str] = field(default_factory=list)
    watches: int = 0

    def note(self, request: Request) -> None:
        if request.method != "GET":
            self.writes.append((request.method, request.path, request.body))
        elif ("watch", "true") in request.query:
            self.watches += 1
        else:
            self.reads.append(request.path)

    def clear(self) -> None:
        self.writes.clear()
        self.reads.clear()
        self.watches = 0

    @property
    def repeated(self) -> int:
        """Writes whose like, byte for byte, was sent before."""
        return len(self.writes) - len(set(self.writes))

    def by_kind(self) -> Counter[str]:
        """Writes by verb and kind: `PATCH jobsets`."""
        return Counter(f"{method} {_kind(path)}" for method, path, _ in self.writes)

    @property
    def total(self) -> int:
        return len(self.writes) + len(self.reads) + self.watches


def _kind(path: str) -> str:
    """`jobsets`, `trainjobs/status`: a path without group, namespace and name."""
    parts = path.split("/")
    after = parts[parts.index("namespaces") + 2 :] if "namespaces" in parts else parts[-1:]
    return "/".join([after[0], *after[2:]])


class CountingServer(ApiServer):
    """Counts requests that say who sends them, which the benchmark's own do not."""

    def __init__(self, requests: Requests) -> None:
        super().__init__(system_env(), crds=assets.crds())
        self._requests = requests

    async def handle(self, request: Request) -> Answer:
        if "user-agent" in request.headers:
            self._requests.note(request)
        return await super().handle(request)


class JobSetPlayer:
    """Plays the JobSet controller."""

    def __init__(self, client: Client, group: TaskGroup, life_s: float) -> None:
        self._client = client
        self._group = group
        self._life_s = life_s

    def on_add(self, obj: JobSet, *, initial: bool) -> None:  # noqa: ARG002 -- the handler's signature
        self._group.start_soon(self._play, obj)

    def on_update(self, _old: JobSet, new: JobSet) -> None:
        pass

    def on_delete(self, obj: JobSet) -> None:
        pass

    async def _play(self, jobset: JobSet) -> None:
        await self._report(jobset, active=1)
        await anyio.sleep(READY_AFTER_S)
        await self._report(jobset, active=1, ready=1)
        await anyio.sleep(self._life_s)
        completed = {
            "type": "Completed",
            "status": "True",
            "reason": "AllJobsCompleted",
            "message": "jobset completed successfully",
            "lastTransitionTime": format_time(system_env().clock.now()),
        }
        await self._report(jobset, {"conditions": [completed], "terminalState": "Completed"}, succeeded=1)

    async def _report(self, jobset: JobSet, more: Json | None = None, **counts: int) -> None:
        names = ("ready", "succeeded", "failed", "active", "suspended")
        counters = {"name": "node", **{name: counts.get(name, 0) for name in names}}
        status = {"replicatedJobsStatus": [counters], "restarts": 0, **(more or {})}
        await self._client.patch(JOBSETS, jobset.key, {"status": status}, subresource="status")


@dataclass(frozen=True, slots=True)
class Lives:
    """What a number of lives cost one controller."""

    cpu_ms: float
    memory_mb: tuple[float, float]
    writes: int
    reads: int
    repeated: int
    idle: int
    sent_bytes: int
    by_kind: Counter[str]


def life(*, smoke: bool) -> Outcome:
    """The operator, and a controller with no logic, each against a server of its own."""
    script, runs = (Script(3, 0.1, 0.1), 1) if smoke else (Script(200, 1.5, 5.0), 3)
    jobs = script.jobs
    subjects: list[Lives] = []
    baselines: list[Lives] = []
    if not smoke:
        anyio.run(partial(_lives, Script(1, 0.0, 0.0), null=False))  # compiles the bytecode
    for _ in range(runs):
        subjects.append(anyio.run(partial(_lives, script, null=False)))
        baselines.append(anyio.run(partial(_lives, replace(script, idle_s=0.0), null=True)))
    baseline = Figure("null controller: CPU", "ms/life", [one.cpu_ms / jobs for one in baselines])
    memory = [(after - before) * 1e3 / jobs for before, after in (one.memory_mb for one in subjects)]
    figures = [
        baseline,
        Figure("operator: CPU", "ms/life", [one.cpu_ms / jobs for one in subjects], Goal(2), _short(baseline)),
        Figure("operator: writes", "per life", [one.writes / jobs for one in subjects], Goal(4)),
        Figure("operator: bytes sent", "per life", [one.sent_bytes / jobs for one in subjects]),
        Figure("operator: reads", "in all", [one.reads for one in subjects], Goal(0)),
        Figure("operator: repeated writes", "in all", [one.repeated for one in subjects], Goal(0)),
        Figure(
            f"operator: requests in {script.idle_s:g} s after the end",
            "in all",
            [one.idle for one in subjects],
            Goal(0),
        ),
        Figure("operator: memory before", "MB", [one.memory_mb[0] for one in subjects]),
        Figure("operator: memory grown", "KB/life", memory),
    ]
    counts = ", ".join(f"{number} {kind}" for kind, number in sorted(subjects[-1].by_kind.items()))
    return Outcome(figures, [f"writes of {jobs} lives: {counts}"])


def _short(baseline: Figure) -> Figure:
    return Figure("null controller", baseline.unit, baseline.values)


async def _lives(script: Script, *, null: bool) -> Lives:
    requests = Requests()
    server = CountingServer(requests)
    token = secrets.token_urlsafe(16)
    async with server.running(), serve_http(server, token=token) as url:
        client = Client(server.transport(), system_env(), field_manager="benchmarks")
        for runtime in (document.object for document in load(assets.runtime_files())):
            await client.apply(resource_of(runtime), runtime)
        with tempfile.TemporaryDirectory(prefix="ktrain-bench-") as directory:
            command = _null_command(url, token) if null else _operator_command(url, token, Path(directory))
            with started_program(command, Path(directory)) as process:
                return await _live(client, requests, process.pid, script)


def _null_command(url: str, token: str) -> Sequence[str]:
    return (sys.executable, "-m", "benchmarks.null_controller", url, token)


def _operator_command(url: str, token: str, directory: Path) -> Sequence[str]:
    file = directory / "kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "it",
        "clusters": [{"name": "it", "cluster": {"server": url}}],
        "users": [{"name": "it", "user": {"token": token}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
    }
    file.write_text(json.dumps(config))
    off = ("--no-leader-elect", "--metrics-bind-address", "0", "--health-probe-bind-address", "0")
    return (*KTRAIN, "operator", "--kubeconfig", str(file), *off)


async def _live(client: Client, requests: Requests, pid: int, script: Script) -> Lives:
    cache = Cache(client, system_env())
    train_jobs = cache.informer(TRAIN_JOBS)
    async with anyio.create_task_group() as group:
        await group.start(cache.run)
        cache.informer(JOBSETS).add_handler(JobSetPlayer(client, group, script.life_s))
        await _complete(client, Arrivals(train_jobs, 1, _is_complete), ["warm-up"])
        await anyio.sleep(min(SETTLE_S, script.idle_s))
        requests.clear()
        memory, cpu = resident_mb(pid), cpu_ms(pid)
        names = [f"job-{number:03}" for number in range(script.jobs)]
        await _complete(client, Arrivals(train_jobs, 1 + script.jobs, _is_complete), names)
        cpu, memory_after = cpu_ms(pid) - cpu, resident_mb(pid)
        in_life = requests.total
        await anyio.sleep(script.idle_s)
        group.cancel_scope.cancel()
    return Lives(
        cpu_ms=cpu,
        memory_mb=(memory, memory_after),
        writes=len(requests.writes),
        reads=len(requests.reads) + requests.watches,
        repeated=requests.repeated,
        idle=requests.total - in_life,
        sent_bytes=sum(len(body) for _, _, body in requests.writes),
        by_kind=requests.by_kind(),
    )


async def _complete(client: Client, done: Arrivals[TrainJob], names: Sequence[str]) -> None:
    for name in names:
        await client.create(TRAIN_JOBS, train_job(name, command=["true"], nodes=NODES))
    await done.wait(PATIENCE_S)


def _is_complete(job: TrainJob) -> bool:
    return any(condition.type == CONDITION_COMPLETE and condition.is_true for condition in job.status.conditions)
