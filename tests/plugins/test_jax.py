"""The JAX plugin: what a process is told."""

import pytest

RUNTIME = """
spec:
  mlPolicy: {numNodes: 2, jax: {}}
  template: {spec: {replicatedJobs: [{name: node, template: {metadata: {labels: L}, spec: {template: {spec: {
    containers: [{name: node, image: i, env: [{name: A, value: a}, {name: JAX_NUM_PROCESSES, value: "9"}],
      ports: [{containerPort: 9100}]}]}}}}}]}}
"""
JOB = "{metadata: {name: jj, namespace: team, uid: u}, spec: {runtimeRef: {name: rt}%s}}"
RANK = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}


def env_of(container):
    return [(entry["name"], entry.get("value", entry.get("valueFrom"))) for entry in container["env"]]


def test_variables_replace_the_runtimes_in_place_and_the_trainjobs_come_last(kit):
    container = kit.container(RUNTIME, JOB % ', trainer: {env: [{name: JAX_PROCESS_ID, value: "7"}, {name: Z}]}')

    assert env_of(container) == [
        ("A", "a"),
        ("JAX_NUM_PROCESSES", "2"),
        ("JAX_PROCESS_ID", "7"),
        ("JAX_COORDINATOR_ADDRESS", "jj-node-0-0.jj:29500"),
        ("Z", ""),
    ]


def test_the_port_is_added_to_the_runtimes(kit):
    container = kit.container(RUNTIME, JOB % ", trainer: {}")

    assert [port["containerPort"] for port in container["ports"]] == [9100, 29500]


@pytest.mark.parametrize(
    ("trainer", "expected"), [("{numNodes: 4}", 4), ("{}", 2), ("{numNodes: 0}", 0), ("{numProcPerNode: 8}", 2)]
)
def test_there_is_one_process_on_each_node(kit, trainer, expected):
    job_set = kit.job_set(RUNTIME, JOB % f", trainer: {trainer}")
    spec = job_set["spec"]["replicatedJobs"][0]["template"]["spec"]

    assert spec["parallelism"] == spec["completions"] == expected
    env = dict(env_of(spec["template"]["spec"]["containers"][0]))
    assert (env["JAX_NUM_PROCESSES"], env["JAX_PROCESS_ID"]) == (str(expected), RANK)


def test_without_a_trainer_the_container_is_the_runtimes_own(kit):
    container = kit.container(RUNTIME, JOB % "")

    assert env_of(container) == [("A", "a"), ("JAX_NUM_PROCESSES", "9")]
    assert container["ports"] == [{"containerPort": 9100}]


def test_jaxs_names_are_not_reserved(kit):
    assert kit.errors(RUNTIME, JOB % ', trainer: {env: [{name: JAX_NUM_PROCESSES, value: "3"}]}') == []


def test_the_coordinator_is_found_under_the_runtimes_own_names(kit):
    runtime = RUNTIME.replace("spec: {replicatedJobs: [{name: node,", "spec: {replicatedJobs: [{name: worker,")
    runtime = runtime.replace(
        "template: {spec: {replicated", "template: {spec: {network: {subdomain: mesh}, replicated"
    )

    assert dict(env_of(kit.container(runtime, JOB % ", trainer: {}")))["JAX_COORDINATOR_ADDRESS"] == (
        "jj-worker-0-0.mesh:29500"
    )
