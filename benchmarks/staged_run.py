"""A local run that tells when it got where (see `stages`): `ktrain run` by the same functions, without display."""

from __future__ import annotations

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
from ktrain.framework.telemetry.logging import configure
from ktrain.local import plane  # noqa: F401 -- `ktrain run` imports it when it starts one

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio.abc import TaskGroup

    from ktrain.cli.submit import Submission
    from ktrain.local.plane import PodMode


class Changes:
    """Wakes one waiter after any change of the job."""

    def __init__(self, follower: Follower) -> None:
        self._event = anyio.Event()
        for informer in follower.informers:
            informer.add_handler(self)

    def on_add(self, obj: object, *, initial: bool) -> None:
        self._event.set()

    def on_update(self, old: object, new: object) -> None:
        self._event.set()

    def on_delete(self, obj: object) -> None:
        self._event.set()

    async def wait(self) -> None:
        await self._event.wait()
        self._event = anyio.Event()


async def run(pods: PodMode, submission: Submission, reached: Callable[[str], None]) -> None:
    """Run the job to its end."""
    env = system_env()
    async with local_session(env, pods=pods, serve=False) as session:
        reached("plane up")
        job = await submit(session.client, submission, is_local=True)
        reached("submitted")
        cache = Cache(session.client, env)
        follower = Follower(cache, job)
        async with anyio.create_task_group() as group:
            group.start_soon(cache.run)
            await follow(group, session, follower, reached)
            group.cancel_scope.cancel()


async def follow(group: TaskGroup, session: Session, follower: Follower, reached: Callable[[str], None]) -> None:
    """Follow pods and logs until the job has ended."""
    changes = Changes(follower)
    logs = LogFollower(session.client.transport, group, lambda _source, _line: reached("first line"))
    while not (follower.job and follower.job.is_finished):
        if any(pod.status.phase not in ("", "Pending") for pod in follower.all_pods):
            reached("pod started")
        logs.update(follower.all_pods)
        await changes.wait()
    logs.update(follower.all_pods)
    await logs.drain(5.0)


def execute(pods: PodMode, file: str, reached: Callable[[str], None]) -> None:
    """Run the job of a file to its end."""
    configure(level="error")
    reached("imported")
    submission = read([document.object for document in documents.load([file])], "default")
    anyio.run(run, pods, submission, reached)
