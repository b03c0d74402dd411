"""KEP-3015: the stories, as far as objects go; real placement is in `controlplane/gangs`."""

import re

import pytest

from ktrain.api.meta import Resource
from ktrain.api.trainer import TRAIN_JOBS
from ktrain.framework.errors import NotFound


def kind_of(name):
    """A kind of Kubernetes' own gangs, at the version that the document names."""
    return Resource("scheduling.k8s.io", "v1alpha2", name, f"{name.lower()}s", namespaced=True, type=dict)


@pytest.fixture
def gang(control_plane, apply, built, running):
    """
    `await gang("story-1")` applies a story and returns its Workload, its PodGroups by template, and its JobSet.

    None on a server without the kinds, as real ones are by default; there the job must say so.
    """
    client, namespace = control_plane.client(), control_plane.namespace

    async def run(story):
        async with running("trainjob"):
            await apply(f"workload/{story}.yaml")
            try:
                await client.list(kind_of("Workload"), namespace)
            except NotFound:
                job = await control_plane.wait_for(TRAIN_JOBS, "my-job", lambda one: one.status.diagnosis is not None)
                assert "Workload" in job.status.diagnosis.message
                return None
            workload = await control_plane.wait_for(kind_of("Workload"), "my-job", lambda one: one is not None)
            job_set = await built("my-job")  # written after its PodGroups
            found = {}
            for job in job_set.jobs:
                name = job_set.pod(job)["schedulingGroup"]["podGroupName"]
                group = await client.get(kind_of("PodGroup"), name, namespace)
                found[job] = group
            return workload, found, job_set

    return run


def owners(obj):
    """Who owns an object, and which of them controls it."""
    return {(one["kind"], one["name"], one.get("controller", False)) for one in obj["metadata"]["ownerReferences"]}


def gang_of(policy):
    """How many pods a policy places together; None if each goes alone."""
    return policy["gang"]["minCount"] if "gang" in policy else None


@pytest.mark.parametrize(
    ("story", "templates"),
    [
        ("story-1", {"trainer": 100}),
        ("story-2", {"trainer": 50}),
        # The document's own object says 8, where its runtime has `numNodes: 1`.
        ("story-3", {"initializer": None, "trainer": 1}),
    ],
)
async def test_the_workload_of_a_story_has_its_templates_and_belongs_to_the_job(gang, story, templates):
    if (made := await gang(story)) is None:
        return
    workload, _, _ = made

    assert {one["name"]: gang_of(one["schedulingPolicy"]) for one in workload["spec"]["podGroupTemplates"]} == templates
    assert owners(workload) == {("TrainJob", "my-job", True)}
    controller = workload["spec"]["controllerRef"]
    assert (controller["kind"], controller["name"]) == ("TrainJob", "my-job")


@pytest.mark.parametrize(
    ("story", "templates"),
    [
        ("story-1", {"node": "trainer"}),
        ("story-2", {"launcher": "trainer", "node": "trainer"}),
        ("story-3", {"dataset-initializer": "initializer", "model-initializer": "initializer", "node": "trainer"}),
    ],
)
async def test_the_pods_of_a_story_are_in_a_group_of_both_owners(gang, story, templates):
    if (made := await gang(story)) is None:
        return
    _, groups, job_set = made

    for job, template in templates.items():
        group = groups[job]
        assert re.fullmatch(f"my-job-{template}-[0-9a-f]+", group["metadata"]["name"])
        assert owners(group) == {("TrainJob", "my-job", True), ("Workload", "my-job", False)}
        reference = str(group["spec"]["podGroupTemplateRef"])
        assert "my-job" in reference
        assert template in reference
    assert job_set.size("node") == {"story-1": 100, "story-2": 50, "story-3": 1}[story]
