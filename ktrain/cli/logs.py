"""The logs of a job's pods, followed from each container's first line to its last."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

import anyio

from ktrain.api.core import PODS, ContainerStateTerminated, Pod
from ktrain.framework.errors import TransportError, error_from

from .follow import node_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio.abc import TaskGroup

    from ktrain.framework.client.transport import Transport

TAIL_LINES: Final = 200
MAX_LINE: Final = 16 << 10
RETRIES: Final = 3
# A container may be silent for as long as it likes; the follower ends with the run.
SILENCE_S: Final = 7 * 86400.0


class LogFollower:
    """
    Streams the log of every container that has started, once per attempt, into `show(source, line)`.

    `tails` keeps the last lines of each (pod, container) for the explanation of a failure.
    """

    def __init__(self, transport: Transport, group: TaskGroup, show: Callable[[str, str], None]) -> None:
        self._transport = transport
        self._group = group
        self._show = show
        self._seen: set[tuple[str, str, int]] = set()
        self._open = 0
        self._shown = 0
        self._idle = anyio.Event()
        self._idle.set()
        self.tails: dict[tuple[str, str], deque[str]] = {}

    def update(self, pods: list[Pod]) -> None:
        """Start following containers that have started since the last call. Never waits."""
        for pod in pods:
            several = len(pod.spec.containers) + len(pod.spec.init_containers) > 1
            for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
                source = f"{node_name(pod)}/{status.name}" if several else node_name(pod)
                if _has_run(status.last_state.terminated):
                    self._follow_once(pod, status.name, status.restart_count - 1, source, [("previous", "true")])
                if status.state.running or _has_run(status.state.terminated):
                    self._follow_once(pod, status.name, status.restart_count, source, [("follow", "true")])

    async def drain(self, patience_s: float) -> None:
        """Wait until all logs have ended, as long as lines keep coming: at most `patience_s` seconds without one."""
        shown = -1
        while self._open and shown != self._shown:
            shown = self._shown
            with anyio.move_on_after(patience_s):
                await self._idle.wait()

    def _follow_once(self, pod: Pod, container: str, attempt: int, source: str, query: list[tuple[str, str]]) -> None:
        key = (pod.metadata.uid, container, attempt)
        if key not in self._seen:
            self._seen.add(key)
            self._begin()
            self._group.start_soon(self._follow, pod, container, source, [("container", container), *query])

    def _begin(self) -> None:
        self._open += 1
        if self._open == 1:
            self._idle = anyio.Event()

    def _end(self) -> None:
        self._open -= 1
        if not self._open:
            self._idle.set()

    async def _follow(self, pod: Pod, container: str, source: str, query: list[tuple[str, str]]) -> None:
        tail = self.tails.setdefault((pod.metadata.name, container), deque(maxlen=TAIL_LINES))
        path = PODS.path(pod.metadata.namespace, pod.metadata.name, "log")
        problem = ""
        try:
            for attempt in range(RETRIES):
                await anyio.sleep(attempt)
                try:
                    problem = await self._stream(path, query, source, tail)
                except TransportError as error:
                    problem = str(error)
                    query = [*query, ("sinceSeconds", "1")]
                    self._show(source, f"(some of this log may be missing: {error})")
                if not problem:
                    return
            self._show(source, f"(no more of this log: {problem})")
        finally:
            self._end()

    async def _stream(self, path: str, query: list[tuple[str, str]], source: str, tail: deque[str]) -> str:
        """Show the log to its end. Returns why it could not be had; empty if all is well, or the pod is gone."""
        async with self._transport.stream(path, query=query, idle_timeout_s=SILENCE_S) as answer:
            if answer.status == 404:
                return ""
            if answer.status != 200:
                body = b"".join([line async for line in answer.lines])
                return str(error_from(answer.status, body, method="GET", path=path))
            async for raw in answer.lines:
                # Of a line that was overwritten, as progress bars do, the last state counts.
                line = raw[-MAX_LINE:].decode("utf-8", "replace").rstrip("\r").rpartition("\r")[2]
                self._shown += 1
                tail.append(line)
                self._show(source, line)
        return ""


def _has_run(ended: ContainerStateTerminated | None) -> bool:
    return ended is not None and ended.reason != "StartError"
