"""The size that an elastic TrainJob gets when it says none, and what is said to who changes its first one."""

import msgspec
import pytest

from ktrain.api import trainer as api
from ktrain.controllers.admission import default_nodes, hints

ELASTIC = {"mlPolicy": {"torch": {"elasticPolicy": {"minNodes": 3, "maxNodes": 5}}}}
STATUS = {"elastic": {"minNodes": 3, "maxNodes": 5}}
SCALED = {"spec": {"trainer": {"numNodes": 3}, "elasticNodes": 4}, "status": STATUS}


def defaulted(spec, old=None, *, runtime=ELASTIC):
    def lookup(resource, key):
        assert (resource, key) == (api.CLUSTER_TRAINING_RUNTIMES, ("", "rt"))
        return api.Runtime(spec=msgspec.Raw(msgspec.json.encode(runtime))) if runtime else None

    if isinstance(spec, dict):
        spec = {"runtimeRef": {"name": "rt"}} | spec
    job = {"metadata": {"name": "job", "namespace": "team"}, "spec": spec}
    sized = default_nodes(job, old, lookup)
    rest = {key: value for key, value in sized["spec"].items() if key != "elasticNodes"} if spec else []
    assert rest == ({key: value for key, value in spec.items() if key != "elasticNodes"} if spec else [])
    return sized["spec"].get("elasticNodes") if spec else None


@pytest.mark.parametrize(
    ("spec", "old", "runtime", "nodes"),
    [
        pytest.param({}, None, ELASTIC, 3, id="new, without a trainer"),
        pytest.param({"trainer": {"image": "a"}}, None, ELASTIC, 3, id="new"),
        pytest.param({"trainer": {"numNodes": 4}}, None, ELASTIC, 4, id="begins with those of its trainer"),
        pytest.param({"trainer": {"numNodes": 9}}, None, ELASTIC, 5, id="which are checked next"),
        pytest.param({"elasticNodes": 4}, None, ELASTIC, 4, id="said"),
        pytest.param({"trainer": {"numNodes": 3}, "elasticNodes": 4}, None, ELASTIC, 4, id="said twice"),
        pytest.param({}, None, {"mlPolicy": {"torch": {}}}, None, id="not elastic"),
        pytest.param({}, None, {}, None, id="no policy"),
        pytest.param({}, None, None, None, id="no runtime"),
        pytest.param({"trainer": {"numNodes": 3}}, SCALED, ELASTIC, 4, id="replaced after it was scaled"),
        pytest.param({"elasticNodes": 5}, SCALED, ELASTIC, 5, id="scaled"),
        pytest.param({}, {"spec": {"elasticNodes": 4}, "status": {}}, ELASTIC, None, id="what is not elastic loses it"),
        pytest.param({"trainer": {}}, {"spec": {"trainer": {}}}, ELASTIC, None, id="an update never starts it"),
        pytest.param({"trainer": []}, None, ELASTIC, None, id="the wrong shape is the schema's to refuse"),
        pytest.param({"trainer": {"image": 1}}, None, ELASTIC, None, id="so is the wrong type"),
        pytest.param([], None, ELASTIC, None, id="and a spec that is none"),
    ],
)
def test_an_elastic_job_gets_the_nodes_it_begins_with_or_keeps_what_it_had(spec, old, runtime, nodes):
    assert defaulted(spec, old, runtime=runtime) == nodes


@pytest.mark.parametrize(
    ("trainer", "old", "is_told"),
    [
        pytest.param({"numNodes": 4}, SCALED, True, id="its first number changes"),
        pytest.param({}, SCALED, True, id="is taken away"),
        pytest.param({"numNodes": 3}, SCALED, False, id="stays"),
        pytest.param({"numNodes": 4}, {"spec": {"trainer": {"numNodes": 3}}}, False, id="not elastic"),
        pytest.param({"numNodes": 4}, None, False, id="new"),
        pytest.param({"numNodes": "4"}, SCALED, False, id="the wrong type is the schema's to refuse"),
    ],
)
def test_who_changes_the_first_number_of_nodes_is_told_which_to_change(trainer, old, is_told):
    named = old and {"metadata": {"name": "job"}} | old
    told = hints({"metadata": {"name": "job"}, "spec": {"trainer": trainer}}, named)

    hint = (
        "spec.trainer.numNodes: an elastic job begins with so many nodes; to have others, change spec.elasticNodes,"
        " or use kubectl scale trainjob/job --replicas=N"
    )
    assert told == ((hint,) if is_told else ())
