"""Of objects that no TrainJob controls only names are known; nobody's work is taken for a job's, nor overwritten."""

from __future__ import annotations

import pytest

from ktrain.api import core, jobset
from ktrain.api import trainer as api
from ktrain.api.core import CONFIG_MAPS
from ktrain.api.jobset import JOBSETS
from ktrain.api.meta import Key, Object, ObjectMeta, OwnerReference, owner_reference
from ktrain.controllers.trainjob import snapshot as snapshots
from ktrain.controllers.trainjob.lookups import is_of_train_jobs

from .world import KEY, NS, play

POD = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "none"}]}}
JOB_SET = {
    "apiVersion": JOBSETS.api_version,
    "kind": "JobSet",
    "metadata": {"name": "job", "namespace": NS},
    "spec": {"suspend": True, "replicatedJobs": [{"name": "mine", "template": {"spec": {"template": POD}}}]},
}
SNAPSHOT = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "job-runtime-snapshot", "namespace": NS},
    "data": {"runtime": "evil"},
}
FOREIGN = {
    "job set": (JOBSETS, JOB_SET, "NameTaken", "exists and has no controller, so it is left alone"),
    "snapshot": (CONFIG_MAPS, SNAPSHOT, "RuntimeUnusable", snapshots.FOREIGN),
}
OF_TRAIN_JOB = OwnerReference(api.API_VERSION, "TrainJob", "job", "uid", controller=True)


@pytest.mark.parametrize(
    ("held", "metadata"),
    [
        (True, ObjectMeta(owner_references=(OF_TRAIN_JOB,))),
        (True, ObjectMeta(owner_references=(OwnerReference("v1", "Pod", "pod", "2", controller=False), OF_TRAIN_JOB))),
        (True, ObjectMeta(labels={snapshots.SHARED: "shared"})),
        (True, ObjectMeta(annotations={snapshots.SHARED: "ktrain-runtime-1"})),
        (False, ObjectMeta()),
        (False, ObjectMeta(labels={"app": "job"}, annotations={"job": "job"})),
        (False, ObjectMeta(owner_references=(OwnerReference(api.API_VERSION, "TrainJob", "job", "uid"),))),
        (
            False,
            ObjectMeta(owner_references=(OwnerReference("kubeflow.org/v1", "TrainJob", "j", "u", controller=True),)),
        ),
        (False, ObjectMeta(owner_references=(OwnerReference("batch/v1", "Job", "job", "uid", controller=True),))),
    ],
)
def test_held_is_what_a_train_job_controls_and_what_jobs_share(held, metadata):
    assert is_of_train_jobs(Object(metadata=metadata)) is held


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("case", FOREIGN)
def test_a_foreign_object_of_a_jobs_name_is_told_of_and_its_end_wakes_the_job(case, restarted):
    resource, body, reason, said = FOREIGN[case]

    async def scenario(world) -> None:
        before = await world.user.create(core.untyped(resource), body)
        key = Key(NS, body["metadata"]["name"])
        async with world.operator() as cache:
            await world.job()
            await world.settle(5)
            told = (await world.read()).status.diagnosis
            assert (told.reason, said in told.message) == (reason, True)
            look = cache.statistics()[resource.qualified_name]
            assert (look.objects, look.left_out) == (0, 1)
            if not restarted:
                await world.user.delete(resource, key)
                await world.settle()  # its back-off is at more than that by now
                assert (await world.job_set()).metadata.controller.kind == "TrainJob"
                return
        async with world.operator():
            await world.settle(5)
            assert await world.user.get(core.untyped(resource), key.name, NS) == before
            assert world.counting.writes == []
            await world.user.delete(resource, key)
            await world.settle()
            assert (await world.job_set()).metadata.controller.kind == "TrainJob"

    play(scenario)


