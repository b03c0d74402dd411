"""
What the operator asks of an API server, and of the machine, in the whole life of a TrainJob.

`ktrain operator` is a process of its own and goes through a proxy, which notes its calls. The benchmark plays the
JobSet controller: it makes each JobSet's pods active, then ready, then the JobSet Completed, each with a patch of its
status, spread over about two seconds as real starts are spread over more. The baseline is `null_controller`: the same
writes by a program that only echoes. To the embedded server the proxy speaks plain HTTP, to the real one TLS.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from ktrain.api.jobset import JOBSETS
from ktrain.api.trainer import TRAIN_JOBS
from ktrain.framework import Cache, system_env
from ktrain.testing.proxy import fault_proxy

from .arrivals import Arrivals
from .figures import Figure, Goal, Outcome
from .processes import PATIENCE_S, cpu_ms, resident_mb
from .servers import client_of, notes, servers
from .trainers import (
    MPI,
    MPI_SHARED,
    TORCH,
    TORCH_SHARED,
    JobSetPlayer,
    canned,
    clean,
    create_all,
    has_ended,
    install_runtimes,
    null_controller,
    operator,
)

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from ktrain.framework import Client
    from ktrain.testing.faults.calls import Call
    from ktrain.testing.proxy import FaultProxy

    from .trainers import Kind

    Subject = Callable[[Path], AbstractContextManager[subprocess.Popen[str]]]
    """Runs a controller of TrainJobs against the server of a kubeconfig."""

SETTLE_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Script:
    """How many lives, how long each, and for how long afterwards nothing may happen."""

    jobs: int
    life_s: float
    idle_s: float


@dataclass(frozen=True, slots=True)
class Lives:
    """What a number of lives cost one controller."""

    cpu_ms: float
    grown_mb: float
    writes: Sequence[Call]
    reads: int
    idle: int

    @property
    def repeated(self) -> int:
        """Writes whose like, byte for byte, was sent before."""
        return len(self.writes) - len({(call.method, call.path, call.body) for call in self.writes})

    @property
    def sent_bytes(self) -> int:
        return sum(len(call.body or b"") for call in self.writes)

    @property
    def by_kind(self) -> str:
        """Writes by verb and kind: `200 patch jobsets`."""
        counts = Counter(f"{call.verb} {_kind(call)}" for call in self.writes)
        return ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items()))


def _kind(call: Call) -> str:
    route = call.route
    return "/".join(filter(None, (route.plural, route.subresource))) if route else call.path


def life(*, smoke: bool) -> Outcome:
    """A TrainJob's whole life: calls and CPU of the operator, and of a controller with no logic that sends the same."""
    script, runs = (Script(3, 0.1, 0.1), 1) if smoke else (Script(200, 1.5, 5.0), 3)
    figures: list[Figure] = []
    texts: list[str] = []
    for name, server in servers(smoke=smoke).items():
        with server() as kubeconfig:
            anyio.run(install_runtimes, kubeconfig)
            run = partial(_run, kubeconfig, tls=name == "real")
            null = partial(null_controller, canned=canned(kubeconfig, TORCH))
            subjects: list[Lives] = []
            baselines: list[Lives] = []
            for _ in range(runs):
                subjects.append(run(partial(operator, kind=TORCH), TORCH, script))
                baselines.append(run(null, TORCH, replace(script, idle_s=0.0)))
            figures += _costs(f"{name}, torch", subjects, baselines, script)
            for kind in (TORCH, TORCH_SHARED, MPI, MPI_SHARED):
                found = subjects[-1] if kind is TORCH else run(partial(operator, kind=kind), kind, script)
                figures += _calls(f"{name}, {kind.name}", kind, found, script)
                texts.append(f"{name}, {kind.name}, writes of {script.jobs} lives: {found.by_kind}")
    return Outcome(figures, [*texts, *notes(smoke=smoke)])


def _costs(name: str, subjects: Sequence[Lives], baselines: Sequence[Lives], script: Script) -> list[Figure]:
    null = Figure("null controller", "ms/life", [one.cpu_ms / script.jobs for one in baselines])
    return [
        replace(null, name=f"{name}: CPU of the null controller"),
        Figure(f"{name}: CPU", "ms/life", [one.cpu_ms / script.jobs for one in subjects], Goal(2), null),
        Figure(f"{name}: bytes sent", "per life", [one.sent_bytes / script.jobs for one in subjects]),
        Figure(f"{name}: memory grown", "KB/life", [one.grown_mb * 1e3 / script.jobs for one in subjects]),
    ]


def _calls(name: str, kind: Kind, found: Lives, script: Script) -> list[Figure]:
    return [
        Figure(f"{name}: writes", "per life", [len(found.writes) / script.jobs], Goal(kind.writes)),
        Figure(f"{name}: reads", "in all", [found.reads], Goal(0)),
        Figure(f"{name}: repeated writes", "in all", [found.repeated], Goal(0)),
        Figure(f"{name}: calls in {script.idle_s:g} s after the end", "in all", [found.idle], Goal(0)),
    ]


def _run(kubeconfig: str, subject: Subject, kind: Kind, script: Script, *, tls: bool) -> Lives:
    return anyio.run(partial(_lives, kubeconfig, subject, kind, script, tls=tls))


async def _lives(kubeconfig: str, subject: Subject, kind: Kind, script: Script, *, tls: bool) -> Lives:
    async with client_of(kubeconfig) as client, fault_proxy(Path(kubeconfig), tls=tls) as proxy:
        with subject(proxy.kubeconfig) as process:
            found = await _live(client, proxy, process.pid, kind, script)
        await clean(client)
    return found


async def _live(client: Client, proxy: FaultProxy, pid: int, kind: Kind, script: Script) -> Lives:
    cache = Cache(client, system_env())
    train_jobs = cache.informer(TRAIN_JOBS)
    async with anyio.create_task_group() as group:
        await group.start(cache.run)
        cache.informer(JOBSETS).add_handler(JobSetPlayer(client, group, script.life_s))
        first = Arrivals(train_jobs, 1, has_ended)
        await create_all(client, kind, ["warm-up"])
        await first.wait(PATIENCE_S)
        await anyio.sleep(min(SETTLE_S, script.idle_s))
        proxy.log.clear()
        memory, cpu = resident_mb(pid), cpu_ms(pid)
        done = Arrivals(train_jobs, 1 + script.jobs, has_ended)
        await create_all(client, kind, [f"job-{number:03}" for number in range(script.jobs)])
        await done.wait(PATIENCE_S)
        cpu, memory = cpu_ms(pid) - cpu, resident_mb(pid) - memory
        calls = proxy.log.find()
        await anyio.sleep(script.idle_s)
        group.cancel_scope.cancel()
    writes = [call for call in calls if "write" in call.verbs]
    return Lives(cpu, memory, writes, len(calls) - len(writes), len(proxy.log.find()) - len(calls))
