"""
Whole lives: TrainJob, JobSet, Jobs and Pods, with all controllers at work; the test plays the kubelet.

On a real server the Job controller is Kubernetes' own, on the embedded one it is ours.
"""

import pytest

from ktrain.api.core import JOBS, PODS
from ktrain.api.jobset import JOBSETS
from ktrain.api.meta import Key, find_condition, is_condition_true
from ktrain.api.trainer import TRAIN_JOBS

CONTROLLERS = ("trainjob", "jobset", "job")


@pytest.fixture
def pods(control_plane):
    """Wait for both pods of the job; returns their names by index."""

    async def wait():
        await control_plane.wait_for(JOBS, "job-node-0", lambda job: job is not None and job.status.active == 2)
        found = await control_plane.client().list(PODS, control_plane.namespace)
        index = "batch.kubernetes.io/job-completion-index"
        return {pod.metadata.annotations[index]: pod.metadata.name for pod in found.items}

    return wait


@pytest.fixture
def play(control_plane):
    """Give a pod a phase, as the kubelet would."""

    async def set_phase(name, phase):
        ready = {"type": "Ready", "status": "True" if phase == "Running" else "False"}
        status = {"phase": phase, "conditions": [ready]}
        await control_plane.client().patch(
            PODS, Key(control_plane.namespace, name), {"status": status}, subresource="status"
        )

    return set_phase


def node_counts(job):
    (status,) = job.status.jobs_status or (None,)
    return None if status is None else (status.active, status.ready, status.succeeded, status.failed)


async def test_a_job_whose_pods_succeed_is_complete(control_plane, running, create_train_job, pods, play):
    async with running(*CONTROLLERS):
        await create_train_job()
        names = await pods()
        assert sorted(names) == ["0", "1"]
        for name in names.values():
            await play(name, "Running")
        await control_plane.wait_for(TRAIN_JOBS, "job", lambda job: node_counts(job) == (1, 1, 0, 0))
        for name in names.values():
            await play(name, "Succeeded")

        ended = await control_plane.wait_for(
            TRAIN_JOBS, "job", lambda job: is_condition_true(job.status.conditions, "Complete")
        )
        assert node_counts(ended) == (0, 0, 1, 0)
        assert find_condition(ended.status.conditions, "Complete").reason == "AllJobsCompleted"


async def test_a_job_of_which_one_pod_fails_is_failed(control_plane, running, create_train_job, pods, play):
    async with running(*CONTROLLERS):
        await create_train_job()
        names = await pods()
        await play(names["0"], "Running")
        await play(names["1"], "Failed")

        await control_plane.wait_for(TRAIN_JOBS, "job", lambda job: is_condition_true(job.status.conditions, "Failed"))
        await control_plane.wait_for(
            JOBSETS, "job", lambda job_set: is_condition_true(job_set.status.conditions, "Failed")
        )


async def test_deleting_a_job_that_runs_takes_its_pods_with_it(control_plane, running, create_train_job, pods):
    async with running(*CONTROLLERS):
        await create_train_job()
        names = await pods()
        await control_plane.client().delete(TRAIN_JOBS, Key(control_plane.namespace, "job"))

        for name in names.values():
            await control_plane.wait_for(PODS, name, lambda pod: pod is None)
        await control_plane.wait_for(JOBS, "job-node-0", lambda job: job is None)
