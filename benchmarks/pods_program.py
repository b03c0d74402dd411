"""
A control plane that starts the pods of one Job: `python -m benchmarks.pods_program ns|host PODS`.

Prints one line of JSON (see `Started`) when the Job says that all of its pods are ready, and ends.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import anyio

from ktrain.api.meta import Resource
from ktrain.cli.main import GC_THRESHOLDS
from ktrain.framework import Client, system_env
from ktrain.framework.telemetry.logging import configure
from ktrain.local.plane import ControlPlane

from .processes import PATIENCE_S, cpu_ms

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.local.plane import PodMode

JOBS: Final = Resource("batch", "v1", "Job", "jobs", namespaced=True, type=dict)
_POLL_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Started:
    """What it took, from the Job's creation: by the clock, and of CPU time here and in all processes below."""

    wall_ms: float
    plane_ms: float
    below_ms: float


def _job(pods: int) -> Json:
    container = {"name": "c", "image": "none", "command": ["sleep", "600"]}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}
    parallel = {"parallelism": pods, "completions": pods, "completionMode": "Indexed"}
    return {"metadata": {"name": "j", "namespace": "default"}, "spec": {**parallel, "template": {"spec": spec}}}


async def _start(mode: PodMode, pods: int) -> Started:
    env = system_env()
    async with ControlPlane(env, pods=mode, listen=("127.0.0.1", 0)).running() as plane:
        client = Client(plane.transport, env, field_manager="benchmark")
        begun, plane_ms, below_ms = time.monotonic(), cpu_ms(os.getpid()), _below_ms()
        await client.create(JOBS, _job(pods))
        with anyio.fail_after(PATIENCE_S):
            while await _ready(client) != pods:  # noqa: ASYNC110 -- a watch would be work of its own
                await anyio.sleep(_POLL_S)
        wall_ms = (time.monotonic() - begun) * 1e3
        started = Started(wall_ms, cpu_ms(os.getpid()) - plane_ms, _below_ms() - below_ms)
        await plane.kill()
    return started


async def _ready(client: Client) -> int:
    job: Json = await client.get(JOBS, "j", "default")
    return int(job.get("status", {}).get("ready", 0))


def _below_ms() -> float:
    """CPU time of all processes below this one, those that have ended and been waited for included."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            fields = _stat(entry)
            if fields:
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    below, found = list(children.get(os.getpid(), [])), 0.0
    while below:
        pid = below.pop()
        below += children.get(pid, [])
        with suppress(OSError):  # It has just ended: its parent has its time now.
            found += cpu_ms(pid) + sum(map(int, _stat(Path(f"/proc/{pid}"))[13:15])) * 1e3 / os.sysconf("SC_CLK_TCK")
    return found


def _stat(process: Path) -> list[str]:
    """Return the fields of proc_pid_stat(5) from the third on; none when the process has ended."""
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def main() -> None:
    """Run and print."""
    gc.set_threshold(*GC_THRESHOLDS)
    configure(level="error")
    mode, pods = sys.argv[1:]
    print(json.dumps(asdict(anyio.run(_start, cast("PodMode", mode), int(pods)))), flush=True)


if __name__ == "__main__":
    main()
