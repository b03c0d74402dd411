"""Logs that are followed."""

from __future__ import annotations

import anyio

from ktrain.api.core import ContainerState, ContainerStateRunning, ContainerStatus, Pod, PodStatus
from ktrain.api.meta import ObjectMeta
from ktrain.cli.logs import LogFollower
from ktrain.local.apiserver.front.inprocess import InProcessTransport
from ktrain.local.apiserver.requests import Answer, User
from ktrain.testing.time import simulate

POD = Pod(
    metadata=ObjectMeta(name="p", namespace="default", uid="u"),
    status=PodStatus(
        container_statuses=(ContainerStatus(name="node", state=ContainerState(running=ContainerStateRunning())),)
    ),
)


def test_what_of_a_log_cannot_be_shown_is_said_and_its_rest_is_shown():
    async def scenario(_env):
        shown = []

        async def endless():
            for _ in range(17):
                yield b"x" * (1 << 20)

        async def rest():
            yield b"the rest\n"

        async def handle(request):
            return Answer(200, chunks=rest() if ("sinceSeconds", "1") in request.query else endless())

        async with anyio.create_task_group() as group:
            follower = LogFollower(
                InProcessTransport(handle, User("me")), group, lambda source, line: shown.append((source, line))
            )
            follower.update([POD])
            await follower.drain(5)
        return [line.partition(":")[0] for _, line in shown]

    assert simulate(scenario) == ["(some of this log may be missing", "the rest"]
