"""While events are slow, lost or refused, an explanation may be missing; nothing else waits for them."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from ktrain.api import core, jobset
from ktrain.api import trainer as api
from ktrain.framework.client.transport import Response

from .conftest import RUNTIME
from .stall_world import StallWorld, refusing, run
from .world import KEY, NS


async def proxy_s_page(_call, _send) -> Response:
    return Response(200, {}, b"<html>")


TROUBLE = {
    "slow": lambda rule: rule.delay(1.5),
    "too slow": lambda rule: rule.delay(20),
    "lost": lambda rule: rule.lose_request(),
    "unavailable": lambda rule: rule.answer(503, message="no"),
    "busy": lambda rule: rule.answer(429, message="no"),
    "unreadable": lambda rule: rule.do(proxy_s_page),
}
troubles = pytest.mark.parametrize("trouble", TROUBLE.values(), ids=TROUBLE)


async def stalled_jobs(world: StallWorld, number: int, *, apart: bool) -> None:
    """Nobody makes Jobs of theirs. `apart`: each is in a namespace of its own."""
    for name in (f"stuck-{each}" for each in range(number)):
        body = world.body(name)
        if apart:
            body["metadata"]["namespace"] = name
            metadata = {"name": "rt", "namespace": name}
            await world.user.create(core.NAMESPACES, {"metadata": {"name": name}})
            await world.user.create(core.untyped(api.TRAINING_RUNTIMES), RUNTIME | {"metadata": metadata})
        await world.user.create(api.TRAIN_JOBS, body)


@troubles
@pytest.mark.parametrize("apart", [False, True])
def test_jobs_do_not_wait_for_the_events_of_others(trouble, apart):
    async def scenario(world: StallWorld) -> None:
        await world.stingy_runtime()
        trouble(world.events_fail())
        async with world.operator(workers=2):
            await stalled_jobs(world, 20, apart=apart)
            for number in range(25):
                name = f"job-{number}"
                await world.user.create(api.TRAIN_JOBS, world.body(name))
                await world.settle(0.4)
                assert await world.user.get(jobset.JOBSETS, name, NS)
            assert world.counting.looks

    run(scenario, alone=True)


@troubles
def test_a_job_that_stands_still_is_suspended_meanwhile(trouble):
    async def scenario(world: StallWorld) -> None:
        await world.stingy_runtime()
        trouble(world.events_fail())
        async with world.operator():
            await world.job()
            await world.settle(10)
            assert world.counting.looks
            await world.user.patch(api.TRAIN_JOBS, KEY, {"spec": {"suspend": True}})
            await world.settle(2.5)
            assert (await world.job_set()).spec.suspend

    run(scenario, alone=True)


@troubles
def test_what_was_told_holds_until_it_is_heard_that_it_does_not(trouble):
    async def scenario(world: StallWorld) -> None:
        async with refusing(world, "count/jobs.batch"):
            await world.job()
            await world.settle(7)
            before = await world.told()
            assert before.reason == "JobCreationFailed"
            rule = trouble(world.events_fail())
            await world.settle(600)
            assert rule.hits
            assert await world.told() == before

    run(scenario)


@pytest.mark.parametrize("took_s", [0.0, 1.9], ids=["at once", "took long"])
def test_an_answer_serves_all_jobs_of_its_namespace(took_s):
    async def scenario(world: StallWorld) -> None:
        async with refusing(world, "count/jobs.batch"):
            world.events_fail().delay(took_s)
            for number in range(20):
                await world.user.create(api.TRAIN_JOBS, world.body(f"job-{number}"))
            await world.settle(10)

            told = [job.status.diagnosis for job in (await world.user.list(api.TRAIN_JOBS, NS)).items]
            assert [one.reason for one in told] == ["JobCreationFailed"] * 20
            assert len(world.counting.looks) == 2

    run(scenario)


def test_that_nothing_could_be_heard_serves_all_jobs_of_the_namespace_and_is_in_the_log_once():
    async def scenario(world: StallWorld) -> None:
        await world.stingy_runtime()
        world.events_fail().lose_request()
        async with world.operator():
            await stalled_jobs(world, 20, apart=False)
            await world.settle(10)
            assert len(world.counting.looks) == 2
            await world.settle(600)

    with capture_logs() as logs:
        run(scenario, alone=True)
    unreadable = [entry for entry in logs if entry["event"] == "trainjob.events_unreadable"]
    assert [(entry["namespace"], entry["error"]) for entry in unreadable] == [(NS, "no answer within 2 s")]
    assert not [entry for entry in logs if entry["event"] == "reconcile.failed"]
