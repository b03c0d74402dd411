import pytest

from ktrain.cli.submit import Refused, read

JOB = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": "job"}, "spec": {}}
MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map", "namespace": "other"}}
RUNTIME = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "ClusterTrainingRuntime",
    "metadata": {"name": "mine"},
}


def test_objects_that_name_no_namespace_get_the_default_unless_their_kind_has_none():
    submission = read([RUNTIME, MAP, JOB], "team")

    assert submission.key == ("team", "job")
    assert submission.namespaces == {"team", "other"}
    assert "namespace" not in submission.companions[0]["metadata"]


@pytest.mark.parametrize(
    ("objects", "says"),
    [
        ([], "no TrainJob to run"),
        ([MAP], "found: ConfigMap"),
        ([JOB, {**JOB, "metadata": {"name": "second"}}], "found 2: job, second"),
        ([JOB, JOB], "given twice"),
        ([{**JOB, "metadata": {}}], "no metadata.name"),
        ([{**JOB, "metadata": {"name": "x" * 64}}], "is no name"),
        ([{**JOB, "metadata": {"name": "Job"}}], "is no name"),
        ([JOB, {"apiVersion": "v7", "kind": "Nope", "metadata": {"name": "n"}}], "Nope"),
    ],
)
def test_what_cannot_be_run_is_refused_with_a_reason(objects, says):
    with pytest.raises(Refused, match=says):
        read(objects, "default")


def test_a_generated_name_is_chosen_before_anything_is_watched():
    name = read([{**JOB, "metadata": {"generateName": "run-"}}], "default").key.name

    assert name.startswith("run-")
    assert len(name) == 10
