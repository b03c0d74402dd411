"""OptimizationJobs: a schema that upstream ships, and no controller."""

import copy

import pytest

GOOD = {
    "metadata": {"name": "search"},
    "spec": {
        "objectives": [{"metric": "loss"}],
        "parameters": [{"name": "lr", "searchSpace": {"uniform": {"min": "0.1", "max": "0.5"}}}],
        "trainJobTemplate": {"spec": {"runtimeRef": {"name": "rt"}}},
    },
}
LOG = {"logUniform": {"min": "0", "max": "1"}}
CHOICE = {"categorical": {"choices": ["a"]}}
IMMUTABLE = "spec: Invalid value: OptimizationJobSpec is immutable and cannot be updated after creation"


def messages(schema, obj, old=None):
    return [str(cause) for cause in schema.validate(schema.default(obj), old and schema.default(old))]


def changed(space: dict | None = None, **spec) -> dict:
    body = copy.deepcopy(GOOD)
    body["spec"] |= spec
    if space:
        body["spec"]["parameters"][0]["searchSpace"] = space
    return body


def test_a_good_one_is_welcome_and_gets_upstreams_defaults(shipped):
    schema = shipped["OptimizationJob"]
    spec = schema.default(GOOD)["spec"]

    assert messages(schema, GOOD) == []
    assert (spec["numTrials"], spec["parallelTrials"], spec["searchAlgorithm"]) == (1, 1, {"random": {}})
    assert spec["objectives"] == [{"metric": "loss", "direction": "Minimize"}]
    assert spec["parameters"][0]["searchSpace"]["uniform"]["type"] == "Float"


@pytest.mark.parametrize(
    ("obj", "words"),
    [
        (changed({"uniform": {"min": "2", "max": "1"}}), "uniform: Invalid value: min must be strictly less than max"),
        (changed(LOG), "logUniform: Invalid value: min must be strictly greater than 0"),
        (changed(LOG | CHOICE), "exactly one of the fields in [uniform logUniform categorical] must be set"),
        (changed(searchAlgorithm={"grid": {}}), "Grid search requires all parameters to be Categorical"),
        (changed(searchAlgorithm={"grid": {}, "random": {}}), "exactly one of the fields in [random grid] must be set"),
        (changed(parallelTrials=2), "parallelTrials cannot exceed numTrials"),
        (changed(objectives=[{"metric": "a"}, {"metric": "b"}]), "spec.objectives: Too many: 2: must have at most 1"),
        (changed({"uniform": {"min": "one", "max": "2"}}), "uniform.min in body should match"),
    ],
)
def test_what_makes_no_search_is_refused_in_kubeflow_trainers_words(shipped, obj, words):
    assert any(words in message for message in messages(shipped["OptimizationJob"], obj))


def test_it_never_changes(shipped):
    assert messages(shipped["OptimizationJob"], changed(numTrials=2), GOOD) == [IMMUTABLE]
