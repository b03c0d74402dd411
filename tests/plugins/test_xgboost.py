"""The XGBoost plugin: what a worker is told, and what a TrainJob may not say."""

import pytest

RUNTIME = """
spec:
  mlPolicy: {numNodes: 2, xgboost: {}}
  template: {spec: {replicatedJobs: [{name: node, template: {metadata: {labels: L}, spec: {template: {spec: {
    containers: [{name: node, image: i%s}]}}}}}]}}
"""
JOB = "{metadata: {name: xj, namespace: team, uid: u}, spec: {runtimeRef: {name: rt}%s}}"
GPUS = ", resources: {limits: {nvidia.com/gpu: 4}}"


def test_the_users_variables_come_before_the_trackers(kit):
    container = kit.container(RUNTIME % "", JOB % ', trainer: {numNodes: 3, env: [{name: A, value: "1"}]}')

    assert container["env"] == [
        {"name": "A", "value": "1"},
        {"name": "DMLC_TRACKER_URI", "value": "xj-node-0-0.xj"},
        {"name": "DMLC_TRACKER_PORT", "value": "29500"},
        {
            "name": "DMLC_TASK_ID",
            "valueFrom": {
                "fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}
            },
        },
        {"name": "DMLC_NUM_WORKER", "value": "3"},
    ]
    assert container["ports"] == [{"containerPort": 29500, "protocol": "TCP"}]


@pytest.mark.parametrize(
    ("runtime", "trainer", "expected"),
    [
        ("", "{}", "2"),
        ("", "{numNodes: 5}", "5"),
        ("", "{numNodes: 0}", "0"),
        (GPUS, "{}", "8"),
        ("", "{resourcesPerNode: {limits: {nvidia.com/gpu: 4}}}", "8"),
        (GPUS, "{resourcesPerNode: {requests: {amd.com/gpu: 1}}}", "2"),
        (GPUS, "{resourcesPerNode: {requests: {cpu: 3}}}", "8"),
        (GPUS, "{resourcesPerNode: {requests: {google.com/tpu: 3}}}", "2"),
        ("", "{numProcPerNode: 9}", "2"),
    ],
)
def test_there_is_a_worker_for_each_gpu_or_one_on_each_node(kit, runtime, trainer, expected):
    container = kit.container(RUNTIME % runtime, JOB % f", trainer: {trainer}")

    assert container["env"][-1] == {"name": "DMLC_NUM_WORKER", "value": expected}


def test_without_a_trainer_the_container_is_the_runtimes_own(kit):
    container = kit.container(RUNTIME % "", JOB % "")

    assert not {"env", "ports"} & container.keys()


def test_each_reserved_variable_is_refused_by_its_place(kit):
    env = "[{name: DMLC_TRACKER_URI, value: a}, {name: B}, {name: DMLC_NUM_WORKER, value: c}]"

    assert kit.errors(RUNTIME % "", JOB % f", trainer: {{env: {env}}}") == [
        "spec.trainer.env[0]: Forbidden: DMLC_TRACKER_URI is reserved for the XGBoost runtime",
        "spec.trainer.env[2]: Forbidden: DMLC_NUM_WORKER is reserved for the XGBoost runtime",
    ]


def test_other_runtimes_do_not_reserve_them(kit):
    runtime = (RUNTIME % "").replace("xgboost: {}", "jax: {}")

    assert kit.errors(runtime, JOB % ", trainer: {env: [{name: DMLC_TASK_ID, value: a}]}") == []
