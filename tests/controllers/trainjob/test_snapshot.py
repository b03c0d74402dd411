"""Runtime snapshots."""

import pytest

from ktrain.api import trainer as api
from ktrain.api.core import ConfigMap
from ktrain.controllers.trainjob import snapshot
from ktrain.controllers.trainjob.compare import is_applied
from ktrain.pipeline import PlanError

from .conftest import Situation, meta, typed_runtime

GOS = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {name: rt, namespace: team, creationTimestamp: "2026-01-01T00:00:00Z"}
spec:
  mlPolicy: {numNodes: 3, torch: {}}
"""


def test_a_snapshot_reads_back_as_the_runtime_it_was_taken_from():
    taken = snapshot.take(typed_runtime())

    assert snapshot.parse(taken.text) is taken
    assert (taken.kind, taken.api_group, taken.name) == ("TrainingRuntime", "trainer.kubeflow.org", "rt")
    assert taken.spec.ml_policy.num_nodes == 2


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


@pytest.mark.parametrize("text", ["a: [", "- 1", "kind: 3", "spec: {mlPolicy: 3}"])
def test_what_is_no_runtime_is_refused(text):
    with pytest.raises(PlanError, match="unable to unmarshal the snapshot"):
        snapshot.parse(text)


def test_reading_says_what_is_wrong():
    job = Situation().job
    foreign = snapshot.read(ConfigMap(metadata=meta("s", "other"), data={"runtime": GOS}), job)
    empty = snapshot.read(ConfigMap(metadata=meta("s"), data={}), job)

    assert str(foreign) == "invalid runtime snapshot: a snapshot configmap exists but is owned by another object"
    assert str(empty) == 'invalid runtime snapshot: snapshot ConfigMap missing "runtime" data key'
    assert snapshot.read(ConfigMap(metadata=meta("s"), data={"runtime": GOS}), job).name == "rt"


def test_what_the_server_fills_in_is_no_difference_and_all_else_is():
    desired = {"metadata": {"name": "j", "labels": {"a": "b"}}, "spec": {"jobs": [{"n": 1}], "suspend": True}}
    servers = {"uid": "u", "resourceVersion": "1", "managedFields": []}
    live = {
        "metadata": desired["metadata"] | servers,
        "spec": {"jobs": [{"n": 1, "replicas": 1}], "suspend": True, "network": {"enableDNSHostnames": True}},
        "status": {},
    }
    relabelled = live | {"metadata": live["metadata"] | {"labels": {"a": "b", "old": "x"}}}
    longer = live | {"spec": live["spec"] | {"jobs": [{"n": 1}, {"n": 2}]}}

    assert is_applied(live, desired)
    assert not is_applied(relabelled, desired)
    assert not is_applied(longer, desired)
    assert not is_applied(live | {"spec": live["spec"] | {"suspend": False}}, desired)
