"""
KEP-672: JobSets whose jobs start one after the other; the test plays the kubelet.

`controllers/jobset/test_startup_rules` has the rules in detail, `e2e/test_order` the same with real programs.
"""

import pytest

from ktrain.api.core import JOBS, PODS
from ktrain.api.jobset import JOBSETS
from ktrain.api.meta import Key, is_condition_true
from ktrain.framework.errors import Invalid

CONTROLLERS = ("jobset", "job")
JOB_NAME = "batch.kubernetes.io/job-name"


@pytest.fixture
def play(control_plane):
    """`await play("js-a-0", "Running", 3)` waits for the pods of a Job, and gives each a phase, as a kubelet would."""
    client, namespace = control_plane.client(), control_plane.namespace

    async def set_phase(job, phase, count=1):
        await control_plane.wait_for(JOBS, job, lambda one: one is not None and one.status.active >= count)
        found = await client.list(PODS, namespace, label_selector=f"{JOB_NAME}={job}")
        for pod in found.items:
            status = {"phase": phase, "conditions": [{"type": "Ready", "status": str(phase == "Running")}]}
            await client.patch(PODS, pod.key, {"status": status}, subresource="status")

    return set_phase


@pytest.fixture
def jobs(control_plane):
    """The names of the Jobs that there are and that are not suspended."""

    async def names():
        found = await control_plane.client().list(JOBS, control_plane.namespace)
        return {job.metadata.name for job in found.items if not job.spec.suspend}

    return names


@pytest.fixture
def becomes(control_plane):
    """Wait until a JobSet has a condition."""

    async def wait(name, condition):
        await control_plane.wait_for(
            JOBSETS, name, lambda one: one.status is not None and is_condition_true(one.status.conditions, condition)
        )

    return wait


async def test_the_trainer_of_story_1_starts_when_its_initializer_has_succeeded(apply, running, play, jobs, becomes):
    async with running(*CONTROLLERS):
        await apply("startup/story-1.yaml")
        await play("fine-tune-llm-initializer-0", "Running")
        await becomes("fine-tune-llm", "StartupPolicyInProgress")
        assert await jobs() == {"fine-tune-llm-initializer-0"}, "ready is not enough"
        await play("fine-tune-llm-initializer-0", "Succeeded")
        await play("fine-tune-llm-trainer-node-0", "Running", 3)

        await becomes("fine-tune-llm", "StartupPolicyCompleted")
        await play("fine-tune-llm-trainer-node-0", "Succeeded", 3)
        await becomes("fine-tune-llm", "Completed")


async def test_story_2_waits_for_success_and_then_for_readiness(apply, running, play, jobs, becomes):
    async with running(*CONTROLLERS):
        await apply("startup/story-2.yaml")
        await play("deepspeed-mpi-initializer-0", "Succeeded")
        await play("deepspeed-mpi-launcher-0", "Pending")
        assert await jobs() == {"deepspeed-mpi-initializer-0", "deepspeed-mpi-launcher-0"}
        await play("deepspeed-mpi-launcher-0", "Running")
        await play("deepspeed-mpi-trainer-node-0", "Running", 3)

        await becomes("deepspeed-mpi", "StartupPolicyCompleted")


async def test_the_larger_simulation_of_story_3_does_not_start_when_the_smaller_one_fails(
    apply, running, play, jobs, becomes
):
    def simulations(body):
        small, large = body["spec"]["replicatedJobs"]
        small["name"], large["name"] = "small", "large"
        small["template"]["spec"]["backoffLimit"] = 0
        body["spec"]["startupPolicy"]["rules"][0]["targetReplicatedJobs"] = ["small"]

    async with running(*CONTROLLERS):
        await apply("startup/story-1.yaml", simulations)
        await play("fine-tune-llm-small-0", "Failed")

        await becomes("fine-tune-llm", "Failed")
        assert "fine-tune-llm-large-0" not in await jobs()


@pytest.mark.parametrize("rules", ["as listed", "left out"])
async def test_without_rules_jobs_wait_until_those_before_are_ready(apply, running, play, jobs, becomes, rules):
    def as_asked(body):
        if rules == "left out":
            del body["spec"]["startupPolicy"]["rules"]

    async with running(*CONTROLLERS):
        await apply("startup/default-rules.yaml", as_asked)
        await play("startup-policy-job-1-0", "Running")
        await play("startup-policy-job-2-0", "Pending")
        assert "startup-policy-job-3-0" not in await jobs()
        await play("startup-policy-job-2-0", "Running")
        await play("startup-policy-job-3-0", "Running")

        await becomes("startup-policy", "StartupPolicyCompleted")


async def test_a_startup_policy_does_not_change(apply, control_plane):
    await apply("startup/story-1.yaml")
    policy = {"startupPolicy": {"startupPolicyOrder": "AnyOrder", "rules": None}}

    with pytest.raises(Invalid, match="immutable"):
        await control_plane.client().patch(JOBSETS, Key(control_plane.namespace, "fine-tune-llm"), {"spec": policy})
