"""The JobSet controller against each server."""

import pytest

from ktrain.api.core import JOBS, SERVICES, untyped
from ktrain.api.jobset import JOBSETS
from ktrain.api.meta import Key, is_condition_true
from ktrain.controllers.jobset.admission import default_jobset


@pytest.fixture
def create(control_plane, pod_template):
    async def create_job_set(**spec):
        template = {"spec": {"parallelism": 1, "completions": 1, "template": pod_template}}
        body = {
            "apiVersion": JOBSETS.api_version,
            "kind": "JobSet",
            "metadata": {"name": "js", "namespace": control_plane.namespace},
            "spec": {"replicatedJobs": [{"name": "a", "replicas": 2, "template": template}], **spec},
        }
        return await control_plane.client().create(JOBSETS, default_jobset(body))

    return create_job_set


def is_suspended(job_set):
    return job_set.status is not None and is_condition_true(job_set.status.conditions, "Suspended")


async def test_a_job_set_becomes_jobs_and_a_headless_service(control_plane, running, create):
    async with running("jobset"):
        created = await create()
        for name in ("js-a-0", "js-a-1"):
            job = await control_plane.wait_for(JOBS, name, lambda found: found is not None)
            assert job.metadata.is_controlled_by(created.metadata.uid)
            assert not job.spec.suspend
        service = await control_plane.wait_for(untyped(SERVICES), "js", lambda found: found is not None)

        assert service["spec"]["clusterIP"] == "None"
        assert service["metadata"]["ownerReferences"][0]["uid"] == created.metadata.uid


async def test_a_suspended_job_set_has_suspended_jobs_until_it_is_resumed(control_plane, running, create):
    async with running("jobset"):
        await create(suspend=True)
        await control_plane.wait_for(JOBS, "js-a-1", lambda found: found is not None and found.spec.suspend)
        await control_plane.wait_for(JOBSETS, "js", is_suspended)

        key = Key(control_plane.namespace, "js")
        await control_plane.client().patch(JOBSETS, key, {"spec": {"suspend": False}})
        await control_plane.wait_for(JOBS, "js-a-1", lambda found: not found.spec.suspend)
        await control_plane.wait_for(JOBSETS, "js", lambda found: not is_suspended(found))


async def test_what_a_job_set_owns_goes_with_it(control_plane, running, create):
    async with running("jobset"):
        await create(suspend=True)
        await control_plane.wait_for(JOBS, "js-a-0", lambda found: found is not None)
        key = Key(control_plane.namespace, "js")
        await control_plane.client().delete(JOBSETS, key, propagation="Foreground")

        await control_plane.wait_for(JOBSETS, "js", lambda found: found is None)
        await control_plane.wait_for(JOBS, "js-a-0", lambda found: found is None)
        await control_plane.wait_for(SERVICES, "js", lambda found: found is None)
