"""Elastic torch jobs: what torchrun is told, the Job that can grow and shrink, what is refused, and the autoscaler."""

import pytest

from ktrain.api import trainer as api
from ktrain.api.meta import Key, Object, ObjectMeta, OwnerReference
from ktrain.pipeline import prepare, removals, size, validate
from ktrain.plugins.torch.scaling import AUTOSCALERS, NODE_JOBS, NodeCounts, NodeJob

POLICY = "minNodes: 2, maxNodes: 4"
RUNTIME = """
spec:
  mlPolicy: {torch: {elasticPolicy: {%s}}}
  template: {spec: {replicatedJobs: [{name: node, template: {metadata: {labels: L}, spec: {template: {spec: {
    containers: [{name: node, image: "pytorch:x"}]}}}}}]}}
"""
STATIC = RUNTIME.replace("elasticPolicy: {%s}", "")
JOB = "{metadata: {name: mnist, namespace: team, uid: u-1}, spec: {runtimeRef: {name: rt}%s}%s}"
STATUS = ", status: {elastic: {minNodes: 2, maxNodes: 4}}"
METRICS = "metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}}]"


def sized(nodes, more="", status=STATUS):
    return JOB % (f", elasticNodes: {nodes}{more}", status)


def node_job(kit, runtime, job):
    return kit.job_set(runtime, job)["spec"]["replicatedJobs"][0]["template"]


