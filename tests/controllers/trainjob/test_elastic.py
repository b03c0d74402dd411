"""Elastic TrainJobs from the number of nodes to the pods."""

from __future__ import annotations

import pytest

from ktrain.api import core, jobset
from ktrain.api import trainer as api
from ktrain.api.meta import Key
from ktrain.framework.client.client import PatchType
from ktrain.framework.errors import ApiError

from .elastic_world import OFF, SIZE_WRITE, ElasticWorld, play
from .test_own_snapshots import weather
from .world import KEY, NS


def test_a_job_without_a_number_has_the_fewest_nodes_and_says_so_in_its_scale():
    async def scenario(world: ElasticWorld) -> None:
        async with world.operator():
            await world.job()
            await world.settle(5)
            await world.make_ready()
            scale = await world.scale()

        assert await world.sizes() == (2, 2)
        assert (scale["spec"]["replicas"], scale["status"]["replicas"]) == (2, 2)
        selector = scale["status"]["selector"]
        selected = (await world.user.list(core.PODS, NS, label_selector=selector)).items
        assert len(selected) == len(await world.pods()) == 2
        assert (await world.read()).status.elastic == api.ElasticStatus(2, 4, 2, 2, selector)

    play(scenario)


def test_its_selector_is_of_its_nodes_and_of_no_other_step():
    async def scenario(world: ElasticWorld) -> None:
        await world.elastic_runtime(beside=["dataset-initializer"])
        async with world.operator():
            await world.job()
            await world.settle(5)
            selector = (await world.scale())["status"]["selector"]
            everybody, nodes = [
                sorted(pod.metadata.name.rpartition("-")[0] for pod in found.items)
                for found in (
                    await world.user.list(core.PODS, NS),
                    await world.user.list(core.PODS, NS, label_selector=selector),
                )
            ]

            assert everybody == ["job-dataset-initializer-0-0", "job-node-0-0", "job-node-0-1"]
            assert nodes == ["job-node-0-0", "job-node-0-1"]

    play(scenario)


def test_growing_and_shrinking_is_one_write_each_and_leaves_the_other_pods_and_the_template_alone():
    async def scenario(world: ElasticWorld) -> None:
        async with world.operator():
            await world.job()
            await world.settle(5)
            before, template = await world.pods(), (await world.job_set()).spec.replicated_jobs[0].template
            world.counting.calls.clear()
            await world.resize(4)
            grown = await world.pods()

            assert await world.sizes() == (4, 4)
            assert sorted(grown) == [0, 1, 2, 3]
            assert all(grown[index].metadata.uid == before[index].metadata.uid for index in before)
            assert [write for write in world.counting.writes if "jobset" in write] == [SIZE_WRITE]

            await world.resize(3)
            shrunk = await world.pods()
            assert sorted(shrunk) == [0, 1, 2]
            assert all(pod.metadata.uid == grown[index].metadata.uid for index, pod in shrunk.items())
            assert world.counting.writes.count(SIZE_WRITE) == 2

            await world.resize(2)
            assert (await world.job_set()).spec.replicated_jobs[0].template == template

    play(scenario)


def test_a_size_changes_although_the_snapshot_was_deleted_and_is_refused():
    async def scenario(world: ElasticWorld) -> None:
        faults = weather(world)
        async with world.operator():
            await world.job()
            faults.on("create", core.CONFIG_MAPS).answer(403, message="exceeded quota: configmaps")
            await world.user.delete(core.CONFIG_MAPS, Key(NS, "job-runtime-snapshot"))
            await world.settle(30)
            await world.resize(4)

            assert await world.sizes() == (4, 4)

    play(scenario)


@pytest.mark.parametrize("nodes", [1, 5])
def test_a_size_out_of_range_is_refused_and_changes_nothing(nodes):
    async def scenario(world: ElasticWorld) -> None:
        async with world.operator():
            await world.job()
            await world.settle(5)
            world.counting.calls.clear()
            with pytest.raises(ApiError, match="must be within minNodes and maxNodes"):
                await world.resize(nodes)
            await world.resize(2)

            assert world.counting.writes == []
            assert await world.sizes() == (2, 2)

    play(scenario)


