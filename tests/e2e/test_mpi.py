"""mpirun over two pods without sshd, as a JobSet that is shaped like Kubeflow's MPI runtime, in both ways pods run."""

import shutil

import pytest
import yaml

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("mpirun") is None, reason="no mpirun is installed"),
]
RANK = "echo rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE in $HOSTNAME"


def replicated(name, command, *, pods, env=(), mounts=(), volumes=(), **fields):
    container = {
        "name": "node",
        "image": "i",
        "command": command,
        "env": [{"name": key, "value": value} for key, value in env],
        "volumeMounts": list(mounts),
    }
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    job = {"parallelism": pods, "completions": pods, "backoffLimit": 0, "completionMode": "Indexed"}
    template = {"spec": job | {"template": {"spec": spec | {"volumes": list(volumes)}}}}
    return {"name": name, "replicas": 1, "template": template, **fields}


def job_set(program):
    """Two workers whose command is sshd, and a launcher that waits for them."""
    hosts = "".join(f"tj-node-0-{index}.tj slots=2\n" for index in range(2))
    env = {
        "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_set_default_slots": "2",
        "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
    }
    launcher = replicated(
        "launcher",
        ["mpirun", "-n", "4", "sh", "-c", program],
        pods=1,
        env=env.items(),
        mounts=[{"name": "hosts", "mountPath": "/etc/mpi"}],
        volumes=[{"name": "hosts", "configMap": {"name": "hosts"}}],
        dependsOn=[{"name": "node", "status": "Ready"}],
    )
    spec = {
        "network": {"subdomain": "tj"},
        "successPolicy": {"operator": "All", "targetReplicatedJobs": ["launcher"]},
        "replicatedJobs": [replicated("node", ["/no/such/sshd", "-De"], pods=2), launcher],
    }
    return yaml.safe_dump_all(
        [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hosts"}, "data": {"hostfile": hosts}},
            {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "tj"}, "spec": spec},
        ]
    )


def logs(cluster):
    return cluster.run("logs", "-l", "batch.kubernetes.io/job-name=tj-launcher-0")[1]


def test_four_ranks_run_on_two_pods(cluster):
    assert cluster.run("apply", "-f", "-", stdin=job_set(RANK))[0] == 0
    code, said = cluster.run("wait", "--for=condition=Completed", "jobset/tj", "--timeout=50s")

    assert code == 0, said + logs(cluster)
    ranks = sorted(line for line in logs(cluster).splitlines() if line.startswith("rank"))
    assert [line.split(" in ")[0] for line in ranks] == [f"rank {rank} of 4" for rank in range(4)]
    assert sorted(line.split(" in ")[1] for line in ranks) == [f"tj-node-0-{index}" for index in (0, 0, 1, 1)]


def test_the_exit_code_of_a_rank_is_the_launchers(cluster):
    assert cluster.run("apply", "-f", "-", stdin=job_set("exit 5"))[0] == 0
    cluster.run("wait", "--for=condition=Failed", "jobset/tj", "--timeout=50s")
    path = "{.items[0].status.containerStatuses[0].state.terminated.exitCode}"
    _, code = cluster.run("get", "pods", "-l", "batch.kubernetes.io/job-name=tj-launcher-0", "-o", f"jsonpath={path}")

    assert code == "5", logs(cluster)