def test_torchrun_is_told_the_range_and_where_to_meet_and_no_rank(kit):
    container = kit.container(RUNTIME % f"{POLICY}, maxRestarts: 7", sized(3, ", trainer: {numProcPerNode: 2}"))

    assert container["env"] == [
        {"name": "PET_NNODES", "value": "2:4"},
        {"name": "PET_NPROC_PER_NODE", "value": "2"},
        {"name": "PET_RDZV_BACKEND", "value": "c10d"},
        {"name": "PET_RDZV_ENDPOINT", "value": "mnist-node-0-0.mnist:29500"},
        {"name": "PET_RDZV_ID", "value": "u-1"},
        {"name": "PET_MAX_RESTARTS", "value": "7"},
        {"name": "TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "value": "1"},
    ]
    assert container["ports"] == [{"containerPort": 29500, "protocol": "TCP", "name": "kubeflow-rdzv"}]


def test_a_job_that_says_nothing_of_its_trainer_is_elastic_too(kit):
    env = kit.container(RUNTIME % POLICY, JOB % ("", ""))["env"]

    assert {"name": "PET_NNODES", "value": "2:4"} in env
    assert {"name": "PET_MAX_RESTARTS", "value": "3"} in env


@pytest.mark.parametrize(("asked", "built"), [(None, 2), (2, 2), (3, 3), (4, 4), (1, 2), (9, 4)])
def test_the_job_of_the_nodes_is_indexed_and_as_large_as_asked_for_within_the_range(kit, asked, built):
    template = node_job(kit, RUNTIME % POLICY, sized(asked) if asked else JOB % ("", ""))
    spec = template["spec"]

    assert (spec["completionMode"], spec["parallelism"], spec["completions"]) == ("Indexed", built, built)
    assert spec["successPolicy"] == {"rules": [{"succeededIndexes": "0"}]}
    assert spec["backoffLimit"] == 24
    assert template["metadata"]["labels"][api.ELASTIC_LABEL] == "mnist"


@pytest.mark.parametrize(
    ("spec", "built"),
    [
        ("trainer: {numNodes: 3}", 3),
        ("trainer: {numNodes: 3}, elasticNodes: 4", 4),
        ("trainer: {numNodes: 4}, elasticNodes: 2", 2),
        ("trainer: {numNodes: 1}", 2),
        ("trainer: {numNodes: 9}", 4),
    ],
)
def test_a_job_begins_with_the_nodes_of_its_trainer_unless_it_says_others(kit, spec, built):
    job_spec = node_job(kit, RUNTIME % POLICY, JOB % (f", {spec}", STATUS))["spec"]

    assert (job_spec["parallelism"], job_spec["completions"]) == (built, built)


def test_the_template_of_the_pods_is_the_same_at_every_size(kit):
    few, many = (node_job(kit, RUNTIME % POLICY, sized(nodes))["spec"]["template"] for nodes in (2, 4))

    assert few == many


def test_what_the_runtime_says_of_failures_and_success_stays(kit):
    own = "{backoffLimit: 1, successPolicy: {rules: [{succeededCount: 1}]}, template: {spec: {"
    runtime = RUNTIME.replace("spec: {template: {spec: {\n", f"spec: {own}\n") % f"{POLICY}, maxRestarts: 5"
    runtime = runtime.replace("{spec: {replicatedJobs", "{spec: {failurePolicy: {maxRestarts: 1}, replicatedJobs")
    job_set = kit.job_set(runtime, sized(2))
    spec = job_set["spec"]["replicatedJobs"][0]["template"]["spec"]

    assert (spec["backoffLimit"], spec["successPolicy"]) == (1, {"rules": [{"succeededCount": 1}]})
    assert job_set["spec"]["failurePolicy"] == {"maxRestarts": 1}


def test_max_restarts_are_the_jobsets_too(kit):
    assert kit.job_set(RUNTIME % f"{POLICY}, maxRestarts: 5", sized(2))["spec"]["failurePolicy"] == {"maxRestarts": 5}
    assert "failurePolicy" not in kit.job_set(RUNTIME % POLICY, sized(2))["spec"]


@pytest.mark.parametrize(
    ("said", "resources", "expected"),
    [
        ("4", "{}", "4"),
        ("gpu", "{}", "gpu"),
        ("auto", "{limits: {cpu: 3}}", "3"),
        ("auto", "{limits: {nvidia.com/gpu: 2, cpu: 3}}", "auto"),
        ("cpu", "{limits: {nvidia.com/gpu: 2, cpu: 3}}", "3"),
        ("cpu", "{}", "cpu"),
    ],
)
def test_the_runtimes_processes_per_node_count_where_the_job_says_none(kit, said, resources, expected):
    runtime = STATIC.replace("torch: {}", f"torch: {{numProcPerNode: {said}}}")
    assert "numProcPerNode" in runtime

    for trainer, processes in ((f"resourcesPerNode: {resources}", expected), ("numProcPerNode: 9", "9")):
        env = kit.container(runtime, JOB % (f", trainer: {{{trainer}}}", ""))["env"]
        assert {"name": "PET_NPROC_PER_NODE", "value": processes} in env


# All of PyTorchJob's ElasticPolicy


def policy_env(kit, policy, spec=""):
    return {entry["name"]: entry["value"] for entry in kit.container(RUNTIME % policy, JOB % (spec, ""))["env"]}


def test_the_policy_says_where_the_nodes_meet(kit):
    policy = (
        f"{POLICY}, backend: c10d, rdzvHost: store.team, rdzvPort: 29999, rdzvId: mine, nProcPerNode: gpu,"
        " rdzvConf: [{key: join_timeout, value: '900'}, {key: store_type, value: tcp}]"
    )
    env = policy_env(kit, policy)

    assert (env["PET_RDZV_BACKEND"], env["PET_RDZV_ENDPOINT"], env["PET_RDZV_ID"]) == (
        "c10d",
        "store.team:29999",
        "mine",
    )
    assert env["PET_RDZV_CONF"] == "join_timeout=900,store_type=tcp"
    assert env["PET_NPROC_PER_NODE"] == "gpu"
    assert kit.container(RUNTIME % policy, JOB % ("", ""))["ports"] == [
        {"containerPort": 29999, "protocol": "TCP", "name": "kubeflow-rdzv"}
    ]


@pytest.mark.parametrize("limits", ["", ", minNodes: 1, maxNodes: 1", ", maxReplicas: 1"])
def test_a_standalone_job_has_one_node_that_meets_no_other(kit, limits):
    policy = f"standalone: true, nProcPerNode: 2{limits}"
    container = kit.container(RUNTIME % policy, JOB % ("", ""))
    names = [entry["name"] for entry in container["env"]]

    assert {"name": "PET_STANDALONE", "value": "1"} in container["env"]
    assert {"name": "PET_NNODES", "value": "1:1"} in container["env"]
    assert [name for name in names if name.startswith("PET_RDZV_")] == []
    assert "ports" not in container
    assert kit.errors(RUNTIME % policy, JOB % (", trainer: {numNodes: 2}", "")) == [
        (
            "spec.trainer.numNodes: Invalid value: 2: must be within minNodes and maxNodes of the runtime's"
            " torch.elasticPolicy: 1 to 1"
        )
    ]


@pytest.mark.parametrize(
    ("policy", "spec", "expected"),
    [
        ("minReplicas: 2, maxReplicas: 4", "", ("2:4", 2)),
        ("minReplicas: 2, maxNodes: 4", "", ("2:4", 2)),
        ("maxReplicas: 3", "", ("3:3", 3)),
        ("minNodes: 3", "", ("3:3", 3)),
        ("maxRestarts: 1", ", trainer: {numNodes: 5}", ("5:5", 5)),
        ("maxRestarts: 1", "", ("1:1", 1)),
    ],
)
def test_limits_have_pytorchjobs_names_and_defaults_too(kit, policy, spec, expected):
    nodes, size = expected
    job = JOB % (spec, "")

    assert policy_env(kit, policy, spec)["PET_NNODES"] == nodes
    assert node_job(kit, RUNTIME % policy, job)["spec"]["parallelism"] == size
    assert kit.errors(RUNTIME % policy, job) == []
    assert kit.objects_of(RUNTIME % f"{policy}, {METRICS}", job)[AUTOSCALERS.kind]["spec"]["maxReplicas"] == int(
        nodes[2]
    )


def test_a_jobs_own_size_changes_no_range_that_its_trainer_says(kit):
    job = JOB % (", trainer: {numNodes: 2}, elasticNodes: 3", "")

    assert kit.errors(RUNTIME % "maxRestarts: 1", job) == [
        (
            "spec.elasticNodes: Invalid value: 3: must be within minNodes and maxNodes of the runtime's"
            " torch.elasticPolicy: 2 to 2"
        )
    ]


def test_settings_of_the_rendezvous_are_the_policys_or_the_jobs_and_not_both(kit):
    conf = "rdzvConf: [{key: join_timeout, value: '900'}]"
    job = JOB % (", trainer: {env: [{name: PET_RDZV_CONF, value: 'join_timeout=9'}]}", "")

    assert kit.errors(RUNTIME % POLICY, job) == []
    (error,) = kit.errors(RUNTIME % f"{POLICY}, {conf}", job)
    assert error.endswith("must not have reserved envs, invalid envs configured: [PET_RDZV_CONF]")


# What is refused

NOT_ELASTIC = (
    "spec.elasticNodes: Forbidden: needs a runtime with torch.elasticPolicy; any other has the nodes that"
    " spec.trainer.numNodes says"
)
OUT_OF_RANGE = "must be within minNodes and maxNodes of the runtime's torch.elasticPolicy: 2 to 4"


@pytest.mark.parametrize("nodes", [1, 5])
@pytest.mark.parametrize(
    ("spec", "path"), [("elasticNodes: %d", "elasticNodes"), ("trainer: {numNodes: %d}", "trainer.numNodes")]
)
def test_a_new_job_out_of_range_is_refused(kit, nodes, spec, path):
    expected = [f"spec.{path}: Invalid value: {nodes}: {OUT_OF_RANGE}"]

    assert kit.errors(RUNTIME % POLICY, JOB % (f", {spec % nodes}", "")) == expected
    assert kit.errors(RUNTIME % POLICY, JOB % (f", {spec % 3}", "")) == []


def test_one_number_in_range_does_not_excuse_the_other(kit):
    assert kit.errors(RUNTIME % POLICY, JOB % (", trainer: {numNodes: 9}, elasticNodes: 3", "")) == [
        f"spec.trainer.numNodes: Invalid value: 9: {OUT_OF_RANGE}"
    ]


def test_a_new_job_that_is_not_elastic_has_no_elastic_nodes(kit):
    assert kit.errors(STATIC, sized(3, status="")) == [NOT_ELASTIC]


@pytest.mark.parametrize(
    ("runtime", "new", "old", "expected"),
    [
        pytest.param(RUNTIME % POLICY, sized(4), sized(2), [], id="grows"),
        pytest.param(RUNTIME % POLICY, sized(2), sized(2), [], id="stays"),
        pytest.param(
            RUNTIME % POLICY,
            sized(5),
            sized(3),
            [f"spec.elasticNodes: Invalid value: 5: {OUT_OF_RANGE}"],
            id="above the most",
        ),
        pytest.param(
            RUNTIME % POLICY,
            sized(1),
            sized(3),
            [f"spec.elasticNodes: Invalid value: 1: {OUT_OF_RANGE}"],
            id="below the fewest",
        ),
        pytest.param(
            RUNTIME % "minNodes: 1, maxNodes: 8",
            sized(8),
            sized(3),
            [f"spec.elasticNodes: Invalid value: 8: {OUT_OF_RANGE}"],
            id="the runtime was edited, the job keeps its range",
        ),
        pytest.param(STATIC, sized(4), sized(2), [], id="the runtime is elastic no more, the job is"),
        pytest.param(STATIC, sized(4, status=""), sized(2, status=""), [NOT_ELASTIC], id="not elastic"),
        pytest.param(STATIC, sized(2, status=""), sized(2, status=""), [], id="not elastic, and stored all the same"),
        pytest.param(STATIC, JOB % ("", ""), sized(2, status=""), [], id="which can be mended"),
        pytest.param(RUNTIME % POLICY, sized(4, status=""), sized(2, status=""), [], id="before it has a status"),
        pytest.param(
            RUNTIME % POLICY,
            sized(5, status=""),
            sized(2, status=""),
            [f"spec.elasticNodes: Invalid value: 5: {OUT_OF_RANGE}"],
            id="before it has a status, too much",
        ),
        pytest.param(RUNTIME % POLICY, JOB % ("", STATUS), sized(3), [], id="says none any more"),
        pytest.param(
            RUNTIME % POLICY,
            sized(4),
            sized(2, status=STATUS[:-1] + ", conditions: [{type: Complete, status: 'True'}]}"),
            ["spec.elasticNodes: Forbidden: must not change once the TrainJob has ended"],
            id="ended",
        ),
    ],
)
def test_an_elastic_job_is_resized_within_its_range(kit, runtime, new, old, expected):
    assert kit.errors(runtime, new, old) == expected


def test_torchtune_cannot_be_elastic(kit):
    (error,) = kit.errors(RUNTIME % POLICY, JOB % (", trainer: {command: [tune, run]}", ""))[:1]

    assert (
        error == 'spec.trainer.command: Invalid value: ["tune","run"]: TorchTune cannot train under torch.elasticPolicy'
    )


def test_the_variables_of_the_rendezvous_are_reserved_where_it_is_elastic(kit):
    trainer = ", trainer: {env: [{name: PET_RDZV_ID, value: a}, {name: PET_RDZV_CONF, value: 'join_timeout=9'}]}"

    assert kit.errors(STATIC, JOB % (trainer, "")) == []
    (error,) = kit.errors(RUNTIME % POLICY, JOB % (trainer, ""))
    assert error.endswith("must not have reserved envs, invalid envs configured: [PET_RDZV_ID]")


@pytest.mark.parametrize("field", ["parallelism: 9", "completions: 9", "completionMode: NonIndexed"])
def test_patches_may_not_say_the_size(kit, field):
    jobs = f"[{{name: node, template: {{spec: {{{field}}}}}}}]"
    spec = f"{{template: {{spec: {{replicatedJobs: {jobs}}}}}}}"
    patches = f", runtimePatches: [{{manager: a.b/c, trainingRuntimeSpec: {spec}}}]"
    name = field.partition(":")[0]

    assert f"spec.runtimePatches: Forbidden: must not set {name} of node: the runtime has torch.elasticPolicy" in (
        kit.errors(RUNTIME % POLICY, JOB % (patches, ""))
    )


def test_pods_have_names_also_when_there_are_as_many_as_there_may_be(kit):
    job = sized(2, status="").replace("mnist", "m" * 48)

    assert kit.errors(RUNTIME % POLICY, job) == []
    (error,) = kit.errors(RUNTIME % "minNodes: 2, maxNodes: 11", job)
    assert "is 1 characters too long" in error


# Size and autoscaler


def test_the_size_counts_the_pods_that_work_and_those_that_are_done(kit):
    job, runtime = kit.job(sized(3)), kit.runtime(RUNTIME % POLICY)
    metadata = ObjectMeta(labels={api.ELASTIC_LABEL: "mnist"})
    before = size(kit.registry, job, runtime, kit.context)
    kit.objects[NODE_JOBS.plural, Key("team", "mnist-node-0")] = NodeJob(metadata=metadata, status=NodeCounts(2, 0))
    during = size(kit.registry, job, runtime, kit.context)
    kit.objects[NODE_JOBS.plural, Key("team", "mnist-node-0")] = NodeJob(metadata=metadata, status=NodeCounts(1, 1))
    after = size(kit.registry, job, runtime, kit.context)

    assert during.status == api.ElasticStatus(
        2, 4, 3, 2, "jobset.sigs.k8s.io/jobset-name=mnist,jobset.sigs.k8s.io/replicatedjob-name=node"
    )
    assert [s.status.observed_nodes for s in (before, during, after)] == [0, 2, 2]
    assert [s.is_open for s in (before, during, after)] == [True, True, False]
    assert size(kit.registry, job, kit.runtime(STATIC), kit.context) is None


@pytest.mark.parametrize("bounds", ["minNodes: 2, maxNodes: 4", "minNodes: 2, maxNodes: 2"])
def test_metrics_make_an_autoscaler_of_the_trainjob(kit, bounds):
    body = kit.objects_of(RUNTIME % f"{bounds}, {METRICS}", sized(2))[AUTOSCALERS.kind]

    assert (body["metadata"]["name"], body["metadata"]["namespace"]) == ("mnist", "team")
    assert body["metadata"]["ownerReferences"][0]["uid"] == "u-1"
    assert body["spec"] == {
        "scaleTargetRef": {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "mnist"},
        "minReplicas": 2,
        "maxReplicas": int(bounds[-1]),
        "metrics": [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}},
            }
        ],
    }


