"""
Whatever clients send, the server answers, and what it stores stays in order.

Some hundred objects here; `KTRAIN_FUZZ_OBJECTS=10000` for many, `KTRAIN_FUZZ_SEED=n` for others.
"""

from __future__ import annotations

import asyncio
import os
import random

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from ktrain.api import assets
from ktrain.framework.env import system_env
from ktrain.local.apiserver.server import ApiServer

from .acting import Chaos, check, resources_of

OBJECTS = int(os.environ.get("KTRAIN_FUZZ_OBJECTS", "400"))
EACH = 40
"""Objects that meet on one server."""


async def rampage(number: int) -> None:
    with capture_logs() as logs:
        await _rampage(number)
    # The server's own controllers go on after what they cannot work on, but they say so.
    assert [entry for entry in logs if entry["log_level"] in ("error", "critical")] == []


async def _rampage(number: int) -> None:
    server = ApiServer(system_env(), crds=assets.crds())
    async with server.running():
        chaos = Chaos(server, random.Random(number))
        for _ in range(EACH):
            await chaos.object([one for one in resources_of(server) if "create" in one.verbs])
        await asyncio.sleep(0)
        await check(server)


@seed(int(os.environ.get("KTRAIN_FUZZ_SEED", "20261121")))
@settings(max_examples=OBJECTS // EACH, database=None, suppress_health_check=list(HealthCheck))
@given(number=st.integers(0, 2**32))
def test_nothing_that_clients_send_breaks_the_server_or_its_store(number):
    asyncio.run(rampage(number))
