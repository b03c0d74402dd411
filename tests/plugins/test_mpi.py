"""The MPI plugin: sizes, slots, host file, variables, volumes, and what is refused."""

import pytest

from ktrain.pipeline import ApplyWhen, PlanError

RUNTIME = """
spec:
  mlPolicy: {numNodes: 1, mpi: {%s}}
  template: {spec: {network: {subdomain: %s}, replicatedJobs: [
    {name: node, %s template: {spec: {%s template: {spec: {
      containers: [{name: node, image: i, command: [sshd, -De] %s}, {name: side, image: s}]}}}}},
    {name: launcher, template: {metadata: {labels: L}, spec: {template: {spec: {
      containers: [{name: node, image: i}]}}}}}
  ]}}
"""
JOB = "{metadata: {name: mj, namespace: team, uid: u}, spec: {runtimeRef: {name: rt}%s}}"
WORKING = "runLauncherAsNode: true"
ORTE = {
    "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
    "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
    "OMPI_MCA_orte_set_default_slots": "3",
    "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
}
PRRTE = {
    "PRTE_MCA_prte_default_hostfile": "/etc/mpi/hostfile",
    "PRTE_MCA_prte_keep_fqdn_hostnames": "false",
    "PRTE_MCA_prte_set_default_slots": "3",
    "PRTE_MCA_plm_ssh_args": "-o ConnectionAttempts=10",
}


def runtime(policy="", subdomain="mj", replicas="", parallelism="", resources=""):
    return RUNTIME % (policy, subdomain, replicas, parallelism, resources and f", resources: {{limits: {resources}}}")


def job(trainer=None):
    return JOB % ("" if trainer is None else f", trainer: {{{trainer}}}")


def pods(objects):
    return {rj["name"]: rj["template"]["spec"] for rj in objects["JobSet"]["spec"]["replicatedJobs"]}


def sizes(objects):
    return tuple(pods(objects)[name]["parallelism"] for name in ("node", "launcher"))


def container(objects, name):
    return pods(objects)[name]["template"]["spec"]["containers"][0]


def env(objects, name="launcher"):
    return {entry["name"]: entry["value"] for entry in container(objects, name).get("env", [])}


def hosts(objects):
    return objects["ConfigMap"]["data"]["hostfile"].splitlines()


@pytest.mark.parametrize(
    ("nodes", "policy", "parallelism", "trainer", "expected"),
    [
        (1, "", "", "numNodes: 3", (3, 1)),
        (1, WORKING, "", "numNodes: 3", (2, 1)),
        (1, WORKING, "", "numNodes: 1", (1, 1)),
        (1, "", "", "numNodes: 0", (0, 1)),
        (1, "", "parallelism: 5,", "", (5, 1)),
        (1, WORKING, "parallelism: 5,", "", (5, 1)),
        (1, "", "parallelism: 5,", "numNodes: 2", (2, 1)),
        (4, "", "", "", (4, 1)),
        (4, WORKING, "", "", (3, 1)),
        (4, WORKING, "", "numNodes: 2", (1, 1)),
    ],
)
def test_nodes_are_the_trainjobs_or_the_runtimes_and_there_is_one_launcher(
    kit, nodes, policy, parallelism, trainer, expected
):
    text = runtime(policy, parallelism=parallelism).replace("numNodes: 1,", f"numNodes: {nodes},")

    assert sizes(kit.objects_of(text, job(trainer))) == expected


@pytest.mark.parametrize(
    ("policy", "resources", "trainer", "expected"),
    [
        ("", "", "", 1),
        ("numProcPerNode: 8", "", "", 8),
        ("numProcPerNode: 8", "{a/gpu: 2}", "", 8),
        ("", "{a/gpu: 2}", "", 2),
        ("", "{a/gpu: 2}", "numProcPerNode: 4", 4),
        ("", "{a/gpu: 2}", "resourcesPerNode: {limits: {a/gpu: 3}}", 3),
        ("", "{a/gpu: 2}", "resourcesPerNode: {limits: {cpu: 3}}", 2),
        ("", "{a/gpu: 2}", "resourcesPerNode: {limits: {a/tpu: 3}}", 1),
    ],
)
def test_slots_are_said_or_follow_from_gpus(kit, policy, resources, trainer, expected):
    objects = kit.objects_of(runtime(policy, resources=resources), job(trainer))

    assert hosts(objects) == [f"mj-node-0-0.mj slots={expected}"]
    assert env(objects)["OMPI_MCA_orte_set_default_slots"] == str(expected)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("", ["mj-node-0-0.mesh", "mj-node-0-1.mesh", "mj-node-1-0.mesh", "mj-node-1-1.mesh"]),
        (WORKING, ["mj-node-0-0.mesh", "mj-node-1-0.mesh", "mj-launcher-0-0.mesh"]),
    ],
)
def test_the_host_file_has_all_replicas_under_the_subdomain_in_the_templates_order(kit, policy, expected):
    objects = kit.objects_of(runtime(policy, subdomain="mesh", replicas="replicas: 2,"), job("numNodes: 2"))

    assert [line.split()[0] for line in hosts(objects)] == expected