@pytest.mark.parametrize(
    ("policy", "spec"),
    [(POLICY, ""), (f"{POLICY}, metrics: []", ""), (f"{POLICY}, {METRICS}", ", suspend: true")],
)
def test_without_metrics_or_while_suspended_there_is_no_autoscaler(kit, policy, spec):
    assert AUTOSCALERS.kind not in kit.objects_of(RUNTIME % policy, JOB % (spec, ""))


@pytest.mark.parametrize(("owner", "found"), [("u-1", 1), ("other", 0)])
def test_of_a_job_that_does_not_run_only_its_own_autoscaler_has_to_go(kit, owner, found):
    owners = (OwnerReference(uid=owner, controller=True),)
    kit.objects[AUTOSCALERS.plural, Key("team", "mnist")] = Object(metadata=ObjectMeta(owner_references=owners))

    assert len(removals(kit.registry, kit.job(sized(2)), kit.context)) == found


def test_a_gang_waits_for_the_fewest_nodes_only(kit):

    info = prepare(kit.job(sized(4)), kit.runtime(RUNTIME % POLICY))
    assert info.trainer.least is None
    torch = next(plugin for plugin in kit.registry.plugins if plugin.name == "Torch")
    torch.enforce_ml_policy(info, kit.context)

    assert (info.trainer.count, info.trainer.least) == (4, 2)


@pytest.mark.parametrize(
    ("trainer", "before", "after", "counted"),
    [
        pytest.param("", 2, 4, 1, id="it grows"),
        pytest.param("", None, 2, 1, id="it is new"),
        pytest.param(", trainer: {numNodes: 3}", 3, 4, 3, id="beyond what it began with"),
        pytest.param(", trainer: {numNodes: 4}", 2, 4, None, id="it began with as many"),
        pytest.param("", 4, 3, None, id="it shrinks"),
    ],
)
def test_nodes_that_a_queue_does_not_count_are_warned_of(kit, trainer, before, after, counted):
    def queued(nodes):
        text = sized(nodes, trainer, STATUS if before else "")
        return kit.job(text.replace("uid: u-1", "uid: u-1, labels: {kueue.x-k8s.io/queue-name: q}"))

    old = queued(before) if before else None
    findings = validate(kit.registry, queued(after), old, kit.runtime(RUNTIME % POLICY), kit.context)

    text = f"spec.elasticNodes: queue q counts {counted} (spec.trainer.numNodes, or 1), and no nodes beyond"
    assert findings.errors == ()
    assert findings.warnings == ((text,) if counted else ())
