"""The Torch plugin: what torchrun is told."""

import pytest

from ktrain.pipeline import PlanError

RUNTIME = """
spec:
  mlPolicy: {numNodes: 1, torch: {}}
  template: {spec: {replicatedJobs: [{name: node, template: {metadata: {labels: L}, spec: {template: {spec: {
    containers: [{name: node, image: "pytorch:x"%s}]}}}}}]}}
"""
JOB = "{metadata: {name: mnist, namespace: team, uid: u}, spec: {runtimeRef: {name: rt}, suspend: false%s}}"
RANK = {
    "name": "PET_NODE_RANK",
    "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}},
}


def nproc(container: dict) -> str:
    return next(e["value"] for e in container["env"] if e["name"] == "PET_NPROC_PER_NODE")


def test_a_trainers_own_variables_come_before_torchruns(kit):
    trainer = (
        ", trainer: {numNodes: 2, command: [torchrun, train.py],"
        " env: [{name: WANDB, valueFrom: {secretKeyRef: {name: w, key: k}}}],"
        " resourcesPerNode: {requests: {cpu: 3500m}}}"
    )
    job_set = kit.job_set(RUNTIME % "", JOB % trainer)
    rjob = job_set["spec"]["replicatedJobs"][0]
    spec = rjob["template"]["spec"]

    assert job_set["spec"]["suspend"] is False
    assert (rjob["replicas"], spec["parallelism"], spec["completions"]) == (1, 2, 2)
    assert spec["template"]["spec"]["containers"] == [
        {
            "name": "node",
            "image": "pytorch:x",
            "command": ["torchrun", "train.py"],
            "resources": {"requests": {"cpu": "3500m"}},
            "ports": [{"containerPort": 29500, "protocol": "TCP"}],
            "env": [
                {"name": "WANDB", "valueFrom": {"secretKeyRef": {"name": "w", "key": "k"}}},
                {"name": "PET_NNODES", "value": "2"},
                {"name": "PET_NPROC_PER_NODE", "value": "4"},
                RANK,
                {"name": "PET_MASTER_ADDR", "value": "mnist-node-0-0.mnist"},
                {"name": "PET_MASTER_PORT", "value": "29500"},
            ],
        }
    ]


@pytest.mark.parametrize(
    ("runtime", "trainer", "expected"),
    [
        (", resources: {limits: {cpu: 8}}", "{}", "8"),
        ("", "{}", "1"),
        (", resources: {limits: {cpu: 1}}", "{}", "1"),
        (", resources: {requests: {cpu: 4}}", "{}", "4"),
        (", resources: {limits: {cpu: 2500m}}", "{}", "3"),
        (", resources: {limits: {cpu: 2500m}, requests: {cpu: 3500m}}", "{}", "4"),
        (", resources: {limits: {nvidia.com/gpu: 2, cpu: 8}}", "{}", "auto"),
        (", resources: {limits: {nvidia.com/gpu: 2}}", "{numProcPerNode: 2}", "2"),
        (", resources: {limits: {google.com/tpu: 4}}", "{}", "1"),
        ("", "{resourcesPerNode: {limits: {AMD.com/GPU: 1}}}", "auto"),
        (", resources: {limits: {cpu: 8}}", "{resourcesPerNode: {requests: {memory: 1Gi}}}", "1"),
        (", resources: {limits: {nvidia.com/gpu: 4}}", "{resourcesPerNode: {limits: {google.com/tpu: 4}}}", "1"),
    ],
)
def test_processes_per_node(kit, runtime, trainer, expected):
    container = kit.container(RUNTIME % runtime, JOB % f", trainer: {trainer}")

    assert nproc(container) == expected


def test_a_job_that_only_asks_for_cpu_keeps_the_runtimes_gpus(kit):
    trainer = ", trainer: {resourcesPerNode: {limits: {cpu: 2500m}}}"
    container = kit.container(RUNTIME % ", resources: {limits: {nvidia.com/gpu: 4}}", JOB % trainer)

    assert nproc(container) == "auto"
    assert container["resources"] == {"limits": {"nvidia.com/gpu": 4, "cpu": "2500m"}}


def test_without_a_trainer_nothing_is_injected_but_the_count_holds(kit):
    runtime = (RUNTIME % "").replace("numNodes: 1", "numNodes: 3")
    job_set = kit.job_set(runtime, JOB % "")
    spec = job_set["spec"]["replicatedJobs"][0]["template"]["spec"]

    assert spec["parallelism"] == 3
    assert spec["template"]["spec"]["containers"] == [{"name": "node", "image": "pytorch:x"}]


@pytest.mark.parametrize(
    ("nodes", "trainer"),
    [
        ("2", "{numNodes: 0, numProcPerNode: 4}"),
        ("0", "{numProcPerNode: 4}"),
        ("0", "{numNodes: 0, numProcPerNode: 4}"),
    ],
)
def test_zero_nodes_are_one_that_is_standalone(kit, nodes, trainer):
    """KEP-2170; torchrun then meets nobody, and reads no address."""
    runtime = f"""
    spec:
      mlPolicy: {{numNodes: {nodes}, torch: {{}}}}
      template: {{spec: {{replicatedJobs: [{{name: node, template: {{metadata: {{labels: L}},
        spec: {{template: {{spec: {{containers: [{{name: node}}]}}}}}}}}}}]}}}}
    """
    job = JOB % f", trainer: {trainer}"
    spec = kit.job_set(runtime, job)["spec"]["replicatedJobs"][0]["template"]["spec"]

    assert kit.errors(runtime, job) == []
    assert (spec["parallelism"], spec["completions"]) == (1, 1)
    assert spec["template"]["spec"]["containers"][0]["env"] == [
        {"name": "PET_NPROC_PER_NODE", "value": "4"},
        {"name": "PET_STANDALONE", "value": "1"},
    ]


