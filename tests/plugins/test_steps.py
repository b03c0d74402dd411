"""Runtimes in the form of KEP-2170: the step's label on the pod template, and containers of other names."""

import pytest

LABEL = "trainer.kubeflow.org/trainjob-ancestor-step"


def step(name, label, *containers, rest=""):
    """A replicated job that is labelled on its pods."""
    labels = f"metadata: {{labels: {{{LABEL}: {label}}}}}, " if label else ""
    listed = ", ".join(f"{{name: {one}, image: i{rest}}}" for one in containers)
    pods = f"{{{labels}spec: {{containers: [{listed}]}}}}"
    return f"{{name: {name}, template: {{spec: {{template: {pods}}}}}}}"


def runtime(policy, *steps):
    return f"spec: {{mlPolicy: {policy}, template: {{spec: {{replicatedJobs: [{', '.join(steps)}]}}}}}}"


def job(trainer="{}", more=""):
    return f"""
metadata: {{name: job, namespace: ns, uid: u}}
spec: {{runtimeRef: {{name: rt}}, trainer: {trainer}{more}}}
"""


def built(kit, runtime, job):
    """The Job spec and the containers of each replicated job, by its name."""
    jobs = kit.job_set(runtime, job)["spec"]["replicatedJobs"]
    return {
        one["name"]: (
            one["template"]["spec"],
            {container["name"]: container for container in one["template"]["spec"]["template"]["spec"]["containers"]},
        )
        for one in jobs
    }


@pytest.mark.parametrize("container", ["node", "trainer", "anything"])
def test_what_a_trainjob_says_of_its_trainer_reaches_the_container_whatever_its_name(kit, container):
    said = "{image: mine, command: [a], args: [b], numNodes: 5, env: [{name: A, value: a}],"
    said += " resourcesPerNode: {limits: {cpu: 2}}}"
    nodes, containers = built(kit, runtime("{torch: {}}", step("node", "trainer", container)), job(said))["node"]
    trainer = containers[container]

    assert nodes["parallelism"] == nodes["completions"] == 5
    assert (trainer["image"], trainer["command"], trainer["args"]) == ("mine", ["a"], ["b"])
    assert trainer["resources"] == {"limits": {"cpu": "2"}}
    env = {entry["name"]: entry.get("value") for entry in trainer["env"]}
    assert (env["A"], env["PET_NNODES"], env["PET_MASTER_ADDR"]) == ("a", "5", "job-node-0-0.job")
    assert {"containerPort": 29500, "protocol": "TCP"} in trainer["ports"]


def test_a_known_name_counts_before_others_and_two_of_them_cannot_be_told_apart(kit):
    for containers, expected in ((("x", "trainer"), ["trainer"]), (("trainer", "node", "x"), [])):
        found = built(kit, runtime("{}", step("node", "trainer", *containers)), job("{image: mine}"))["node"][1]

        assert [name for name, one in found.items() if one["image"] == "mine"] == expected


def test_a_step_that_is_labelled_as_upstream_reads_it_takes_no_container_of_another_name(kit):
    body = "{metadata: {labels: L}, spec: {template: {spec: {containers: [{name: main, image: i}]}}}}"
    found = built(kit, runtime("{torch: {}}", f"{{name: node, template: {body}}}"), job("{image: mine}"))["node"][1]

    assert found == {"main": {"name": "main", "image": "i"}}


@pytest.mark.parametrize("asset", ["dataset", "model"])
@pytest.mark.parametrize("container", ["", "fetch"])
def test_an_initializer_is_told_in_the_form_of_the_proposal(kit, asset, container):
    name = f"{asset}-initializer"
    mount = ", volumeMounts: [{name: initializer, mountPath: /workspace}], env: [{name: STORAGE_URI, value: old}]"
    shape = runtime("{}", step(name, name, container or name, rest=mount), step("node", "trainer", "trainer"))
    said = job(more=f", initializer: {{{asset}: {{storageUri: 's3://b/d', env: [{{name: ENDPOINT_URL, value: e}}]}}}}")

    assert kit.errors(shape, said) == []
    assert built(kit, shape, said)[name][1][container or name]["env"] == [
        {"name": "STORAGE_URI", "value": "s3://b/d"},
        {"name": "ENDPOINT_URL", "value": "e"},
    ]


def test_mpis_keys_and_host_file_are_mounted_in_the_proposals_runtime(kit):
    shape = runtime(
        "{numNodes: 2, mpi: {numProcPerNode: 5}}",
        step("launcher", "trainer", "mpi-launcher", "sidecar"),
        step("node", "", "trainer"),
    )
    found = built(kit, shape, job("{command: [mpirun, x]}"))
    launcher, node = found["launcher"][1], found["node"][1]["trainer"]

    assert (found["launcher"][0]["parallelism"], found["node"][0]["parallelism"]) == (1, 2)
    assert [mount["mountPath"] for mount in launcher["mpi-launcher"]["volumeMounts"]] == ["/root/.ssh", "/etc/mpi"]
    assert launcher["mpi-launcher"]["command"] == ["mpirun", "x"]
    assert launcher["sidecar"] == {"name": "sidecar", "image": "i"}
    assert [mount["mountPath"] for mount in node["volumeMounts"]] == ["/root/.ssh"]
    assert kit.objects_of(shape, job())["ConfigMap"]["data"]["hostfile"] == (
        "job-node-0-0.job slots=5\njob-node-0-1.job slots=5\n"
    )


def test_the_gpus_of_a_node_in_the_proposals_runtime_are_mpis_slots(kit):
    limits = ", resources: {limits: {nvidia.com/gpu: 5}}"
    shape = runtime("{mpi: {}}", step("node", "", "main", rest=limits), step("launcher", "trainer", "mpi-launcher"))

    assert "slots=5" in kit.objects_of(shape, job())["ConfigMap"]["data"]["hostfile"]


def test_a_workload_asks_for_all_pods_of_a_job_in_the_proposals_form(kit):
    shape = runtime("{numNodes: 100}", step("node", "trainer", "trainer")).replace(
        "mlPolicy", "podGroupPolicy: {workload: {}}, mlPolicy"
    )
    (template,) = kit.objects_of(shape, job())["Workload"]["spec"]["podGroupTemplates"]

    assert template["schedulingPolicy"]["gang"]["minCount"] == 100


def test_an_elastic_job_in_the_proposals_form_has_a_size(kit):
    shape = runtime(
        "{torch: {elasticPolicy: {minNodes: 2, maxNodes: 4}}}",
        step("prep", "", "x"),
        step("node", "trainer", "trainer"),
    )
    (plugin,) = kit.registry.elasticities
    size = plugin.size(kit.job(job()), kit.runtime(shape), kit.context)

    assert (size.replicated_job, size.status.desired_nodes) == ("node", 2)
    assert built(kit, shape, job())["node"][1]["trainer"]["env"][0] == {"name": "PET_NNODES", "value": "2:4"}


def test_the_directory_of_mpis_keys_may_be_spelled_as_in_the_proposal(kit):
    shape = runtime("{mpi: {SSHAuthMountPath: /home/u/.ssh}}", step("launcher", "trainer", "mpi-launcher"))
    mounts = built(kit, shape, job())["launcher"][1]["mpi-launcher"]["volumeMounts"]

    assert mounts[0] == {"name": "mpi-ssh-auth", "mountPath": "/home/u/.ssh"}
