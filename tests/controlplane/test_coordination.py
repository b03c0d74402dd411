"""Leases and events against each server."""

import asyncio
from contextlib import asynccontextmanager

import anyio
import pytest

from ktrain.api.core import CONFIG_MAPS, EVENTS, LEASES, untyped
from ktrain.framework import EventRecorder, LeaderElection
from ktrain.framework.errors import LeadershipLost


@pytest.fixture
def candidate(control_plane):
    def make(identity):
        return LeaderElection(
            control_plane.client("election"),
            control_plane.env,
            name="operator",
            namespace=control_plane.namespace,
            identity=identity,
        )

    return make


@asynccontextmanager
async def reporting(recorder):
    async with anyio.create_task_group() as tasks:
        await tasks.start(recorder.run)
        yield
        tasks.cancel_scope.cancel()


async def test_the_lease_passes_to_the_next_when_its_holder_leaves(control_plane, candidate):
    first, second = candidate("first"), candidate("second")
    await first.acquire()
    async with asyncio.timeout(20), anyio.create_task_group() as tasks, first.leading():
        tasks.start_soon(second.acquire)
        await control_plane.wait_for(LEASES, "operator", lambda lease: lease.spec.holder_identity == "first")
        assert first.guard() > 0
        with pytest.raises(LeadershipLost):
            second.guard()

    assert second.is_leader
    with pytest.raises(LeadershipLost):
        first.guard()
    lease = await control_plane.wait_for(LEASES, "operator", lambda lease: lease.spec.holder_identity == "second")
    assert lease.spec.lease_transitions >= 1


async def test_an_event_that_happens_again_becomes_a_series(control_plane, config_map):
    about = await control_plane.client().create(CONFIG_MAPS, config_map("c"))
    recorder = EventRecorder(control_plane.client(), control_plane.env, component="tester")

    async with reporting(recorder):
        for _ in range(3):
            recorder.event(CONFIG_MAPS, about, type="Warning", reason="Again", message="it happened")

    found = await control_plane.client().list(
        untyped(EVENTS), control_plane.namespace, field_selector="reason=Again,reportingController=tester"
    )
    (event,) = found.items
    assert (event["series"]["count"], event["note"]) == (3, "it happened")
    assert event["regarding"]["uid"] == about.metadata.uid
