"""The steps from one operator to the other: what is left out costs little, and never do both work."""

from contextlib import AsyncExitStack

import pytest

from ktrain.api.core import LEASES
from ktrain.api.jobset import JOBSETS
from ktrain.framework.errors import ApiError

from .installation import LEASE, SYSTEM
from .scene import versions

KTRAIN, KUBEFLOW = "ktrain/", "trainer-manager/"


async def test_the_image_alone_does_what_kubeflow_does(stack, scene):
    """With Kubeflow's definitions and the rights of its role, which are not all that ktrain asks for."""
    async with stack.jobsets(), scene.kubelet():
        async with stack.kubeflow():
            await scene.prepare()
            scene.pods["runs"] = "running"
            await scene.create("runs", "mpi")
            await scene.create("sleeps", "gang", suspend=True)
            await scene.until_counted("runs", active=2, ready=2)
            await scene.until_conditions("sleeps", Suspended="Suspended")
            stored = await scene.quiet()
        async with stack.ktrain() as program:
            await scene.create("new", "mpi")
            await scene.until("new", lambda found: found is not None, JOBSETS)
            now = await scene.quiet()
            assert versions({which: now[which] for which in stored}) == versions(stored), program.last_words()
            scene.pods |= {"runs": "succeeded", "sleeps": "running"}
            await scene.suspend("sleeps", suspend=False)
            await scene.until_conditions("runs", Complete="AllJobsCompleted")
            await scene.until_counted("sleeps", active=1, ready=1)


async def test_one_works_while_the_other_waits_and_takes_over_when_it_ends(stack, scene):
    stack.install_ktrain()
    first, second = AsyncExitStack(), AsyncExitStack()
    async with stack.jobsets(), first, second:
        await first.enter_async_context(stack.kubeflow())
        await scene.prepare()
        waiting = await second.enter_async_context(stack.ktrain(leads=False))
        await a_job_lives(scene, "one")
        assert stack.audit.writes(agent=KTRAIN) == [], waiting.last_words()

        await first.aclose()
        await a_job_lives(scene, "two")
        since = stack.audit.now()
        await first.enter_async_context(stack.kubeflow())
        await a_job_lives(scene, "three")
        assert stack.audit.writes(since, agent=KUBEFLOW) == []

        await second.aclose()
        since = stack.audit.now()
        await a_job_lives(scene, "four")
        assert stack.audit.writes(since, agent=KTRAIN) == []
        lease = await scene.client.get(LEASES, LEASE, SYSTEM)
        assert lease.spec.lease_transitions >= 2


async def a_job_lives(scene, name):
    await scene.create(name, "mpi")
    await scene.until(name, lambda found: found is not None, JOBSETS)
    await scene.suspend(name)
    await scene.until_conditions(name, Suspended="Suspended")


@pytest.mark.ns
async def test_certificates_are_taken_over_there_and_back(stack, scene):
    """With the rights of Kubeflow's role, and the Secret that its manifests make."""
    async with stack.jobsets():
        async with stack.kubeflow(manages=True):
            await scene.prepare()
            await a_job_lives(scene, "one")
        for number, operator in enumerate((stack.ktrain, stack.kubeflow)):
            async with operator(manages=True):
                await a_job_lives(scene, f"next-{number}")
                with pytest.raises(ApiError, match="must be created before the TrainJob is created"):
                    await scene.create("nothing", "there-is-no-such-runtime")
