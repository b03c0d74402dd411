"""The TrainJob controller against each server."""

import msgspec
import pytest

from ktrain.api.core import CONFIG_MAPS, untyped
from ktrain.api.jobset import JOBSETS
from ktrain.api.meta import Key, is_condition_true
from ktrain.api.trainer import TRAIN_JOBS
from ktrain.controllers.trainjob.snapshot import SHARED, read_shared
from ktrain.framework.errors import Invalid

SNAPSHOT = "job-runtime-snapshot"


@pytest.fixture
def key(control_plane):
    return Key(control_plane.namespace, "job")


@pytest.fixture
def client(control_plane):
    return control_plane.client()


async def test_a_job_gets_a_snapshot_and_a_job_set_of_its_own(control_plane, running, create_train_job):
    async with running("trainjob"):
        job = await create_train_job(trainer={"numNodes": 3, "image": "mine"})
        job_set = await control_plane.wait_for(untyped(JOBSETS), "job", lambda found: found is not None)
        snapshot = await control_plane.wait_for(CONFIG_MAPS, SNAPSHOT, lambda found: found is not None)

        assert snapshot.metadata.is_controlled_by(job.metadata.uid)
        (owner,) = job_set["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (job.metadata.uid, True)
        spec = job_set["spec"]["replicatedJobs"][0]["template"]["spec"]
        assert (spec["parallelism"], spec["completions"]) == (3, 3)
        assert spec["template"]["spec"]["containers"][0]["image"] == "mine"


async def test_jobs_share_a_snapshot_that_cannot_be_changed(control_plane, running, client, create_train_job):
    async with running("trainjob", "shared snapshots"):
        names = ["one", "two"]
        for name in names:
            await create_train_job(name, suspend=True)
        job_sets = [await control_plane.wait_for(JOBSETS, name, lambda found: found is not None) for name in names]
        (on,) = {job_set.metadata.annotations[SHARED] for job_set in job_sets}
        shared = await client.get(CONFIG_MAPS, on, control_plane.namespace)
        with pytest.raises(Invalid, match="immutable"):
            await client.patch(CONFIG_MAPS, shared.key, {"data": {"runtime": "mine"}})

        assert read_shared(shared).name == "rt"
        await client.delete(CONFIG_MAPS, shared.key)
        again = await control_plane.wait_for(
            CONFIG_MAPS, on, lambda found: found is not None and found.metadata.uid != shared.metadata.uid
        )
        assert again.data == shared.data


async def test_suspending_and_resuming_a_job_does_so_with_its_job_set(
    control_plane, running, client, create_train_job, key
):
    async with running("trainjob"):
        await create_train_job(suspend=True)
        await control_plane.wait_for(JOBSETS, "job", lambda found: found is not None and found.spec.suspend)
        await control_plane.wait_for(
            TRAIN_JOBS, "job", lambda found: is_condition_true(found.status.conditions, "Suspended")
        )

        await client.patch(TRAIN_JOBS, key, {"spec": {"suspend": False}})
        await control_plane.wait_for(JOBSETS, "job", lambda found: not found.spec.suspend)
        await control_plane.wait_for(
            TRAIN_JOBS, "job", lambda found: not is_condition_true(found.status.conditions, "Suspended")
        )


async def test_the_end_of_the_job_set_is_the_end_of_the_job(control_plane, running, client, create_train_job, key):
    async with running("trainjob"):
        await create_train_job()
        await control_plane.wait_for(JOBSETS, "job", lambda found: found is not None)
        condition = {
            "type": "Completed",
            "status": "True",
            "reason": "AllJobsCompleted",
            "message": "jobset completed successfully",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        await client.patch(JOBSETS, key, {"status": {"conditions": [condition]}}, subresource="status")

        await control_plane.wait_for(
            TRAIN_JOBS, "job", lambda found: is_condition_true(found.status.conditions, "Complete")
        )


async def test_what_a_job_owns_goes_with_it(control_plane, running, client, create_train_job, key):
    async with running("trainjob"):
        await create_train_job()
        await control_plane.wait_for(JOBSETS, "job", lambda found: found is not None)
        await client.delete(TRAIN_JOBS, key)

        await control_plane.wait_for(TRAIN_JOBS, "job", lambda found: found is None)
        await control_plane.wait_for(JOBSETS, "job", lambda found: found is None)
        await control_plane.wait_for(CONFIG_MAPS, SNAPSHOT, lambda found: found is None)


async def test_a_dry_run_tells_whether_applying_again_would_change_anything(control_plane, client, pod_template, key):
    def body(**pod):
        spec = {"containers": [{**pod_template["spec"]["containers"][0], "resources": {"limits": {"cpu": "1"}}}]}
        job = {"spec": {"template": {**pod, "spec": spec}}}
        return {
            "apiVersion": JOBSETS.api_version,
            "kind": "JobSet",
            "metadata": {"name": "job", "namespace": control_plane.namespace},
            "spec": {"suspend": True, "replicatedJobs": [{"name": "node", "template": job}]},
        }

    async def would_be(wanted):
        query = [("fieldManager", client.field_manager), ("force", "true"), ("dryRun", "All")]
        headers = {"Content-Type": "application/apply-patch+yaml"}
        answer = await client.raw("PATCH", JOBSETS.path(*key), query=query, body=wanted, headers=headers)
        return comparable(msgspec.json.decode(answer.body))

    def comparable(obj):
        metadata = {k: v for k, v in obj["metadata"].items() if k not in ("managedFields", "resourceVersion")}
        return {**obj, "metadata": metadata}

    labelled = body(metadata={"labels": {"team": "old"}})
    await client.apply(JOBSETS, labelled)
    await client.patch(JOBSETS, key, {"metadata": {"labels": {"of": "another"}}})
    live = comparable(await client.get(untyped(JOBSETS), *reversed(key)))

    assert await would_be(labelled) == live
    assert await would_be(body()) != live
