"""What makes a pod an MPI launcher or worker, and what it gets."""

import msgspec
import pytest

from ktrain.local.kubelet import mpi
from ktrain.local.kubelet.spec import Pod

HOSTFILE = {"OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile", "OMPI_MCA_orte_set_default_slots": "2"}


def variables(given, *, as_root=False, shared_host=False):
    return mpi.launcher_variables(given, "/agent", as_root=as_root, shared_host=shared_host)


def test_every_mpi_is_told_of_the_agent_in_its_own_words():
    found = variables(HOSTFILE)

    for name in (
        "OMPI_MCA_plm_rsh_agent",
        "PRTE_MCA_plm_ssh_agent",
        "HYDRA_LAUNCHER_EXEC",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC",
    ):
        assert found[name] == "/agent"


def test_what_open_mpi_4_is_told_open_mpi_5_is_told_and_the_other_way_round():
    assert variables(HOSTFILE)["PRTE_MCA_prte_default_hostfile"] == "/etc/mpi/hostfile"
    assert variables(HOSTFILE)["PRTE_MCA_prte_set_default_slots"] == "2"
    assert variables({"PRTE_MCA_prte_default_hostfile": "h"})["OMPI_MCA_orte_default_hostfile"] == "h"


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        ({"secret": {"secretName": "s", "items": [{"key": "ssh-privatekey", "path": "id_rsa"}]}}, True),
        ({"secret": {"secretName": "s", "items": [{"key": "password", "path": "p"}]}}, False),
        ({"secret": {"secretName": "s"}}, False),
        ({"emptyDir": {}}, False),
    ],
)
def test_a_key_pair_is_known_by_its_key(volume, expected):
    spec = {"containers": [{"name": "c"}], "volumes": [{"name": "v", **volume}]}
    pod = msgspec.convert({"metadata": {"name": "p", "namespace": "n"}, "spec": spec}, Pod)

    assert mpi.holds_keys(pod.spec.volumes[0]) is expected


def test_what_the_author_has_set_stays():
    assert "OMPI_MCA_plm_rsh_agent" not in variables(HOSTFILE | {"OMPI_MCA_plm_rsh_agent": "ssh"})


def test_root_may_launch_and_hosts_that_share_a_name_use_tcp():
    assert variables(HOSTFILE, as_root=True)["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] == "1"
    assert "OMPI_ALLOW_RUN_AS_ROOT" not in variables(HOSTFILE)
    assert variables(HOSTFILE, shared_host=True)["OMPI_MCA_btl"] == "self,tcp"
    assert variables(HOSTFILE, shared_host=True)["OMPI_MCA_coll"] == "^han"
    assert "OMPI_MCA_btl" not in variables(HOSTFILE)


def test_who_does_not_speak_to_an_mpi_gets_nothing():
    assert variables({"PET_NNODES": "2", "PATH": "/bin"}, as_root=True, shared_host=True) == {}


@pytest.mark.parametrize(
    ("argv", "can_serve", "idles"),
    [
        (("/usr/sbin/sshd", "-De"), False, True),
        (("sshd", "-D", "-e"), False, True),
        (("/usr/sbin/sshd", "-De"), True, False),
        (("/usr/sbin/sshd", "-T"), False, False),
        (("python", "-D"), False, False),
    ],
)
def test_an_sshd_idles_where_it_cannot_serve(argv, can_serve, idles):
    assert (mpi.worker_command(argv, can_serve=can_serve) == mpi.IDLE) is idles


@pytest.mark.parametrize(
    ("names", "annotation", "expected"),
    [(["a", "node"], "", "node"), (["a", "b"], "", "a"), (["a", "node"], "a", "a"), (["a"], "gone", "a")],
)
def test_commands_go_to_the_default_container_of_a_pod(names, annotation, expected):
    annotations = {"kubectl.kubernetes.io/default-container": annotation}
    spec = {"containers": [{"name": name} for name in names]}
    pod = msgspec.convert({"metadata": {"name": "p", "annotations": annotations}, "spec": spec}, Pod)

    assert mpi.default_container(pod) == expected
    assert not mpi.launches(pod)
