"""Events stay for a while after they were last written."""

import dataclasses
from datetime import timedelta

import pytest

from ktrain.framework.env import system_env
from ktrain.local.apiserver.server import ApiServer

EVENTS = "/api/v1/namespaces/default/events"


class _Shifted:
    """The system's clock, and a bit."""

    def __init__(self, clock):
        self._clock = clock
        self.ahead = timedelta()

    def __getattr__(self, name):
        return getattr(self._clock, name)

    def now(self):
        return self._clock.now() + self.ahead


@pytest.fixture
def clock():
    return _Shifted(system_env().clock)


@pytest.fixture
async def server(clock):
    server = ApiServer(dataclasses.replace(system_env(), clock=clock), event_ttl_s=60)
    async with server.running():
        yield server


async def test_an_event_goes_a_while_after_it_was_last_written(api, clock):
    for name in ("old", "again"):
        await api.create("events", {"metadata": {"name": name}, "involvedObject": {"namespace": "default"}})
    clock.ahead = timedelta(seconds=50)
    await api.send("PATCH", f"{EVENTS}/again", {"count": 2}, api.MERGE)
    clock.ahead = timedelta(seconds=70)
    await api.create("events", {"metadata": {"name": "new"}, "involvedObject": {"namespace": "default"}})
    await api.gone(f"{EVENTS}/old")

    names = [item["metadata"]["name"] for item in (await api.send("GET", EVENTS)).body["items"]]
    assert names == ["again", "new"]
