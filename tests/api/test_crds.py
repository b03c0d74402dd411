import time

import msgspec
import pytest
import yaml

from ktrain.api import assets
from ktrain.api.crds import all_crds, pod_group_crds
from ktrain.api.crds.__main__ import files
from ktrain.api.schema import Schema, structural_causes

JOB = {"metadata": {"name": "j"}, "spec": {"runtimeRef": {"name": "r"}}}


def with_spec(**spec):
    return {"metadata": {"name": "j"}, "spec": {"runtimeRef": {"name": "r"}, **spec}}


def runtime(jobset=None, **spec):
    return {"metadata": {"name": "r"}, "spec": {"template": {"spec": jobset or {}}, **spec}}


def messages(schema, obj, old=None):
    return [str(cause) for cause in schema.validate(schema.default(obj), old and schema.default(old))]


FILES = files()


@pytest.mark.parametrize("name", FILES)
def test_generated_files_are_those_in_the_repository(name):
    written = (assets.config_directory() / "crd" / name).read_text(encoding="utf-8")

    assert FILES[name] == written, "run: python -m ktrain.api.crds config/crd"


def test_yaml_and_json_files_say_the_same():
    directory = assets.config_directory() / "crd"
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    by_name = {crd["metadata"]["name"]: crd for crd in assets.crds()}

    found = {path.stem: yaml.load(path.read_bytes(), Loader=loader) for path in directory.glob("*.yaml")}

    assert by_name == found
    assert all_crds() == assets.crds()


def test_what_other_projects_define_is_for_the_embedded_server_only():
    applied = {path.stem for path in (assets.config_directory() / "crd").glob("*.yaml")}
    names = {crd["metadata"]["name"] for crd in assets.pod_group_crds()}

    assert names == {"podgroups.scheduling.x-k8s.io", "podgroups.scheduling.volcano.sh"}
    assert not names & applied
    assert assets.pod_group_crds() == pod_group_crds()


def test_crds_are_structural_and_small_enough_for_etcd():
    for crd in [*assets.crds(), *assets.pod_group_crds()]:
        [version] = crd["spec"]["versions"]

        assert structural_causes(version["schema"]["openAPIV3Schema"], "schema") == []
        assert len(msgspec.json.encode(crd)) < 2**20


def test_kubectl_shows_the_state_and_with_more_room_the_last_condition_as_upstream_does():
    columns = {crd["spec"]["names"]["kind"]: crd["spec"]["versions"][0] for crd in assets.crds()}

    printed = columns["TrainJob"]["additionalPrinterColumns"]
    assert [(c["name"], c["jsonPath"]) for c in printed if not c.get("priority")] == [
        ("State", ".status.state"),
        ("Nodes", ".status.nodes.summary"),
        ("Restarts", ".status.restarts"),
        ("Age", ".metadata.creationTimestamp"),
    ]
    assert printed[-1] == {
        "name": "Condition",
        "type": "string",
        "jsonPath": ".status.conditions[-1:].type",
        "priority": 1,
    }
    assert "additionalPrinterColumns" not in columns["TrainingRuntime"]


def test_the_embedded_server_has_them_in_a_moment():
    started = time.process_time()
    for crd in assets.crds():
        Schema.from_crd(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])

    assert time.process_time() - started < 0.2, "20 ms when measured; the bound leaves room for slow machines"


def test_trainjobs_get_the_defaults_of_kubeflow_trainer(shipped):
    assert shipped["TrainJob"].default(JOB)["spec"] == {
        "runtimeRef": {"name": "r", "apiGroup": "trainer.kubeflow.org", "kind": "ClusterTrainingRuntime"},
        "suspend": False,
        "managedBy": "trainer.kubeflow.org/trainjob-controller",
    }


