"""
A local run that tells when it got where: `python -m benchmarks.stages ns|host JOB.yaml START` prints JSON.

It takes the way of `ktrain run` through the same functions, without display, and prints the milliseconds of each stage:
from START (on the monotonic clock, when the process was started) to the imports' end, then to the running control
plane, to the TrainJob on the server, to the first pod that has started, to the first line of any rank.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

import anyio

from ktrain.api import documents
from ktrain.cli import running  # noqa: F401 -- imported because `ktrain run` imports it
from ktrain.cli.follow import Follower
from ktrain.cli.logs import LogFollower
from ktrain.cli.session import Session, local_session
from ktrain.cli.submit import read, submit
from ktrain.framework import Cache
from ktrain.framework.env import system_env
from ktrain.framework.logging import configure
from ktrain.local import plane  # noqa: F401 -- `ktrain run` imports it when it starts one

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from ktrain.cli.submit import Submission
    from ktrain.local.plane import PodMode


class Changes:
    """Wakes one waiter after any change of the job."""

    def __init__(self, follower: Follower) -> None:
        self._event = anyio.Event()
        for informer in follower.informers:
            informer.add_handler(self)

    def on_add(self, _obj: object, *, initial: bool) -> None:  # noqa: ARG002 -- the handler's signature
        self._event.set()

    def on_update(self, _old: object, _new: object) -> None:
        self._event.set()

    def on_delete(self, _obj: object) -> None:
        self._event.set()

    async def wait(self) -> None:
        await self._event.wait()
        self._event = anyio.Event()


class Stopwatch:
    """Remembers when each stage was reached for the first time."""

    def __init__(self, start_s: float) -> None:
        self._last_s = start_s
        self.took_ms: dict[str, float] = {}

    def reached(self, stage: str) -> None:
        if stage not in self.took_ms:
            now_s = time.monotonic()
            self.took_ms[stage] = (now_s - self._last_s) * 1e3
            self._last_s = now_s


async def run(pods: PodMode, submission: Submission, watch: Stopwatch) -> None:
    """Run the job to its end."""
    env = system_env()
    async with local_session(env, pods=pods, serve=False) as session:
        watch.reached("plane up")
        cache = Cache(session.client, env)
        follower = Follower(cache, submission.key)
        async with anyio.create_task_group() as group:
            group.start_soon(cache.run)
            job = await submit(session.client, submission, create_namespaces=True)
            follower.uid = job.metadata.uid
            watch.reached("submitted")
            await follow(group, session, follower, watch)
            group.cancel_scope.cancel()


async def follow(group: TaskGroup, session: Session, follower: Follower, watch: Stopwatch) -> None:
    """Follow pods and logs until the job has ended."""
    changes = Changes(follower)
    logs = LogFollower(session.client.transport, group, lambda _source, _line: watch.reached("first line"))
    while not (follower.job and follower.job.is_finished):
        if any(pod.status.phase not in ("", "Pending") for pod in follower.all_pods):
            watch.reached("pod started")
        logs.update(follower.all_pods)
        await changes.wait()
    logs.update(follower.all_pods)
    await logs.drain(5.0)


def main() -> None:
    """Run once and print."""
    mode, file, start = sys.argv[1:]
    pods: PodMode = "ns" if mode == "ns" else "host"
    configure(level="error")
    watch = Stopwatch(float(start))
    watch.reached("imported")
    submission = read([document.object for document in documents.load([file])], "default")
    anyio.run(run, pods, submission, watch)
    print(json.dumps(watch.took_ms))


if __name__ == "__main__":
    main()
