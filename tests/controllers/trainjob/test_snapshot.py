"""Runtime snapshots."""

import copy
import json

import msgspec
import pytest

from ktrain.api import trainer as api
from ktrain.api.core import ConfigMap
from ktrain.controllers.admission import UNCHECKED_LABEL
from ktrain.controllers.trainjob import snapshot
from ktrain.pipeline import PlanError

from .conftest import RUNTIME, Situation, meta, typed_runtime

GOS = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {name: rt, namespace: team, creationTimestamp: "2026-01-01T00:00:00Z"}
spec:
  mlPolicy: {numNodes: 3, torch: {}}
"""
DEEP = "spec: " + "[" * 5000


def test_a_snapshot_reads_back_as_the_runtime_it_was_taken_from():
    taken = snapshot.take(typed_runtime())

    assert snapshot.parse(taken.text) is taken
    assert (taken.kind, taken.api_group, taken.name) == ("TrainingRuntime", "trainer.kubeflow.org", "rt")
    assert taken.spec.ml_policy.num_nodes == 2


@pytest.mark.parametrize(
    ("coordinator", "expected"),
    [
        ({"replicatedJob": "node", "jobIndex": 0, "podIndex": 0}, {"replicatedJob": "node"}),
        (
            {"replicatedJob": "node", "jobIndex": 1, "podIndex": 2},
            {"replicatedJob": "node", "jobIndex": 1, "podIndex": 2},
        ),
        ({"replicatedJob": ""}, {"replicatedJob": ""}),
    ],
)
def test_a_coordinators_zeros_are_left_out_as_gos_types_leave_them(coordinator, expected):
    spec = msgspec.json.encode({"template": {"spec": {"coordinator": coordinator, "replicatedJobs": []}}})
    taken = snapshot.take(msgspec.structs.replace(typed_runtime(), metadata=meta("rt"), spec=msgspec.Raw(spec)))

    assert msgspec.json.decode(taken.spec.template.spec)["coordinator"] == expected


def test_jobs_of_one_runtime_share_one_snapshot_in_memory():
    assert snapshot.take(typed_runtime()) is snapshot.take(typed_runtime())


def test_yaml_that_gos_trainer_wrote_is_read():
    taken = snapshot.parse(GOS)

    assert (taken.name, taken.spec.ml_policy.num_nodes) == ("rt", 3)
    snapshot.check(taken, api.RuntimeRef(name="rt", kind="TrainingRuntime"))


def test_a_reference_without_kind_and_group_fits_any():
    snapshot.check(snapshot.parse(GOS), api.RuntimeRef(name="rt", kind="", api_group=""))
    with pytest.raises(PlanError, match='expecting a runtime with name, api group and kind of "x", "<any>", "<any>"'):
        snapshot.check(snapshot.parse(GOS), api.RuntimeRef(name="x", kind="", api_group=""))


def bomb(levels: int) -> str:
    """A runtime with aliases of aliases, ten times as large with each level."""
    lines = [f"  a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, levels)]
    return "\n".join([GOS.strip(), "status:", "  a0: &a0 [x, x, x, x, x, x, x, x, x, x]", *lines])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a: [",
        "- 1",
        "kind: 3",
        "spec: {mlPolicy: 3}",
        "a: 1\n---\na: 2",
        "&a [*a]",
        "? [1, 2]\n: 3",
        "a: !!set {x}",
        DEEP,
        '{"a":' * 5000,
    ],
)
def test_what_is_no_runtime_is_refused(text):
    with pytest.raises(PlanError, match="invalid runtime snapshot: unable to unmarshal the snapshot: "):
        snapshot.parse(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (bomb(5), "aliases of aliases"),
        (bomb(9), "aliases of aliases"),
        (f"{GOS}status:\n  b: &b {'y' * 60_000}\n  c: [{', '.join(['*b'] * 1000)}]", "aliases of aliases"),
        (f"{GOS}status: {'y' * 200_000}", "characters, and at most 131072 are read"),
        ('{"kind": "' + "y" * 2_000_000 + '"}', "characters, and at most 1048576 are read"),
    ],
)
def test_a_snapshot_that_a_user_made_huge_is_refused_unread(text, why):
    with pytest.raises(PlanError, match=why):
        snapshot.parse(text)


def test_a_few_aliases_are_yaml_like_any_other():
    assert snapshot.parse(bomb(2)).spec.ml_policy.num_nodes == 3


def test_reading_says_what_is_wrong():
    job = Situation().job
    foreign = snapshot.read(ConfigMap(metadata=meta("s", "other"), data={"runtime": GOS}), job)
    empty = snapshot.read(ConfigMap(metadata=meta("s"), data={}), job)

    assert str(foreign) == "invalid runtime snapshot: a snapshot configmap exists but is owned by another object"
    assert str(empty) == 'invalid runtime snapshot: snapshot ConfigMap missing "runtime" data key'
    assert snapshot.read(ConfigMap(metadata=meta("s"), data={"runtime": GOS}), job).name == "rt"


def refused(kind: str = "TrainingRuntime", labels: dict | None = None, **step) -> str:
    """What a snapshot says against its runtime, whose only step is different."""
    runtime = copy.deepcopy(RUNTIME)
    runtime["metadata"] = {"name": "rt", "labels": labels or {}}
    runtime["kind"] = kind
    runtime["spec"]["template"]["spec"]["replicatedJobs"][0] |= step
    return snapshot.parse(json.dumps(runtime)).refusal


@pytest.mark.parametrize("kind", ["TrainingRuntime", "ClusterTrainingRuntime"])
def test_a_runtime_that_admission_would_refuse_is_refused_in_its_words(kind):
    path = "spec.template.spec.replicatedJobs[0]"

    assert refused(kind) == ""
    assert refused(kind, replicas=2) == f"{path}.replicas: Invalid value: 2: always must be 1"
    assert refused(kind, replicas=2, labels={UNCHECKED_LABEL: "disabled"}) == ""
    assert refused(kind, replicas=2, labels={UNCHECKED_LABEL: "enabled"}) != ""


def test_a_shared_snapshot_knows_that_its_runtime_is_not_to_be_checked():
    metadata = meta("rt", labels={UNCHECKED_LABEL: "disabled", "team": "a"})
    shared = snapshot.take(msgspec.structs.replace(typed_runtime(), metadata=metadata), shared=True)

    assert json.loads(shared.text)["metadata"] == {
        "name": "rt",
        "namespace": "team",
        "labels": {UNCHECKED_LABEL: "disabled"},
    }


def large(characters: int) -> api.Runtime:
    """A runtime of many short numbers, which take more room when they are written for people."""
    spec = msgspec.json.encode({"template": {"spec": {"x": [1] * (characters // 2)}}})
    return msgspec.structs.replace(typed_runtime(), metadata=meta("rt"), spec=msgspec.Raw(spec))


def test_a_runtime_that_no_config_map_holds_is_refused_with_what_to_do():
    assert len(snapshot.take(large(1_000_000)).text) < 1024 * 1024
    with pytest.raises(PlanError, match=r'TrainingRuntime "rt" has 110.* bytes, .* a ConfigMap, which holds 1048576'):
        snapshot.take(large(1_100_000))