def test_a_launcher_is_one_job_also_in_the_host_file(kit):
    text = runtime(WORKING).replace("{name: launcher,", "{name: launcher, replicas: 3,")

    assert hosts(kit.objects_of(text, job("numNodes: 2"))) == ["mj-node-0-0.mj slots=1", "mj-launcher-0-0.mj slots=1"]


@pytest.mark.parametrize(
    ("policy", "variables", "line"),
    [
        ("", ORTE, "{} slots=3"),
        ("variant: OpenMPI", ORTE, "{} slots=3"),
        ("variant: OpenMPI5", ORTE | PRRTE, "{} slots=3"),
        (
            "mpiImplementation: OpenMPI, variant: Intel",
            {
                "I_MPI_HYDRA_HOST_FILE": "/etc/mpi/hostfile",
                "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": "-o ConnectionAttempts=10",
                "I_MPI_PERHOST": "3",
            },
            "{}:3",
        ),
        (
            "mpiImplementation: '', variant: MPICH",
            {
                "HYDRA_HOST_FILE": "/etc/mpi/hostfile",
                "HYDRA_LAUNCHER_EXTRA_ARGS": "-o ConnectionAttempts=10",
                "HYDRA_LAUNCH_EXTRA_ARGS": "-o ConnectionAttempts=10",
            },
            "{}:3",
        ),
    ],
)
def test_each_mpi_is_told_in_its_own_words_before_the_users(kit, policy, variables, line):
    objects = kit.objects_of(runtime(policy), job("numProcPerNode: 3, env: [{name: A, value: a}]"))

    assert list(env(objects).items()) == [*variables.items(), ("A", "a")]
    assert hosts(objects) == [line.format("mj-node-0-0.mj")]


@pytest.mark.parametrize(("variant", "expected"), [("OpenMPI5", None), ("MPICH", ["mj.team.svc.cluster.local"])])
def test_daemons_that_call_back_find_the_launcher_by_its_short_name(kit, variant, expected):
    objects = kit.objects_of(runtime(f"variant: {variant}"), job(""))

    for spec in pods(objects).values():
        assert spec["template"]["spec"].get("dnsConfig", {}).get("searches") == expected


@pytest.mark.parametrize(
    ("policy", "directory", "mode"),
    [
        ("", "/root/.ssh", 0o640),
        ("variant: OpenMPI5", "/root/.ssh", 0o600),
        ("variant: OpenMPI5, sshAuthMountPath: /home/u/.ssh", "/home/u/.ssh", 0o640),
    ],
)
def test_keys_are_where_ssh_looks_with_modes_that_it_accepts(kit, policy, directory, mode):
    objects = kit.objects_of(runtime(policy), job(""))

    for name, spec in pods(objects).items():
        keys = spec["template"]["spec"]["volumes"][0]
        assert keys["secret"]["secretName"] == "mj-mpi-ssh-auth"
        assert keys["secret"]["defaultMode"] == 0o400
        assert [(item["path"], item["mode"]) for item in keys["secret"]["items"]] == [
            ("id_rsa", mode),
            ("id_rsa.pub", 0o644),
            ("authorized_keys", 0o644),
        ]
        assert {"name": "mpi-ssh-auth", "mountPath": directory} in container(objects, name)["volumeMounts"]
    assert "volumeMounts" not in pods(objects)["node"]["template"]["spec"]["containers"][1]


def test_only_the_launcher_has_the_host_file(kit):
    objects = kit.objects_of(runtime(), job(""))
    volumes = {name: spec["template"]["spec"]["volumes"] for name, spec in pods(objects).items()}

    assert [volume["name"] for volume in volumes["node"]] == ["mpi-ssh-auth"]
    assert volumes["launcher"][1] == {
        "name": "mpi-hostfile",
        "configMap": {
            "name": "mj-mpi-hostfile",
            "items": [{"key": "hostfile", "path": "hostfile", "mode": 0o444}],
        },
    }
    assert container(objects, "launcher")["volumeMounts"][1] == {"name": "mpi-hostfile", "mountPath": "/etc/mpi"}


