"""
What the benchmarks of TrainJobs have in common: kinds of jobs, the programs that control them, and who plays JobSets.

`ktrain operator` and the null controller are processes of their own. What the null controller sends is what the
operator was seen to send for one job of the kind, byte for byte but for name and UID (`canned`).
"""

from __future__ import annotations

import json
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio
import msgspec

from ktrain.api import assets
from ktrain.api.core import CONFIG_MAPS, SECRETS
from ktrain.api.documents import load, resource_of
from ktrain.api.jobset import JOBSETS, JobSet
from ktrain.api.meta import Key, format_time
from ktrain.api.trainer import TRAIN_JOBS, TrainJob
from ktrain.framework import Cache, Client, system_env
from ktrain.testing.proxy import fault_proxy

from .arrivals import Arrivals
from .null_controller import Canned, Sent
from .objects import NAMESPACE, train_job
from .processes import KTRAIN, PATIENCE_S, started_program
from .servers import client_of

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Sequence

    from anyio.abc import TaskGroup

    from ktrain.api.meta import Json, Resource
    from ktrain.testing.faults.calls import Call

NODES: Final = 2
READY_AFTER_S: Final = 0.1
CANNED_NAME: Final = "canned-job"
_OFF: Final = ("--no-leader-elect", "--metrics-bind-address", "0", "--health-probe-bind-address", "0")
_SHARED: Final = "apiVersion: config.trainer.kubeflow.org/v1alpha1\nkind: Configuration\nsnapshots: shared\n"


@dataclass(frozen=True, slots=True)
class Kind:
    """Jobs of one runtime, with a snapshot for each of them or one for all. `writes`: at most so many in a life."""

    name: str
    runtime: str
    writes: int
    shared: bool = False

    def job(self, name: str) -> Json:
        return train_job(name, command=["python", "train.py"], nodes=NODES, runtime=self.runtime)


TORCH: Final = Kind("torch", "torch-distributed", 4)
TORCH_SHARED: Final = Kind("torch, shared", "torch-distributed", 3, shared=True)
MPI: Final = Kind("MPI", "deepspeed-distributed", 5)
MPI_SHARED: Final = Kind("MPI, shared", "deepspeed-distributed", 4, shared=True)


@contextmanager
def operator(kubeconfig: Path, kind: Kind) -> Iterator[subprocess.Popen[str]]:
    """Run `ktrain operator`. It may not follow the API server yet: have a first job done before anything counts."""
    with tempfile.TemporaryDirectory(prefix="ktrain-bench-") as directory:
        config: tuple[str, ...] = ()
        if kind.shared:
            file = Path(directory) / "config.yaml"
            file.write_text(_SHARED)
            config = ("--config", str(file))
        command = (*KTRAIN, "operator", "--kubeconfig", str(kubeconfig), *config, *_OFF)
        with started_program(command, Path(directory)) as process:
            yield process


@contextmanager
def null_controller(kubeconfig: Path, canned: Canned) -> Iterator[subprocess.Popen[str]]:
    """Run the null controller."""
    with tempfile.TemporaryDirectory(prefix="ktrain-bench-") as directory:
        file = Path(directory) / "canned.json"
        file.write_text(json.dumps(asdict(canned)))
        command = (sys.executable, "-m", "benchmarks.null_controller", str(kubeconfig), str(file))
        with started_program(command, Path(directory)) as process:
            yield process


class JobSetPlayer:
    """
    Plays the JobSet controller: makes each JobSet's pods active, then ready, after `life_s` all of it Completed.

    Without a life they stay as they are.
    """

    def __init__(self, client: Client, group: TaskGroup, life_s: float | None) -> None:
        self._client = client
        self._group = group
        self._life_s = life_s

    def on_add(self, obj: JobSet, *, initial: bool) -> None:
        self._group.start_soon(self._play, obj)

    def on_update(self, old: JobSet, new: JobSet) -> None:
        pass

    def on_delete(self, obj: JobSet) -> None:
        pass

    async def _play(self, jobset: JobSet) -> None:
        await self._report(jobset, active=1)
        await anyio.sleep(READY_AFTER_S)
        await self._report(jobset, active=1, ready=1)
        if self._life_s is None:
            return
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
        counters = [
            {"name": job.name, **{name: counts.get(name, 0) for name in names}} for job in jobset.spec.replicated_jobs
        ]
        status = {"replicatedJobsStatus": counters, "restarts": 0, **(more or {})}
        await self._client.patch(JOBSETS, jobset.key, {"status": status}, subresource="status")


def has_ended(job: TrainJob) -> bool:
    """For `Arrivals`."""
    return job.is_finished


async def install_runtimes(kubeconfig: str) -> None:
    """Apply the runtimes that ktrain ships."""
    async with client_of(kubeconfig) as client:
        for runtime in (document.object for document in load(assets.runtime_files())):
            await client.apply(resource_of(runtime), runtime)


async def clean(client: Client) -> None:
    """Remove all jobs and what came of them: no garbage collector runs here."""
    resources: tuple[Resource[Any], ...] = (TRAIN_JOBS, JOBSETS, CONFIG_MAPS, SECRETS)
    for resource in resources:
        await client.raw("DELETE", resource.path(NAMESPACE), timeout_s=PATIENCE_S)  # one after the other


def canned(kubeconfig: str, kind: Kind) -> Canned:
    """Have the operator work on one job, through a proxy that sees what it sends."""
    return anyio.run(partial(_canned, kubeconfig, kind))


async def _canned(kubeconfig: str, kind: Kind) -> Canned:
    async with client_of(kubeconfig) as client, fault_proxy(Path(kubeconfig), tls=False) as proxy:
        with operator(proxy.kubeconfig, kind):
            cache = Cache(client, system_env())
            done = Arrivals(cache.informer(TRAIN_JOBS), 1, has_ended)
            async with anyio.create_task_group() as group:
                await group.start(cache.run)
                cache.informer(JOBSETS).add_handler(JobSetPlayer(client, group, 1.0))
                await client.create(TRAIN_JOBS, kind.job(CANNED_NAME))
                await done.wait(PATIENCE_S)
                group.cancel_scope.cancel()
            job = await client.get(TRAIN_JOBS, *reversed(Key(NAMESPACE, CANNED_NAME)))
            await clean(client)
        writes = [call for call in proxy.log.find("write") if CANNED_NAME in f"{call.path}{call.body!r}"]
    statuses = [_sent(call) for call in writes if call.concerns("trainjobs/status")]
    objects = [_sent(call) for call in writes if not call.concerns("trainjobs")]
    return Canned(CANNED_NAME, job.metadata.uid, objects, statuses)


def _sent(call: Call) -> Sent:
    query = "&".join(f"{name}={value}" for name, value in call.query)
    media = {name.lower(): value for name, value in call.headers.items()}["content-type"]
    body: Json = msgspec.json.decode(call.body or b"{}")
    if "status" in body:
        body.pop("metadata", None)  # the version that it was about
    return Sent(call.method, f"{call.path}?{query}", media, json.dumps(body))


async def create_all(client: Client, kind: Kind, names: Sequence[str]) -> None:
    """Create jobs, one after the other."""
    for name in names:
        await client.create(TRAIN_JOBS, kind.job(name))
