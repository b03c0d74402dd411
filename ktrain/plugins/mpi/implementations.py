"""
What each MPI reads: the lines of its host file, and the launcher's variables.

Open MPI 5 has another launcher (PRRTE) with other names, and ignores Open MPI 4's (ORTE) without a word: all ranks then
run on the launcher, and the job is Complete. `OpenMPI` says what Kubeflow's says, to the letter, and so speaks to
version 4 only, and gives keys a mode that root's ssh refuses; `OpenMPI5` says both, and serves an image with either.

MPICH's Hydra is told of ssh's options by `HYDRA_LAUNCHER_EXTRA_ARGS`; `HYDRA_LAUNCH_EXTRA_ARGS` is what the MPI
operator sets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

HOSTFILE: Final = "/etc/mpi/hostfile"
_SSH_ARGS: Final = "-o ConnectionAttempts=10"
"""Name resolution and sshd may come a little later than the launcher."""

Variables = Callable[[int], dict[str, str]]
"""Slots of a node to the launcher's variables, in order."""


def _orte(slots: int) -> dict[str, str]:
    return {
        "OMPI_MCA_orte_default_hostfile": HOSTFILE,
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_set_default_slots": str(slots),
        "OMPI_MCA_plm_rsh_args": _SSH_ARGS,
    }


def _prrte(slots: int) -> dict[str, str]:
    return {
        "PRTE_MCA_prte_default_hostfile": HOSTFILE,
        # A launcher that is a node, too, must recognise itself: its host name is short, the host file's is not.
        "PRTE_MCA_prte_keep_fqdn_hostnames": "false",
        "PRTE_MCA_prte_set_default_slots": str(slots),
        "PRTE_MCA_plm_ssh_args": _SSH_ARGS,
    }


def _intel(slots: int) -> dict[str, str]:
    return {
        "I_MPI_HYDRA_HOST_FILE": HOSTFILE,
        "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": _SSH_ARGS,
        "I_MPI_PERHOST": str(slots),
    }


def _mpich(slots: int) -> dict[str, str]:  # noqa: ARG001 -- Hydra reads slots from the host file only
    return {
        "HYDRA_HOST_FILE": HOSTFILE,
        "HYDRA_LAUNCHER_EXTRA_ARGS": _SSH_ARGS,
        "HYDRA_LAUNCH_EXTRA_ARGS": _SSH_ARGS,
    }


@dataclass(frozen=True, slots=True)
class Implementation:
    """One MPI."""

    variables: Variables
    line: str = "{host} slots={slots}\n"
    """Of the host file."""
    calls_back: bool = False
    """Its daemons connect to the launcher by the name that it calls itself, which is short."""
    root_has_key: bool = True
    """
    Whether the private key below `/root` is for root alone. Elsewhere its readers come by the pod's fsGroup. ssh
    refuses a key that is its own user's and that others may read.
    """

    def key_mode(self, directory: str) -> int:
        """Return the mode of a private key in *directory*."""
        return 0o600 if self.root_has_key and directory.startswith("/root/") else 0o640

    @property
    def reserved(self) -> frozenset[str]:
        """Names that a TrainJob may not set."""
        return frozenset(self.variables(1))


IMPLEMENTATIONS: Final = {
    "OpenMPI": Implementation(_orte, root_has_key=False),
    "OpenMPI5": Implementation(lambda slots: _orte(slots) | _prrte(slots)),
    "Intel": Implementation(_intel, "{host}:{slots}\n", calls_back=True),
    "MPICH": Implementation(_mpich, "{host}:{slots}\n", calls_back=True),
}
"""By `mlPolicy.mpi.variant`, or `mpiImplementation`."""