def test_the_range_is_that_of_the_runtime_the_job_was_made_with():
    async def scenario(world: ElasticWorld) -> None:
        async with world.operator():
            await world.job()
            await world.settle(5)
            await world.elastic_runtime(1, 8)
            with pytest.raises(ApiError, match="must be within"):
                await world.resize(6)
            await world.patch(api.TRAIN_JOBS, spec={"elasticNodes": 4})
            await world.settle(5)

            assert await world.sizes() == (4, 4)

    play(scenario)


def test_a_job_that_is_not_elastic_keeps_its_size():
    async def scenario(world: ElasticWorld) -> None:
        await world.runtime_of({"numNodes": 2, "torch": {}})
        async with world.operator():
            await world.job(trainer={"numNodes": 2})
            with pytest.raises(ApiError, match=r"spec\.trainer: Invalid value: .*field is immutable"):
                await world.patch(api.TRAIN_JOBS, spec={"trainer": {"numNodes": 3}})
            with pytest.raises(ApiError, match=r"spec\.elasticNodes: Invalid value: .*only jobs of a runtime with"):
                await world.resize(3)

    play(scenario)


def test_what_a_job_is_made_with_stays_and_only_its_size_changes():
    async def scenario(world: ElasticWorld) -> None:
        async with world.operator():
            await world.job(trainer={"numNodes": 3})
            await world.settle(5)
            assert (await world.read()).spec.elastic_nodes == 3
            answer = await world.server.transport().request(
                "PATCH",
                api.TRAIN_JOBS.path(*KEY),
                headers={"Content-Type": PatchType.MERGE.value},
                body=b'{"spec": {"trainer": {"numNodes": 4}}}',
            )
            assert (answer.status, b"spec.trainer: Invalid value" in answer.body) == (422, True)
            assert "kubectl scale trainjob/job --replicas=N" in answer.headers["warning"]
            await world.resize(4)
            job = await world.read()

            assert (job.spec.trainer.num_nodes, job.spec.elastic_nodes) == (3, 4)
            assert await world.sizes() == (4, 4)

    play(scenario)


def test_of_two_numbers_of_nodes_the_elastic_one_counts():
    async def scenario(world: ElasticWorld) -> None:
        async with world.operator():
            await world.job(trainer={"numNodes": 2}, elasticNodes=4)
            await world.settle(5)

            assert await world.sizes() == (4, 4)
            assert sorted(await world.pods()) == [0, 1, 2, 3]

    play(scenario)


@pytest.mark.parametrize("resumed", [3, 4])
def test_while_suspended_it_keeps_its_size_and_another_one_comes_with_the_resumption(resumed):
    async def scenario(world: ElasticWorld) -> None:
        async with world.operator():
            await world.job(trainer={"numNodes": 3})
            await world.settle(5)
            await world.patch(api.TRAIN_JOBS, spec={"suspend": True})
            await world.settle(5)
            pods = await world.pods()
            await world.resize(resumed)
            assert (await world.read()).status.elastic.desired_nodes == resumed
            assert await world.pods() == pods == {}
            await world.patch(api.TRAIN_JOBS, spec={"suspend": False})
            await world.settle(5)

            assert sorted(await world.pods()) == [0, 1, 2, 3][:resumed]

    play(scenario)


def test_a_job_that_waits_from_the_start_begins_in_the_size_that_it_was_given_meanwhile():
    async def scenario(world: ElasticWorld) -> None:
        async with world.operator():
            await world.job(suspend=True)
            await world.settle(5)
            await world.resize(3)
            await world.patch(api.TRAIN_JOBS, spec={"suspend": False})
            await world.settle(5)

            assert sorted(await world.pods()) == [0, 1, 2]

    play(scenario)


def test_once_the_first_node_is_done_the_size_stays():
    async def scenario(world: ElasticWorld) -> None:
        async with world.operator():
            await world.job(trainer={"numNodes": 3})
            await world.settle(5)
            await world.make_ready()
            await world.end(2, "Succeeded")
            assert (await world.read()).status.elastic.observed_nodes == 3
            await world.resize(4)
            assert await world.sizes() == (3, 3)
            await world.end(0, "Succeeded")
            await world.settle(30)
            assert [c.type for c in (await world.read()).status.conditions] == ["Complete"]

    play(scenario)


