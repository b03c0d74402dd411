"""The number of nodes that an elastic TrainJob gets when it names none."""

import msgspec
import pytest

from ktrain.api import trainer as api
from ktrain.controllers.admission import default_nodes

ELASTIC = {"mlPolicy": {"torch": {"elasticPolicy": {"minNodes": 3, "maxNodes": 4}}}}
SCALED = {"spec": {"trainer": {"numNodes": 4}}, "status": {"elastic": {"minNodes": 3, "maxNodes": 4}}}


def defaulted(spec, old=None, *, runtime=ELASTIC):
    def lookup(resource, key):
        assert (resource, key) == (api.CLUSTER_TRAINING_RUNTIMES, ("", "rt"))
        return api.Runtime(spec=msgspec.Raw(msgspec.json.encode(runtime))) if runtime else None

    if isinstance(spec, dict):
        spec = {"runtimeRef": {"name": "rt"}} | spec
    job = {"metadata": {"name": "job", "namespace": "team"}, "spec": spec}
    sized = default_nodes(job, old, lookup)
    return sized["spec"].get("trainer") if isinstance(spec, dict) else sized["spec"]


@pytest.mark.parametrize(
    ("spec", "old", "runtime", "trainer"),
    [
        pytest.param({}, None, ELASTIC, {"numNodes": 3}, id="new, without a trainer"),
        pytest.param({"trainer": {"image": "a"}}, None, ELASTIC, {"image": "a", "numNodes": 3}, id="new"),
        pytest.param({"trainer": {"numNodes": 4}}, None, ELASTIC, {"numNodes": 4}, id="said"),
        pytest.param({}, None, {"mlPolicy": {"torch": {}}}, None, id="not elastic"),
        pytest.param({}, None, {}, None, id="no policy"),
        pytest.param({}, None, None, None, id="no runtime"),
        pytest.param({"trainer": {}}, SCALED, ELASTIC, {"numNodes": 4}, id="applied again after it was scaled"),
        pytest.param({"trainer": {}}, {"spec": {"trainer": {}}}, ELASTIC, {}, id="an update never starts it"),
        pytest.param({"trainer": []}, None, ELASTIC, [], id="the wrong shape is the schema's to refuse"),
        pytest.param({"trainer": {"image": 1}}, None, ELASTIC, {"image": 1}, id="so is the wrong type"),
        pytest.param([], None, ELASTIC, [], id="and a spec that is none"),
    ],
)
def test_an_elastic_job_gets_the_fewest_nodes_or_keeps_what_it_had(spec, old, runtime, trainer):
    assert defaulted(spec, old, runtime=runtime) == trainer