def test_a_job_set_that_changes_hands_is_believed_only_while_it_is_the_jobs():
    async def scenario(world) -> None:
        async with world.operator() as cache:
            await world.job()
            owners = (await world.user.get(core.untyped(JOBSETS), "job", NS))["metadata"]["ownerReferences"]
            await world.patch(JOBSETS, metadata={"ownerReferences": []})
            await world.progress("Completed", succeeded=1)
            await world.settle(5)
            lost = (await world.read()).status
            look = cache.statistics()[JOBSETS.qualified_name]

            await world.patch(JOBSETS, metadata={"ownerReferences": owners})
            found = (await world.read()).status

        assert (lost.conditions, lost.diagnosis.reason) == ((), "NameTaken")
        assert (look.objects, look.left_out) == (0, 1)
        assert [condition.type for condition in found.conditions] == ["Complete"]

    play(scenario)


def test_a_job_set_of_another_train_job_is_held_and_still_foreign():
    async def scenario(world) -> None:
        async with world.operator() as cache:
            await world.job("other", managedBy="kueue.x-k8s.io/multikueue")
            other = await world.user.get(api.TRAIN_JOBS, "other", NS)
            owner = owner_reference(api.API_VERSION, "TrainJob", "other", other.metadata.uid)
            metadata = JOB_SET["metadata"] | {"ownerReferences": [owner]}
            await world.user.create(core.untyped(JOBSETS), JOB_SET | {"metadata": metadata})
            await world.job()
            await world.progress("Completed", succeeded=1)
            await world.settle(5)
            status = (await world.read()).status

            assert (status.conditions, status.diagnosis.reason) == ((), "NameTaken")
            assert "exists and belongs to TrainJob other" in status.diagnosis.message
            assert world.counting.reads == []
            assert cache.statistics()[JOBSETS.qualified_name].objects == 1

    play(scenario)


def test_objects_of_others_cost_a_job_no_reads_and_the_cache_no_objects():
    async def scenario(world) -> None:
        for number in range(50):
            metadata = {"name": f"config-{number}", "namespace": NS}
            await world.user.create(core.untyped(CONFIG_MAPS), SNAPSHOT | {"metadata": metadata})
        async with world.operator() as cache:
            await world.job()
            await world.user.create(
                core.untyped(CONFIG_MAPS), SNAPSHOT | {"metadata": {"name": "later", "namespace": NS}}
            )
            await world.user.delete(CONFIG_MAPS, Key(NS, "config-7"))
            await world.settle()
            look = cache.statistics()["configmaps"]

            assert (look.objects, look.left_out) == (1, 50)  # its snapshot
            assert world.counting.reads == []

    play(scenario)


def test_who_has_the_name_is_asked_once_a_pass_and_a_refusal_to_tell_is_told():
    async def scenario(world) -> None:
        await world.user.create(core.untyped(JOBSETS), JOB_SET)
        world.counting.refused = ("jobsets/job",)
        async with world.operator():
            await world.job()
            await world.settle(5)
            told = (await world.read()).status.diagnosis
            assert "may not get" in told.message
            assert world.counting.writes == ["PATCH trainjobs/job/status"]
            world.counting.refused = ()
            await world.settle(60)
            assert (await world.read()).status.diagnosis.reason == "NameTaken"
            world.counting.calls.clear()
            await world.patch(api.TRAIN_JOBS, metadata={"labels": {"a": "b"}})
            assert len(world.counting.reads) == 1

    play(scenario)


def test_a_name_that_is_free_by_the_time_of_the_question_is_taken():
    """The event of the deletion is late; the API server knows better."""

    async def scenario(world) -> None:
        await world.user.create(core.untyped(JOBSETS), JOB_SET)
        async with world.operator() as cache:
            await world.settle()
            informer = next(one for one in cache.informers() if one.resource.plural == jobset.JOBSETS.plural)
            await world.user.delete(JOBSETS, KEY)
            await world.settle()
            informer.partitions[0].leave_out(KEY, 0)
            await world.job()

            assert (await world.job_set()).metadata.controller.name == "job"

    play(scenario)