def test_a_size_that_somebody_else_writes_into_the_jobset_is_put_back():
    async def scenario(world: ElasticWorld) -> None:
        async with world.operator():
            await world.job(trainer={"numNodes": 3})
            await world.settle(5)
            path = "/spec/replicatedJobs/0/template/spec"
            sizes = [{"op": "replace", "path": f"{path}/{f}", "value": 2} for f in ("parallelism", "completions")]
            await world.user.patch(jobset.JOBSETS, KEY, sizes, type=PatchType.JSON)
            await world.settle(5)

            assert await world.sizes() == (3, 3)

    play(scenario)


def test_a_controller_that_starts_anew_in_between_writes_the_size_once():
    async def scenario(world: ElasticWorld) -> None:
        async with world.operator():
            await world.job()
            await world.settle(5)
        await world.resize(4)
        async with world.operator():
            await world.settle(60)

            assert [write for write in world.counting.writes if "jobset" in write] == [SIZE_WRITE]
            assert await world.sizes() == (4, 4)
        async with world.operator():
            await world.settle(60)

            assert [write for write in world.counting.writes if "jobset" in write] == []

    play(scenario)


def test_without_the_gate_the_job_says_why_it_stays_as_it_is_and_can_still_be_suspended():
    async def scenario(world: ElasticWorld) -> None:
        async with world.operator():
            await world.job()
            await world.settle(5)
            world.counting.calls.clear()
            await world.resize(4)
            await world.settle(3000)

            assert world.counting.writes.count(SIZE_WRITE) == 1
            assert await world.sizes() == (2, 2)
            (note,) = await world.events("ElasticScalingUnsupported")
            assert note == (
                "TrainJob default/job is to have 4 nodes, but its JobSet may not change its size: the JobSet controller"
                " needs the feature gate ElasticJobSet (JobSet 0.12); the job goes on with 2"
            )
            diagnosis = (await world.read()).status.diagnosis
            assert (diagnosis.reason, diagnosis.message) == ("ElasticScalingUnsupported", note)

            await world.patch(api.TRAIN_JOBS, spec={"suspend": True})
            await world.settle(5)
            assert (await world.job_set()).spec.suspend
            await world.patch(api.TRAIN_JOBS, spec={"suspend": False})
            await world.settle(5)
            assert not (await world.job_set()).spec.suspend
            await world.resize(2)
            assert (await world.read()).status.diagnosis is None

    play(scenario, gates=OFF)


def test_without_the_gate_a_controller_that_knows_nothing_of_the_refusal_suspends_all_the_same():
    async def scenario(world: ElasticWorld) -> None:
        async with world.operator():
            await world.job()
            await world.settle(5)
        await world.resize(4)
        await world.patch(api.TRAIN_JOBS, spec={"suspend": True})
        async with world.operator():
            await world.settle(30)

            assert (await world.job_set()).spec.suspend
            assert await world.pods() == {}

    play(scenario, gates=OFF)


def test_a_pod_that_is_lost_comes_back_under_its_index():
    async def scenario(world: ElasticWorld) -> None:
        async with world.operator():
            await world.job(trainer={"numNodes": 3})
            await world.settle(5)
            lost = (await world.pods())[1]
            await world.user.delete(core.PODS, Key(NS, lost.metadata.name), grace_period_s=0)
            await world.settle(60)
            pods = await world.pods()

            assert sorted(pods) == [0, 1, 2]
            assert pods[1].metadata.uid != lost.metadata.uid

    play(scenario)


def test_a_node_without_room_is_awaited_while_the_others_train():
    async def scenario(world: ElasticWorld) -> None:
        async with world.operator():
            await world.job()
            await world.settle(5)
            await world.resize(4)
            await world.make_ready(but=3)
            elastic = (await world.read()).status.elastic

            assert (elastic.desired_nodes, elastic.observed_nodes) == (4, 3)
            assert sorted(await world.pods()) == [0, 1, 2, 3]

    play(scenario)


def test_a_job_whose_nodes_fail_too_often_fails():
    async def scenario(world: ElasticWorld) -> None:
        async with world.operator():
            await world.job()
            await world.settle(5)
            for failure in range(13):
                assert not (await world.read()).is_finished, failure
                await world.end(1, "Failed")
                await world.settle(1000)
            (condition,) = (await world.read()).status.conditions

            assert (condition.type, condition.reason) == ("Failed", "FailedJobs")

    play(scenario, most=2)