def test_a_node_that_is_told_its_number_is_not_standalone(kit):
    for trainer in ("{}", "{numNodes: 1}"):
        names = {entry["name"] for entry in kit.container(RUNTIME % "", JOB % f", trainer: {trainer}")["env"]}

        assert "PET_STANDALONE" not in names
        assert "PET_NNODES" in names


def test_standalone_is_torchruns_where_there_are_no_nodes(kit):
    job = JOB % ", trainer: {numNodes: %d, env: [{name: PET_STANDALONE, value: '0'}]}"

    assert kit.errors(RUNTIME % "", job % 1) == []
    (error,) = kit.errors(RUNTIME % "", job % 0)
    assert error.endswith("must not have reserved envs, invalid envs configured: [PET_STANDALONE]")


@pytest.mark.parametrize("policy", ["jax", "xgboost", "mpi", "flux"])
def test_a_framework_without_nodes_is_refused(kit, policy):
    runtime = (RUNTIME % "").replace("torch", policy)

    (error,) = kit.errors(runtime, JOB % ", trainer: {numNodes: 0}")
    assert error == (
        f"spec.trainer.numNodes: Invalid value: 0: must be at least 1: the runtime has mlPolicy.{policy},"
        " and without nodes nothing would run"
    )
    assert kit.errors(runtime, JOB % ", trainer: {numNodes: 0}", JOB % ", trainer: {numNodes: 0}") == []


def test_the_master_is_where_the_trainers_first_pod_really_is(kit):
    runtime = """
    spec:
      mlPolicy: {torch: {}}
      template: {spec: {network: {subdomain: sub}, replicatedJobs: [{name: worker, template: {metadata: {labels: L},
        spec: {template: {spec: {containers: [{name: node}]}}}}}]}}
    """
    env = kit.container(runtime, JOB % ", trainer: {}")["env"]

    assert {"name": "PET_MASTER_ADDR", "value": "mnist-worker-0-0.sub"} in env


def test_an_unnamed_port_of_the_user_stays_beside_the_rendezvous_port(kit):
    container = kit.container(RUNTIME % ", ports: [{containerPort: 9100}]", JOB % ", trainer: {}")

    assert [p["containerPort"] for p in container["ports"]] == [9100, 29500]


INJECTING = """
spec:
  mlPolicy: {numNodes: 2, torch: {envInjection: {targets: [{jobName: node, containerNames: [preflight]}]}}}
  template: {spec: {replicatedJobs: [{name: node, template: {metadata: {labels: L}, spec: {template: {spec: {
    initContainers: [{name: %s, image: "check:1"}],
    containers: [{name: node, image: "pytorch:x", resources: {limits: {nvidia.com/gpu: 8}}}]}}}}}]}}
"""


def test_injection_reaches_init_containers_also_without_a_trainer(kit):
    job_set = kit.job_set(INJECTING % "preflight", JOB % "")
    pod = job_set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]

    assert "env" not in pod["containers"][0]
    assert pod["initContainers"][0]["env"] == [
        {"name": "PET_NNODES", "value": "2"},
        {"name": "PET_NPROC_PER_NODE", "value": "auto"},
        RANK,
        {"name": "PET_MASTER_ADDR", "value": "mnist-node-0-0.mnist"},
        {"name": "PET_MASTER_PORT", "value": "29500"},
    ]


def test_injection_into_a_container_that_is_not_there_is_refused_and_cannot_be_built(kit):
    detail = 'envInjection target podSet "node" container "preflight" not found in runtime template'

    assert kit.errors(INJECTING % "other", JOB % "") == [
        f'spec.runtimeRef: Invalid value: {{"jobName":"node","containerNames":["preflight"]}}: {detail}'
    ]
    with pytest.raises(PlanError, match="envInjection target podSet"):
        kit.plan(INJECTING % "other", JOB % "")


def test_torchruns_variables_are_reserved(kit):
    env = "[{name: PET_NODE_RANK, value: '1'}, {name: A, value: '1'}, {name: PET_MASTER_PORT, value: '2'}]"
    errors = kit.errors(RUNTIME % "", JOB % f", trainer: {{env: {env}}}")

    assert len(errors) == 1
    assert errors[0].startswith('spec.trainer.env: Invalid value: [{"name":"PET_NODE_RANK","value":"1"},')
    assert errors[0].endswith(": must not have reserved envs, invalid envs configured: [PET_MASTER_PORT PET_NODE_RANK]")


CORES = ", resources: {limits: {cpu: 6}}"
GPUS = ", resources: {limits: {cpu: 6, nvidia.com/gpu: 2}}"


@pytest.mark.parametrize(
    ("said", "resources", "expected"),
    [
        ("auto", CORES, "6"),
        ("auto", GPUS, "auto"),
        ("cpu", GPUS, "6"),
        ("cpu", "", "cpu"),
        ("gpu", GPUS, "gpu"),
    ],
)
def test_a_job_may_say_what_its_processes_are_counted_by(kit, said, resources, expected):
    runtime = (RUNTIME % resources).replace("torch: {}", "torch: {numProcPerNode: 9}")

    assert nproc(kit.container(runtime, JOB % f", trainer: {{processesPerNode: {said}}}")) == expected


def test_mpi_takes_a_number_only(kit):
    (error,) = kit.errors((RUNTIME % "").replace("torch", "mpi"), JOB % ", trainer: {processesPerNode: gpu}")

    assert error == (
        'spec.trainer.numProcPerNode: Invalid value: "gpu": must be a number: the slots of a node in MPI\'s host file'
    )