def test_references_and_probes_get_the_defaults_that_kubernetes_types_declare(shipped):
    sources = [{"configMapKeyRef": {"key": "k"}}, {"secretKeyRef": {"key": "k"}}]
    env = [{"name": f"V{number}", "valueFrom": source} for number, source in enumerate(sources)]
    container = {"name": "node", "env": env, "envFrom": [{"secretRef": {}}], "livenessProbe": {"grpc": {"port": 1}}}
    volumes = [{"name": "v", "configMap": {}}, {"name": "w", "projected": {"sources": [{"secret": {}}]}}]
    volumes.append({"name": "x", "azureDisk": {"diskName": "d", "diskURI": "u"}})
    pod = {"containers": [container], "volumes": volumes, "imagePullSecrets": [{"name": "s"}]}
    jobs = [{"name": "node", "template": {"spec": {"template": {"spec": pod}}}}]

    spec = shipped["TrainingRuntime"].default(runtime({"replicatedJobs": jobs}))["spec"]["template"]["spec"]
    found = spec["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]

    assert found["containers"][0] == container | {
        "env": [
            {"name": "V0", "valueFrom": {"configMapKeyRef": {"name": "", "key": "k"}}},
            {"name": "V1", "valueFrom": {"secretKeyRef": {"name": "", "key": "k"}}},
        ],
        "envFrom": [{"secretRef": {"name": ""}}],
        "livenessProbe": {"grpc": {"port": 1, "service": ""}},
    }
    assert found["volumes"] == [
        {"name": "v", "configMap": {"name": ""}},
        {"name": "w", "projected": {"sources": [{"secret": {"name": ""}}]}},
        {"name": "x", "azureDisk": {"diskName": "d", "diskURI": "u", "fsType": "ext4", "readOnly": False}},
    ]


def test_runtimes_get_the_defaults_of_kubeflow_trainer(shipped):
    jobs = [{"name": "node", "template": {"spec": {"template": {"spec": {"containers": [{"name": "node"}]}}}}}]
    policies = {"mlPolicy": {"mpi": {}}, "podGroupPolicy": {"coscheduling": {}, "volcano": {"networkTopology": {}}}}

    spec = shipped["TrainingRuntime"].default(runtime({"replicatedJobs": jobs, "failurePolicy": {}}, **policies))[
        "spec"
    ]

    mpi = {
        "numProcPerNode": 1,
        "mpiImplementation": "OpenMPI",
        "sshAuthMountPath": "/root/.ssh",
        "runLauncherAsNode": False,
    }
    assert mpi == spec["mlPolicy"]["mpi"]
    assert spec["podGroupPolicy"]["coscheduling"] == {"scheduleTimeoutSeconds": 60}
    assert spec["podGroupPolicy"]["volcano"]["networkTopology"] == {"mode": "hard", "highestTierAllowed": 1}
    assert tuple(spec["template"]["spec"]["replicatedJobs"][0][k] for k in ("replicas", "groupName")) == (1, "default")
    assert spec["template"]["spec"]["failurePolicy"] == {"restartStrategy": "Recreate"}


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (
            {**JOB, "metadata": {"name": "1a"}},
            "<nil>: Invalid value: metadata.name must match RFC 1035 DNS label format",
        ),
        (
            {**JOB, "metadata": {"name": "a" * 64}},
            "<nil>: Invalid value: metadata.name must be no more than 63 characters",
        ),
        ({"metadata": {"name": "j"}, "spec": {}}, "spec.runtimeRef: Required value"),
        (
            with_spec(trainer={"numProcPerNode": 0}),
            "spec.trainer.numProcPerNode: Invalid value: 0: numProcPerNode must be greater than or equal to 1",
        ),
        (
            with_spec(trainer={"numNodes": -1}),
            (
                "spec.trainer.numNodes: Invalid value: -1: "
                "spec.trainer.numNodes in body should be greater than or equal to 0"
            ),
        ),
        (
            with_spec(initializer={"model": {"storageUri": "x"}}),
            (
                'spec.initializer.model.storageUri: Invalid value: "x": '
                "storageUri may be empty, or it must be a valid URI (scheme://...)"
            ),
        ),
        (
            with_spec(managedBy="x"),
            (
                'spec.managedBy: Invalid value: "x": ManagedBy must be '
                "trainer.kubeflow.org/trainjob-controller or kueue.x-k8s.io/multikueue if set"
            ),
        ),
        (
            with_spec(activeDeadlineSeconds=0),
            (
                "spec.activeDeadlineSeconds: Invalid value: 0: "
                "spec.activeDeadlineSeconds in body should be greater than or equal to 1"
            ),
        ),
        (
            with_spec(trainer={"resourcesPerNode": {"limits": {"cpu": "two"}}}),
            (
                'spec.trainer.resourcesPerNode.limits.cpu: Invalid value: "two": '
                "spec.trainer.resourcesPerNode.limits.cpu in body should match "
                r"'^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
                r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$'"
            ),
        ),
        (
            with_spec(runtimePatches=[{"manager": "a/b"}, {"manager": "a/b"}]),
            'spec.runtimePatches[1]: Duplicate value: {"manager":"a/b"}',
        ),
        (
            {**JOB, "status": {"trainerStatus": {"progressPercentage": 1}}},
            "status.trainerStatus: Invalid value: lastUpdatedTime is required when trainerStatus is present",
        ),
        ({**JOB, "status": {}}, "status: Invalid value: 0: status in body should have at least 1 properties"),
    ],
)
def test_invalid_trainjobs_are_refused_in_kubeflow_trainers_words(shipped, obj, message):
    assert message in messages(shipped["TrainJob"], obj)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"trainer": {"numNodes": 1}}, {"trainer": {"numNodes": 2}}),
        ({"initializer": {"model": {}}}, {"initializer": {"model": {"storageUri": "a://b"}}}),
        ({"activeDeadlineSeconds": 1}, {"activeDeadlineSeconds": 2}),
        ({}, {"managedBy": "kueue.x-k8s.io/multikueue"}),
        ({}, {"runtimeRef": {"name": "other"}}),
    ],
    ids=str,
)
def test_what_is_immutable_cannot_change_once_set(shipped, old, new):
    [message] = messages(shipped["TrainJob"], with_spec(**new), with_spec(**old))

    assert message.endswith("field is immutable")


