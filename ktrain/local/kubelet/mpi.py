"""
MPI without sshd: how launchers and workers are recognised, and what they get. Pure.

A container whose variables speak to an MPI (`OMPI_MCA_*`, `PRTE_MCA_*`, `HYDRA_*`, `I_MPI_*`, `K_MPI_JOB_ROLE`: what
Kubeflow's MPI plugin and the mpi-operator set) may launch: its MPI is told to call the kubelet's agent (`remote`)
instead of ssh. Open MPI 4 and 5 read different names and ignore the other's without a word, so what is said in one is
said in the other, too. What the pod's author has set stays.

A worker whose command is sshd has nothing to serve where no sshd can run: it idles, and is reached all the same.
"""

from __future__ import annotations

import sys
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .spec import Container, Pod
    from .volume_spec import Volume

_PREFIXES: Final = ("OMPI_MCA_", "PRTE_MCA_", "HYDRA_", "I_MPI_")
_ROLE: Final = "K_MPI_JOB_ROLE"
_AGENTS: Final = (
    "OMPI_MCA_plm_rsh_agent",  # Open MPI 4
    "PRTE_MCA_plm_ssh_agent",  # Open MPI 5
    "HYDRA_LAUNCHER_EXEC",  # MPICH
    "I_MPI_HYDRA_BOOTSTRAP_EXEC",  # Intel MPI
)
_LAUNCHERS: Final = {"HYDRA_LAUNCHER": "ssh", "I_MPI_HYDRA_BOOTSTRAP": "ssh"}
_PAIRS: Final = (
    ("OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile"),
    ("OMPI_MCA_orte_set_default_slots", "PRTE_MCA_prte_set_default_slots"),
    ("OMPI_MCA_plm_rsh_args", "PRTE_MCA_plm_ssh_args"),
)
# Open MPI refuses to run as root unless told twice.
_AS_ROOT: Final = tuple(
    f"{family}_ALLOW_RUN_AS_ROOT{suffix}" for family in ("OMPI", "PRTE") for suffix in ("", "_CONFIRM")
)
# Several "hosts" with one host name believe that they share memory, and crash; TCP between all of them is safe. `han`
# sums within a host first and takes the wrong ranks for neighbours (MPI_ERR_TRUNCATE in MPI_Allreduce).
_ON_SHARED_HOST: Final = {"OMPI_MCA_btl": "self,tcp", "OMPI_MCA_rtc": "^hwloc", "OMPI_MCA_coll": "^han"}
IDLE: Final = (
    sys.executable,
    "-ISc",
    "import signal; print('no sshd can run here; commands come through the kubelet', flush=True); signal.pause()",
)


def launches(pod: Pod) -> bool:
    """Whether a container of this pod may be an MPI launcher, by the names of its variables."""
    return any(_speaks([variable.name for variable in container.env]) for container in pod.spec.containers)


def _speaks(names: Iterable[str]) -> bool:
    return any(name.startswith(_PREFIXES) or name == _ROLE for name in names)


def launcher_variables(variables: Mapping[str, str], agent: str, *, as_root: bool, shared_host: bool) -> dict[str, str]:
    """Return what a launcher gets besides its own variables; nothing if it is none."""
    if not _speaks(variables):
        return {}
    found = dict.fromkeys(_AGENTS, agent) | _LAUNCHERS
    for one, other in _PAIRS:
        if one in variables or other in variables:
            value = variables.get(one) or variables.get(other, "")
            found |= {one: value, other: value}
    if as_root:
        found |= dict.fromkeys(_AS_ROOT, "1")
    if shared_host:
        found |= _ON_SHARED_HOST
    return {name: value for name, value in found.items() if name not in variables}


def worker_command(argv: Sequence[str], *, can_serve: bool) -> tuple[str, ...]:
    """Return the command of a container, `IDLE` in place of an sshd that cannot run."""
    is_sshd = PurePosixPath(argv[0]).name == "sshd" and any(word.startswith("-D") for word in argv[1:])
    return IDLE if is_sshd and not can_serve else tuple(argv)


def probed(container: Container, argv: Sequence[str]) -> Container:
    """Return the container with the probes that apply: they ask the sshd, so a worker that idles has none."""
    if argv != IDLE:
        return container
    return msgspec.structs.replace(container, startup_probe=None, readiness_probe=None, liveness_probe=None)


def holds_keys(volume: Volume) -> bool:
    """
    Whether a volume is the key pair of a job's ssh: a Secret of type `kubernetes.io/ssh-auth`, by its key.

    Nothing here needs it, and on a shared host all pods want it at one path, perhaps where the user's own keys are.
    """
    return volume.secret is not None and any(item.key == "ssh-privatekey" for item in volume.secret.items)


def default_container(pod: Pod) -> str:
    """Name the container that commands for the pod go to: its default, the one named `node`, or the first."""
    names = [container.name for container in pod.spec.containers]
    asked = pod.metadata.annotations.get("kubectl.kubernetes.io/default-container", "")
    return next((name for name in (asked, "node") if name in names), names[0])
