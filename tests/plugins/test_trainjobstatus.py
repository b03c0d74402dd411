"""The TrainJobStatus plugin: what pods get to report with, and that they get nothing while the feature is off."""

import pytest

from ktrain.pipeline import Context, PlanError, Registry, plan
from ktrain.plugins.jobset import JobSet
from ktrain.plugins.plainml import PlainML
from ktrain.plugins.trainjobstatus import TrainJobStatus

RUNTIME = """
spec:
  mlPolicy: {numNodes: 1}
  template: {spec: {replicatedJobs: [
    {name: first, template: {spec: {template: {spec: {containers: [{name: node, image: f}]}}}}},
    {name: node, template: {metadata: {labels: L}, spec: {template: {spec: {
      initContainers: [{name: init, image: i}],
      containers: [{name: node, image: i, env: [{name: A, value: a}]}, {name: side, image: s}]}}}}}
  ]}}
"""
JOB = "{metadata: {name: sj, namespace: team, uid: uid-10}, spec: {runtimeRef: {name: plain}%s}}"
SECTION = {"url": "https://kubeflow-trainer-controller-manager.kubeflow-system.svc:10443", "ca": "CA"}
STATUS = "trainer.kubeflow.org/v1alpha1/namespaces/team/trainjobs/sj/status"


@pytest.fixture
def objects(kit):
    """`objects(section, runtime, trainer)` returns what is built, by kind."""

    def build(section=SECTION, runtime=RUNTIME, trainer=""):
        world = kit.context
        context = Context(
            world.lookup,
            world.now,
            world.random,
            world.log,
            world.monotonic,
            {} if section is None else {"TrainJobStatus": section},
        )
        registry = Registry([JobSet(), PlainML(), TrainJobStatus()])
        made = plan(registry, kit.job(JOB % trainer), kit.runtime(runtime), context)
        return {component.resource.kind: component.body for component in made.components}

    return build


def pods(objects):
    return [rj["template"]["spec"]["template"]["spec"] for rj in objects["JobSet"]["spec"]["replicatedJobs"]]


def test_all_main_containers_of_the_trainer_get_address_ca_and_token(objects):
    found = objects()
    first, node = pods(found)

    for container, before in zip(node["containers"], (["A"], []), strict=True):
        env = container["env"]
        assert [entry["name"] for entry in env][: len(before)] == before
        assert env[len(before) :] == [
            {"name": "KUBEFLOW_TRAINER_SERVER_URL", "value": f"{SECTION['url']}/apis/{STATUS}"},
            {"name": "KUBEFLOW_TRAINER_SERVER_CA_CERT", "value": "/var/run/secrets/kubeflow/trainer/ca.crt"},
            {"name": "KUBEFLOW_TRAINER_SERVER_TOKEN", "value": "/var/run/secrets/kubeflow/trainer/token"},
        ]
        assert container["volumeMounts"] == [
            {"name": "kubeflow-trainer-token", "mountPath": "/var/run/secrets/kubeflow/trainer", "readOnly": True}
        ]
    token = {"audience": STATUS, "expirationSeconds": 3600, "path": "token"}
    config_map = {"name": "sj-tls-config", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    assert node["volumes"] == [
        {
            "name": "kubeflow-trainer-token",
            "projected": {"sources": [{"serviceAccountToken": token}, {"configMap": config_map}]},
        }
    ]
    assert node["initContainers"] == [{"name": "init", "image": "i"}]
    assert first["containers"] == [{"name": "node", "image": "f"}]


def test_the_ca_is_in_a_config_map_of_the_job_also_without_a_trainer(objects):
    found = objects(runtime=RUNTIME.replace("labels: L", "labels: {}"))["ConfigMap"]

    assert found["data"] == {"ca.crt": "CA"}
    assert (found["metadata"]["name"], found["metadata"]["namespace"]) == ("sj-tls-config", "team")
    assert [owner["uid"] for owner in found["metadata"]["ownerReferences"]] == ["uid-10"]


def test_a_variable_of_the_trainjob_wins(objects):
    found = objects(trainer=", trainer: {env: [{name: KUBEFLOW_TRAINER_SERVER_URL, value: mine}]}")
    env = {entry["name"]: entry["value"] for entry in pods(found)[1]["containers"][0]["env"]}

    assert env["KUBEFLOW_TRAINER_SERVER_URL"] == "mine"


def test_while_the_feature_is_off_nothing_is_written(objects):
    found = objects(None)

    assert set(found) == {"JobSet"}
    assert "volumes" not in pods(found)[1]
    assert "env" not in pods(found)[1]["containers"][1]


@pytest.mark.parametrize("section", [SECTION | {"ca": ""}, {"url": SECTION["url"]}])
def test_without_a_ca_no_job_starts_and_the_reason_is_said(objects, section):
    with pytest.raises(PlanError, match=r"failed to find status server ca\.crt in tls secret"):
        objects(section)