ELASTIC = {"elastic": {"minNodes": 2, "maxNodes": 4}}
RANGE = "spec.elasticNodes: Invalid value: must be within minNodes and maxNodes of the runtime's torch.elasticPolicy"
NOT_ELASTIC = (
    "spec.elasticNodes: Invalid value: must not change: only jobs of a runtime with torch.elasticPolicy are elastic"
)


@pytest.mark.parametrize(
    ("old", "new", "status", "expected"),
    [
        pytest.param(2, 4, ELASTIC, [], id="within the range"),
        pytest.param(None, 4, ELASTIC, [], id="for the first time"),
        pytest.param(2, None, ELASTIC, [], id="taken away"),
        pytest.param(2, 5, ELASTIC, [RANGE], id="above the most"),
        pytest.param(2, 1, ELASTIC, [RANGE], id="below the fewest"),
        pytest.param(None, 1, ELASTIC, [RANGE], id="below the fewest, for the first time"),
        pytest.param(9, 9, ELASTIC, [], id="stored before it was known"),
        pytest.param(2, 3, {"jobsStatus": []}, [NOT_ELASTIC], id="not elastic"),
        pytest.param(None, 3, {"jobsStatus": []}, [NOT_ELASTIC], id="not elastic, for the first time"),
        pytest.param(2, None, {"jobsStatus": []}, [], id="not elastic, taken away"),
        pytest.param(2, 3, None, [], id="not known yet"),
    ],
)
def test_only_an_elastic_job_changes_its_size_and_within_its_range(shipped, old, new, status, expected):
    def job(nodes):
        return with_spec(**({"elasticNodes": nodes} if nodes else {})) | ({"status": status} if status else {})

    assert messages(shipped["TrainJob"], job(new), job(old)) == expected