@pytest.mark.parametrize(("policy", "reaches"), [(WORKING, True), ("", False)])
def test_what_a_trainjob_gives_reaches_nodes_only_beside_a_launcher_that_works(kit, policy, reaches):
    trainer = "image: j, command: [mpirun], env: [{name: E, value: e}], resourcesPerNode: {limits: {cpu: 2}}"
    objects = kit.objects_of(runtime(policy), job(trainer))
    node, launcher = container(objects, "node"), container(objects, "launcher")

    assert (node["image"], node["command"]) == ("i", ["sshd", "-De"])
    assert (launcher["image"], launcher["command"]) == ("j", ["mpirun"])
    assert launcher["resources"] == {"limits": {"cpu": "2"}}
    assert (node.get("resources"), env(objects, "node")) == (
        ({"limits": {"cpu": "2"}}, {"E": "e"}) if reaches else (None, {})
    )


def test_a_launchers_container_of_another_name_gets_nothing(kit):
    text = runtime().replace("containers: [{name: node, image: i}]", "containers: [{name: main, image: i}]")

    assert not {"env", "volumeMounts"} & container(kit.objects_of(text, job("")), "launcher").keys()


def test_what_pods_mount_is_written_before_them_and_keys_once(kit):
    components = kit.plan(runtime(), job("")).components

    assert [(c.resource.kind, c.when) for c in components] == [
        ("Secret", ApplyWhen.ABSENT),
        ("ConfigMap", ApplyWhen.CHANGED),
        ("JobSet", ApplyWhen.CHANGED),
    ]
    for component in components[:2]:
        (owner,) = component.body["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("TrainJob", "u", True)


def test_a_host_file_that_no_config_map_holds_is_an_error_that_says_so(kit):
    with pytest.raises(
        PlanError, match=r"host file of 2000000000 pods .* mj-mpi-hostfile, which holds 1 MiB: 39247 pods"
    ):
        kit.plan(runtime(), job("numNodes: 2000000000"))


def test_ten_thousand_nodes_fit(kit):
    assert len(hosts(kit.objects_of(runtime(WORKING), job("numNodes: 10000")))) == 10000


@pytest.mark.parametrize("policy", ["mpiImplementation: ''", "mpiImplementation: LAM"])
def test_an_mpi_that_nobody_knows_is_named(kit, policy):
    name = policy.split()[1].strip("'")
    with pytest.raises(PlanError, match=f'MPI implementation for "{name}" doesn\'t supported; there are: OpenMPI, '):
        kit.plan(runtime(policy), job(""))


RESERVED = "must not have reserved envs, invalid envs configured: "


@pytest.mark.parametrize(
    ("policy", "names", "refused"),
    [
        ("", "OMPI_MCA_plm_rsh_args OK OMPI_MCA_orte_default_hostfile", "default_hostfile OMPI_MCA_plm_rsh_args"),
        ("", "PRTE_MCA_prte_default_hostfile", ""),
        ("variant: OpenMPI5", "PRTE_MCA_prte_default_hostfile", "PRTE_MCA_prte_default_hostfile"),
        ("variant: MPICH", "OMPI_MCA_plm_rsh_args HYDRA_HOST_FILE", "HYDRA_HOST_FILE"),
        ("variant: Intel", "I_MPI_PERHOST", "I_MPI_PERHOST"),
    ],
)
def test_the_launchers_variables_are_reserved(kit, policy, names, refused):
    variables = ", ".join(f"{{name: {name}, value: v}}" for name in names.split())
    errors = kit.errors(runtime(policy), job(f"env: [{variables}]"))

    assert len(errors) == (1 if refused else 0)
    assert all(
        e.startswith("spec.trainer.env: Invalid value: [{") and RESERVED in e and e.endswith(f"{refused}]")
        for e in errors
    )


NEEDS_BOTH = (
    "spec.trainer.numNodes: Invalid value: 2: must have 1 when MPI trainingRuntime with enabled runLauncherAsNode does"
    " not have either launcher and node"
)


@pytest.mark.parametrize(
    ("missing", "trainer", "expected"),
    [
        ("launcher", "numNodes: 2", [NEEDS_BOTH]),
        ("node", "numNodes: 2", [NEEDS_BOTH]),
        ("launcher", "numNodes: 1", []),
        ("launcher", "", []),
        ("nothing", "numNodes: 2", []),
    ],
)
def test_a_launcher_that_works_needs_both_jobs_for_several_nodes(kit, missing, trainer, expected):
    text = runtime(WORKING).replace(f"{{name: {missing}, ", "{name: other, ")

    assert kit.errors(text, job(trainer)) == expected
