"""The HorizontalPodAutoscaler of an elastic TrainJob: when it is there, and when it cannot be."""

from __future__ import annotations

import pytest

from ktrain.api import core
from ktrain.api import trainer as api
from ktrain.framework.errors import ApiError
from ktrain.plugins.torch.scaling import AUTOSCALERS

from .elastic_world import METRIC, ElasticWorld, play
from .world import KEY, NS

FOREIGN = {
    "apiVersion": AUTOSCALERS.api_version,
    "kind": AUTOSCALERS.kind,
    "metadata": {"name": "job", "namespace": NS},
    "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 3},
}


def test_while_suspended_there_is_none():
    async def scenario(world: ElasticWorld) -> None:
        async with world.operator():
            await world.job()
            await world.settle(5)
            running = await world.autoscaler()
            await world.patch(api.TRAIN_JOBS, spec={"suspend": True})
            await world.settle(5)
            suspended = await world.autoscaler()
            await world.patch(api.TRAIN_JOBS, spec={"suspend": False})
            await world.settle(5)

            assert (running["spec"]["minReplicas"], running["spec"]["maxReplicas"]) == (2, 4)
            assert suspended is None
            assert await world.autoscaler() is not None

    play(scenario, metrics=[METRIC])


def test_it_ends_with_its_job_and_a_later_size_is_nobodys():
    async def scenario(world: ElasticWorld) -> None:
        async with world.operator():
            await world.job()
            await world.settle(5)
            assert await world.autoscaler() is not None
            await world.make_ready()
            await world.end(0, "Succeeded")
            await world.settle(30)
            assert [c.type for c in (await world.read()).status.conditions] == ["Complete"]
            assert await world.autoscaler() is None

            world.counting.calls.clear()
            with pytest.raises(ApiError, match="must not change once the TrainJob has ended"):
                await world.patch(api.TRAIN_JOBS, spec={"elasticNodes": 4})
            await world.resize(3)  # of which nobody is asked but the definition
            assert world.counting.writes == []
            assert await world.sizes() == (2, 2)

    play(scenario, metrics=[METRIC])


@pytest.mark.parametrize(("policy", "bounds"), [({}, None), ({"metrics": [METRIC], "least": 3, "most": 3}, (3, 3))])
def test_it_takes_metrics_and_no_room_for_a_change(policy, bounds):
    async def scenario(world: ElasticWorld) -> None:
        async with world.operator():
            await world.job()
            await world.settle(5)
            found = await world.autoscaler()

            assert (found and (found["spec"]["minReplicas"], found["spec"]["maxReplicas"])) == bounds
            assert len(await world.pods()) == policy.get("least", 2)

    play(scenario, **policy)


def test_somebody_elses_of_its_name_is_left_alone_and_the_job_says_so_until_it_is_gone():
    async def scenario(world: ElasticWorld) -> None:
        await world.user.create(core.untyped(AUTOSCALERS), FOREIGN)
        async with world.operator():
            await world.job()
            await world.settle(30)
            diagnosis = (await world.read()).status.diagnosis

            assert diagnosis.message == (
                "HorizontalPodAutoscaler/job exists and is not this TrainJob's, so it is left alone; rename either"
            )
            assert (await world.autoscaler())["spec"]["scaleTargetRef"]["name"] == "web"
            assert await world.pods() == {}

            await world.user.delete(core.untyped(AUTOSCALERS), KEY)
            await world.settle(600)
            assert (await world.autoscaler())["spec"]["scaleTargetRef"]["name"] == "job"
            assert (await world.read()).status.diagnosis is None
            assert sorted(await world.pods()) == [0, 1]

    play(scenario, metrics=[METRIC])


def test_metrics_that_no_autoscaler_can_have_are_told_and_nothing_starts():
    async def scenario(world: ElasticWorld) -> None:
        async with world.operator():
            await world.job()
            await world.settle(30)
            diagnosis = (await world.read()).status.diagnosis

            assert "spec.metrics[0].resource" in diagnosis.message, diagnosis
            assert await world.pods() == {}

    play(scenario, metrics=[{"type": "Resource"}])


@pytest.mark.parametrize("restarted", [False, True])
def test_one_that_somebody_deletes_beside_a_running_job_is_made_again(restarted):
    async def scenario(world: ElasticWorld) -> None:
        async with world.operator():
            await world.job()
            await world.settle(5)
            before, job_set = await world.autoscaler(), await world.job_set()
            if not restarted:
                world.counting.calls.clear()
                await world.user.delete(core.untyped(AUTOSCALERS), KEY)
                await world.settle()
        if restarted:
            await world.user.delete(core.untyped(AUTOSCALERS), KEY)
            async with world.operator():
                await world.settle()

        after = await world.autoscaler()
        assert after["metadata"]["uid"] != before["metadata"]["uid"]
        assert after["spec"] == before["spec"]
        assert await world.job_set() == job_set
        assert world.counting.writes == ["PATCH horizontalpodautoscalers/job"]

    play(scenario, metrics=[METRIC])
