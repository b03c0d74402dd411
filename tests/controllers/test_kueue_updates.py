"""Updates of TrainJobs by Kueue, which writes back what its own types left of one, and of those that it knows."""

import copy

import pytest

from ktrain.controllers.kueue import MANAGER, kept, meant


def entry(*pools):
    """Kueue's patch."""
    jobs = [
        {"name": "node", "template": {"spec": {"template": {"spec": {"nodeSelector": {"pool": p}}}}}} for p in pools
    ]
    return {"manager": MANAGER, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs} if jobs else {}}}}


def patch(**pod):
    """A user's patch."""
    jobs = [{"name": "node", "template": {"spec": {"template": {"spec": pod}}}}]
    return {"manager": "acme.io/me", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}


def job(**spec):
    return {"metadata": {"name": "job"}, "spec": {"runtimeRef": {"name": "rt"}, "trainer": {"numNodes": 2}, **spec}}


WHOLE = {
    "podTemplateOverrides": [{"targetJobs": [{"name": "node"}], "spec": {"nodeSelector": {"disk": "fast"}}}],
    "elasticNodes": 3,
    "labels": {"a": "b"},
}
NEWER = patch(nodeSelector={"a": "b"}, terminationGracePeriodSeconds=5)
OLDER = patch(nodeSelector={"a": "b"})
STORED = job(suspend=True, runtimePatches=[NEWER, entry()], **WHOLE)
RUNNING = job(suspend=False, runtimePatches=[NEWER, entry("x")], **WHOLE)


@pytest.mark.parametrize(
    ("said", "old", "stored"),
    [
        pytest.param(
            job(suspend=True, runtimePatches=[OLDER, entry("x")]),
            STORED,
            job(suspend=True, runtimePatches=[NEWER, entry("x")], **WHOLE),
            id="it admits a job",
        ),
        pytest.param(
            job(suspend=True, runtimePatches=[OLDER, entry("x")]),
            RUNNING,
            job(suspend=True, runtimePatches=[NEWER, entry("x")], **WHOLE),
            id="it suspends a job",
        ),
        pytest.param(
            job(suspend=True, runtimePatches=[OLDER, entry("x")], initializer={}, labels={}),
            RUNNING,
            job(suspend=True, runtimePatches=[NEWER, entry("x")], **WHOLE),
            id="with what Go writes where nothing was",
        ),
    ],
)
def test_an_update_by_kueue_drops_nothing(said, old, stored):
    before = copy.deepcopy((said, old))
    assert meant(said, old) == stored
    assert (said, old) == before


@pytest.mark.parametrize(
    ("said", "old"),
    [
        pytest.param(job(suspend=True, runtimePatches=[OLDER, entry()]), STORED, id="fields are taken away"),
        pytest.param(job(suspend=False, runtimePatches=[entry()]), STORED, id="a whole patch is taken away"),
        pytest.param(
            job(suspend=False, runtimePatches=[patch(nodeSelector={"a": "c"}), entry()]), STORED, id="a value changes"
        ),
        pytest.param(job(suspend=False, runtimePatches=[OLDER, entry()], managedBy="a"), STORED, id="one is added"),
        pytest.param(job(suspend=False, runtimePatches=[NEWER]), STORED, id="Kueue's patch is taken away"),
        pytest.param(job(suspend=False), job(suspend=True, **WHOLE), id="Kueue does not know the job"),
        pytest.param(job(suspend=False, runtimePatches=[entry("x")]), None, id="the job is new"),
        pytest.param(RUNNING, STORED, id="nothing was dropped"),
    ],
)
def test_what_others_say_counts_as_they_say_it(said, old):
    assert meant(said, old) is said


QUEUED = {"name": "job", "labels": {"kueue.x-k8s.io/queue-name": "q"}}


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        pytest.param({"cpu": 1}, {"cpu": "1"}, id="a number"),
        pytest.param({"cpu": "0.5", "memory": "1024Mi"}, {"cpu": "500m", "memory": "1Gi"}, id="other units"),
    ],
)
def test_a_file_that_is_applied_again_changes_nothing(said, stored):
    def sized(requests, *patches):
        trainer = {"numNodes": 2, "resourcesPerNode": {"requests": requests, "limits": {"gpu": "1"}}}
        return job(trainer=trainer, runtimePatches=list(patches)) | {"metadata": QUEUED}

    later = patch(tolerations=[]) | {"manager": "acme.io/later"}
    live = sized(stored, OLDER, entry("x"), later)
    assert meant(sized(said, OLDER, later), live) == live


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        pytest.param({"requests": {"cpu": "2"}}, {"requests": {"cpu": "1"}}, id="another amount"),
        pytest.param({"requests": {"cpu": 1}}, {"limits": {"cpu": "1"}}, id="of another kind"),
        pytest.param({"requests": {"cpu": "much"}}, {"requests": {"cpu": "1"}}, id="no amount"),
        pytest.param({"requests": 1}, {"requests": {"cpu": "1"}}, id="no amounts"),
    ],
)
def test_other_resources_are_other_resources(said, stored):
    new = job(trainer={"resourcesPerNode": said}, runtimePatches=[entry("x")])
    assert meant(new, job(trainer={"resourcesPerNode": stored}, runtimePatches=[entry("x")])) is new


def test_a_job_that_leaves_its_queue_leaves_kueues_patch():
    new = job(runtimePatches=[OLDER])
    assert meant(new, job(runtimePatches=[OLDER, entry()]) | {"metadata": QUEUED}) is new


def test_whoever_drops_something_is_told_that_it_is_kept():
    said = job(suspend=False, runtimePatches=[OLDER, entry("x")])
    pods = "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[0].template.spec.template.spec"

    (told,) = kept(said, STORED)

    paths = f"spec.elasticNodes, spec.labels, spec.podTemplateOverrides, {pods}.terminationGracePeriodSeconds"
    assert told.startswith(f"kept although this update takes it away: {paths}. While a job is in a queue")
    assert kept(RUNNING, STORED) == kept(said, None) == ()