def test_patches_of_scheduling_may_change_and_those_of_containers_may_not(shipped):
    def patched(**pod):
        template = {"spec": {"replicatedJobs": [{"name": "node", "template": {"spec": {"template": {"spec": pod}}}}]}}
        return with_spec(runtimePatches=[{"manager": "a/b", "trainingRuntimeSpec": {"template": template}}])

    schema = shipped["TrainJob"]
    changed = messages(schema, patched(containers=[{"name": "x"}]), patched(containers=[{"name": "y"}]))
    assert [message.endswith("containers: Invalid value: field is immutable") for message in changed] == [True]
    assert messages(schema, patched(nodeSelector={"a": "1"}), patched(nodeSelector={"a": "2"})) == []


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (
            runtime(mlPolicy={"torch": {}, "mpi": {}}),
            "spec.mlPolicy: Invalid value: Only one of the policy can be configured",
        ),
        (
            runtime(mlPolicy={"torch": {}, "plugin": {"name": "x"}}),
            "spec.mlPolicy: Invalid value: Only one of the policy can be configured",
        ),
        (
            runtime(podGroupPolicy={"coscheduling": {}, "volcano": {}}),
            "spec.podGroupPolicy: Invalid value: Only one of the policy can be configured",
        ),
        (
            runtime(mlPolicy={"flux": {"numProcPerNode": 0}}),
            "spec.mlPolicy.flux.numProcPerNode: Invalid value: 0: NumProcPerNode in fluxPolicy must be >= 1",
        ),
        (
            runtime(mlPolicy={"mpi": {"mpiImplementation": "Intel"}}),
            'spec.mlPolicy.mpi.mpiImplementation: Unsupported value: "Intel": supported values: "OpenMPI", ""',
        ),
        (
            runtime(mlPolicy={"torch": {"envInjection": {"targets": [{"jobName": "a", "containerNames": ["node"]}]}}}),
            (
                "spec.mlPolicy.torch.envInjection.targets[0].containerNames: Invalid value: "
                "containerNames must not include the main node container because PET_* envs are always injected into it"
            ),
        ),
        (
            runtime(mlPolicy={"torch": {"envInjection": {"targets": [{"jobName": "a"}]}}}),
            "spec.mlPolicy.torch.envInjection.targets[0].containerNames: Required value",
        ),
        (
            {"metadata": {"name": "r"}, "spec": {}},
            "spec: Invalid value: 0: spec in body should have at least 1 properties",
        ),
    ],
)
def test_invalid_runtimes_are_refused_in_kubeflow_trainers_words(shipped, obj, message):
    assert message in messages(shipped["ClusterTrainingRuntime"], obj)
    assert message in messages(shipped["TrainingRuntime"], obj)


def test_open_slots_keep_whatever_a_plugin_is_configured_with(shipped):
    slot = {"plugin": {"name": "acme", "config": {"any": [{"thing": None}]}}}
    obj = runtime(mlPolicy=slot, podGroupPolicy=slot)

    assert (obj, []) == shipped["TrainingRuntime"].prune(obj)
    assert messages(shipped["TrainingRuntime"], obj) == []


def jobset(**spec):
    return {"metadata": {"name": "s"}, "spec": spec}


def test_jobset_policies_exclude_each_other_and_stay_as_they_are(shipped):
    schema = shipped["JobSet"]
    job = {"name": "a", "template": {"spec": {"template": {"spec": {"containers": [{"name": "c"}]}}}}}
    in_order = {"startupPolicyOrder": "InOrder"}
    depends = [job, {**job, "name": "b", "dependsOn": [{"name": "a", "status": "Ready"}]}]
    exclusive = "StartupPolicy and DependsOn APIs are mutually exclusive"

    assert [f"spec: Invalid value: {exclusive}"] == messages(
        schema, jobset(startupPolicy=in_order, replicatedJobs=depends)
    )
    assert [f'spec: Invalid value: "object": no such key: replicatedJobs evaluating rule: {exclusive}'] == messages(
        schema, jobset(startupPolicy=in_order)
    )
    assert messages(schema, jobset(network={"subdomain": "b"}), jobset(network={"subdomain": "a"})) == [
        "spec.network: Invalid value: Value is immutable"
    ]


def test_volume_claim_templates_cannot_name_a_namespace(shipped):
    def claims(**metadata):
        return jobset(volumeClaimPolicies=[{"templates": [{"metadata": {"name": "c", **metadata}}]}])

    [message] = messages(shipped["JobSet"], claims(namespace="x"))
    assert (
        message
        == "spec.volumeClaimPolicies[0]: Invalid value: namespace cannot be set for VolumeClaimPolicies templates"
    )
    assert messages(shipped["JobSet"], claims()) == []
    [message] = messages(shipped["JobSet"], jobset(volumeClaimPolicies=[{"templates": [{}]}]))
    assert "no such key: metadata evaluating rule" in message, "as upstream, whose webhook writes it into new ones"


def test_pod_templates_are_checked_where_they_are_embedded(shipped):
    pod = {"containers": [{"name": "c", "imagee": "x", "resources": {"limits": {"cpu": "3x"}}}]}
    obj = jobset(replicatedJobs=[{"name": "a", "template": {"spec": {"template": {"spec": pod}}}}])

    pruned, unknown = shipped["JobSet"].prune(obj)

    prefix = "spec.replicatedJobs[0].template.spec.template.spec.containers[0]"
    assert [f"{prefix}.imagee"] == unknown
    assert [f"{prefix}.resources.limits.cpu"] == [c.field for c in shipped["JobSet"].validate(pruned)]
