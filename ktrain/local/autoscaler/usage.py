"""
How much CPU the processes of pods have used, from /proc.

A container's time is that of its main process, of all processes below it, and of those of them that have ended and were
waited for. Where there is no /proc (not on Linux) nothing is known, and autoscalers say so.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import anyio.to_thread

from ktrain.local.sandbox.helper.tree import descendants

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from ktrain.api.meta import Json
    from ktrain.local.apiserver.backend import NodeAgents


class CpuTimes(Protocol):
    """Tells how many CPU seconds pods have used since their start, by UID; pods of which it is not known are absent."""

    async def __call__(self, pods: Sequence[Json]) -> Mapping[str, float]:
        """Return the times of these pods."""


def node_cpu_times(agents: NodeAgents) -> CpuTimes:
    """Return the CPU times of the pods that kubelets of this machine run."""

    async def times(pods: Sequence[Json]) -> Mapping[str, float]:
        running = {pod["metadata"]["uid"]: _processes(agents, pod) for pod in pods}
        return await anyio.to_thread.run_sync(_read, running)

    return times


def cpu_seconds(roots: Collection[int]) -> float | None:
    """Return the CPU seconds of these processes and of all below them. Blocks. None: one of the roots has ended."""
    total = 0
    for pid in roots:
        if (own := _ticks(pid)) is None:
            return None
        total += own
    for pid in descendants(set(roots)):
        total += _ticks(pid) or 0  # It may have ended meanwhile.
    return total / os.sysconf("SC_CLK_TCK")


def _processes(agents: NodeAgents, pod: Json) -> tuple[int, ...]:
    agent = agents.of(pod)
    return agent.processes(pod["metadata"]["namespace"], pod["metadata"]["name"]) if agent else ()


def _read(running: Mapping[str, Collection[int]]) -> dict[str, float]:
    found = {uid: cpu_seconds(pids) for uid, pids in running.items() if pids}
    return {uid: seconds for uid, seconds in found.items() if seconds is not None}


def _ticks(pid: int) -> int | None:
    """Return user and system time, with those of children that were waited for (proc_pid_stat(5), 14 to 17)."""
    try:
        # The command name may hold blanks and brackets: fields are counted from its last bracket.
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return sum(int(field) for field in fields[11:15])
