"""The transport into this process keeps what every transport promises."""

from __future__ import annotations

import asyncio
import time

import pytest

from ktrain.api.core import CONFIG_MAPS
from ktrain.framework.client.client import Client
from ktrain.framework.errors import TransportError
from ktrain.local.apiserver.front.inprocess import InProcessTransport
from ktrain.local.apiserver.requests import Answer, User
from ktrain.local.apiserver.server import ApiServer
from ktrain.testing.time import Stoppable, simulate

BODY = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late", "namespace": "default"}}


@pytest.mark.parametrize(("stopped_s", "sent"), [(4.0, True), (60.0, False)])
def test_a_process_that_was_stopped_past_the_time_of_a_call_does_not_send_it(stopped_s, sent):
    async def scenario(env):
        client = Client(ApiServer(env).transport(), env, field_manager="test", timeout_s=5)
        process = Stoppable()
        with process.inside():
            writing = asyncio.create_task(client.create(CONFIG_MAPS, BODY))
        await asyncio.sleep(0)  # begun, and about to send
        process.stop()
        await env.clock.sleep(stopped_s)
        process.resume()
        (result,) = await asyncio.gather(writing, return_exceptions=True)
        stored = (await client.list(CONFIG_MAPS, "default")).items
        return isinstance(result, TransportError), [obj.metadata.name for obj in stored]

    assert simulate(scenario) == (not sent, ["late"] if sent else [])


async def test_a_line_that_gets_longer_and_longer_costs_each_piece_once():
    pieces = 12_000

    async def log():
        for _ in range(pieces):
            yield b"x" * 1024
        yield b"end\nnext"

    async def handle(_request):
        return Answer(200, chunks=log())

    began = time.process_time()
    async with InProcessTransport(handle, User("somebody")).stream("/log") as stream:
        lines = [line async for line in stream.lines]

    assert [len(line) for line in lines] == [pieces * 1024 + 3, 4]
    assert time.process_time() - began < 2  # joining what is there with each piece would copy 74 GB
