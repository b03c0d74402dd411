"""The schema of `torch.elasticPolicy`: the fields of KEP-2170 and of PyTorchJob, and what contradicts itself."""

import pytest

from ktrain.api.documents import DocumentError, load

PATH = "spec.mlPolicy.torch.elasticPolicy"
ONE_NODE = "standalone is for one node: minNodes and maxNodes must be 1 or unset"
IGNORED = "rdzvHost, rdzvId and rdzvPort must not be set with standalone: torchrun would ignore them"
C10D = "only c10d is supported: etcd and etcd-v2 are legacy, and with static no node can join or leave"


def refusals(shipped, elastic, **torch):
    policy = {"torch": {"elasticPolicy": elastic, **torch}}
    obj = {"metadata": {"name": "r"}, "spec": {"mlPolicy": policy, "template": {"spec": {}}}}
    schema = shipped["TrainingRuntime"]
    pruned, unknown = schema.prune(obj)
    return [*unknown, *(str(cause) for cause in schema.validate(schema.default(pruned)))]


@pytest.mark.parametrize(
    "elastic",
    [
        {},
        {"minNodes": 2, "maxNodes": 4, "maxRestarts": 0, "backend": "c10d"},
        {"minReplicas": 1, "maxReplicas": 3, "nProcPerNode": 2},
        {"maxNodes": 3, "rdzvHost": "store.team.svc", "rdzvPort": 65535, "rdzvId": "a"},
        {"maxNodes": 3, "rdzvHost": "10.0.0.1"},
        {"maxNodes": 3, "rdzvHost": "[fd00::1]"},
        {"rdzvConf": [{"key": "a", "value": "b=c"}, {"key": "join_timeout", "value": "9"}]},
        {"standalone": True, "nProcPerNode": "auto", "backend": "c10d", "rdzvConf": [{"key": "a", "value": "b"}]},
        {"standalone": True, "minNodes": 1, "maxNodes": 1},
        {"standalone": False, "maxNodes": 4, "rdzvPort": 1},
    ],
)
def test_a_policy_that_makes_sense_is_taken_whole(shipped, elastic):
    assert refusals(shipped, elastic) == []


@pytest.mark.parametrize(
    ("elastic", "expected"),
    [
        ({"backend": "etcd"}, f'{PATH}.backend: Invalid value: "etcd": {C10D}'),
        ({"backend": "etcd-v2"}, f'{PATH}.backend: Invalid value: "etcd-v2": {C10D}'),
        ({"backend": "static"}, f'{PATH}.backend: Invalid value: "static": {C10D}'),
        ({"minNodes": 4, "maxNodes": 2}, f"{PATH}: Invalid value: minNodes must not be greater than maxNodes"),
        ({"minReplicas": 4, "maxNodes": 2}, f"{PATH}: Invalid value: minNodes must not be greater than maxNodes"),
        (
            {"minNodes": 2, "minReplicas": 2},
            f"{PATH}: Invalid value: minReplicas is another name of minNodes: only one can be set",
        ),
        (
            {"maxNodes": 2, "maxReplicas": 3},
            f"{PATH}: Invalid value: maxReplicas is another name of maxNodes: only one can be set",
        ),
        ({"standalone": True, "rdzvPort": 29500}, f"{PATH}: Invalid value: {IGNORED}"),
        ({"standalone": True, "rdzvHost": "a"}, f"{PATH}: Invalid value: {IGNORED}"),
        ({"standalone": True, "rdzvId": "a"}, f"{PATH}: Invalid value: {IGNORED}"),
        ({"standalone": True, "maxNodes": 2}, f"{PATH}: Invalid value: {ONE_NODE}"),
        ({"standalone": True, "minReplicas": 2}, f"{PATH}: Invalid value: {ONE_NODE}"),
        (
            {"rdzvConf": [{"key": "a", "value": "1"}, {"key": "a", "value": "2"}]},
            f'{PATH}.rdzvConf[1]: Duplicate value: {{"key":"a"}}',
        ),
        ({"nProcPerNode": "many"}, "NumProcPerNode must be equal to auto, cpu, gpu, or int value"),
        ({"rdzvBackend": "c10d"}, f"{PATH}.rdzvBackend"),
    ],
)
def test_a_policy_that_contradicts_itself_is_refused_in_words(shipped, elastic, expected):
    (refusal,) = refusals(shipped, elastic)

    assert expected in refusal


def test_a_setting_of_the_rendezvous_has_a_value(shipped):
    assert f"{PATH}.rdzvConf[0].value: Required value" in refusals(shipped, {"rdzvConf": [{"key": "a"}]})


@pytest.mark.parametrize(
    "elastic",
    [
        {"rdzvPort": 0},
        {"rdzvPort": 65536},
        {"rdzvHost": "store:29500"},
        {"rdzvHost": ""},
        {"rdzvId": ""},
        {"rdzvConf": [{"key": "a=b", "value": "1"}]},
        {"rdzvConf": [{"key": "a", "value": "1,b=2"}]},
        {"minNodes": 0},
        {"maxReplicas": 0},
    ],
)
def test_what_torchrun_could_not_read_is_refused(shipped, elastic):
    (refusal,) = refusals(shipped, elastic)

    assert f"{PATH}.{next(iter(elastic))}" in refusal


def test_the_number_of_processes_is_said_once(shipped):
    assert refusals(shipped, {"nProcPerNode": 2}, numProcPerNode=2) == [
        (
            "spec.mlPolicy.torch: Invalid value: nProcPerNode of the elasticPolicy and numProcPerNode are the same, so"
            " only one of them can be set"
        )
    ]


def test_the_keps_torch_spec_is_refused_with_the_name_that_it_has(tmp_path):
    """KEP-2170's example of an elastic runtime says `torchSpec`; its own types, like Trainer's, say `torch`."""
    file = tmp_path / "runtime.yaml"
    file.write_text(
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: ClusterTrainingRuntime\nmetadata: {name: r}\n"
        "spec:\n  mlPolicy:\n    torchSpec:\n      elasticPolicy: {minNodes: 5, maxNodes: 10}\n"
    )
    with pytest.raises(DocumentError, match=r'spec\.mlPolicy\.torchSpec: unknown field; did you mean "torch"\?$'):
        load([file])
