"""TrainJobs that Kueue takes away: because their pods do not get ready, or because another cluster runs them."""

import pytest

from .team import JOBSETS, RUNTIMES, runtime, trainer

pytestmark = pytest.mark.e2e


async def test_a_job_whose_pods_are_not_ready_in_time_is_taken_back_and_tried_again(elsewhere):
    await elsewhere.open_queue()
    await elsewhere.submit("job", runtime(trainer()))
    first = {pod["metadata"]["uid"] for pod in await elsewhere.until_pods("job", 2)}
    await elsewhere.until_pods("job", 2, lambda pod: pod["metadata"]["uid"] not in first)
    await elsewhere.let_pods("job", "Running")
    await elsewhere.until_workload("job", "PodsReady")
    assert elsewhere.refused() == []


async def test_a_job_runs_in_the_cluster_that_kueue_sends_it_to(namespace, elsewhere):
    """There it is an ordinary job; here nothing is written but the status that Kueue copies."""
    there = await elsewhere.beside(namespace.namespace)
    await there.create(RUNTIMES, "job", spec=runtime(trainer()))
    await there.open_queue()
    await namespace.open_queue(await namespace.send_to(there))
    made = await namespace.submit("job", runtime(trainer()))
    assert made["spec"]["managedBy"] == "kueue.x-k8s.io/multikueue"

    await there.until_pods("job", 2)
    await there.let_pods("job", "Running")
    await there.until_workload("job", "PodsReady")
    await there.let_pods("job", "Succeeded")
    await namespace.until(lambda: namespace.has_ended("job"))
    await namespace.until_workload("job", "Finished")
    assert await namespace.get(JOBSETS, "job") is None
    assert namespace.writes("trainer") == []
    assert namespace.refused() == there.refused() == []
