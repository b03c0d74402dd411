"""`mlPolicy.mpi`, and what follows from it for one job. Works on replicated jobs by their names, as Kubeflow's does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from ktrain.api import trainer as api
from ktrain.api.meta import Struct
from ktrain.pipeline.errors import PlanError
from ktrain.pipeline.resources import node_gpus

from .implementations import IMPLEMENTATIONS, Implementation

if TYPE_CHECKING:
    from ktrain.pipeline.info import Info, PodSet

NODE: Final = "node"
LAUNCHER: Final = "launcher"


class MPIPolicy(Struct, frozen=True):
    """`mlPolicy.mpi` with the CRD's defaults."""

    mpi_implementation: str = "OpenMPI"
    variant: str = ""
    """
    ktrain's own: which MPI, before `mpi_implementation`. Kubeflow's CRD refuses all but Open MPI there, in words that
    are recorded; so what it does not know has a field that it does not know.
    """
    num_proc_per_node: int = 1
    run_launcher_as_node: bool = False
    ssh_auth_mount_path: str = "/root/.ssh"
    proposed_mount_path: str = msgspec.field(default="", name="SSHAuthMountPath")
    """The same in KEP-2170's spelling."""

    @property
    def key_directory(self) -> str:
        """Where the keys are mounted."""
        return self.proposed_mount_path or self.ssh_auth_mount_path


@dataclass(frozen=True, slots=True)
class MPIJob:
    """One MPI job: the policy, and the replicated jobs that it is about."""

    info: Info
    policy: MPIPolicy

    @classmethod
    def of(cls, info: Info | None) -> MPIJob | None:
        """Return the MPI job of *info*; None if its runtime has no MPI policy."""
        policy = info.runtime.ml_policy if info else None
        if info is None or policy is None or not policy.mpi:
            return None
        return cls(info, msgspec.json.decode(policy.mpi, type=MPIPolicy))

    @property
    def implementation(self) -> Implementation:
        """
        Which MPI.

        Raises:
            PlanError: None that is known.
        """
        name = self.policy.variant or self.policy.mpi_implementation
        if name not in IMPLEMENTATIONS:
            known = ", ".join(IMPLEMENTATIONS)
            raise PlanError(f'MPI implementation for "{name}" doesn\'t supported; there are: {known}')
        return IMPLEMENTATIONS[name]

    @property
    def reserved(self) -> frozenset[str]:
        """Variables that a TrainJob may not set; none if the MPI is unknown."""
        found = IMPLEMENTATIONS.get(self.policy.variant or self.policy.mpi_implementation)
        return found.reserved if found else frozenset()

    @property
    def node(self) -> PodSet | None:
        """The pods that wait for ranks."""
        return self.info.by_name(NODE)

    @property
    def launcher(self) -> PodSet | None:
        """The pod that starts them."""
        return self.info.by_name(LAUNCHER)

    @property
    def hosts(self) -> list[PodSet]:
        """The pods that ranks run on, in the order of the template."""
        names = (NODE, LAUNCHER) if self.policy.run_launcher_as_node else (NODE,)
        return [pod_set for pod_set in self.info.pod_sets if pod_set.name in names]

    def node_count(self, node: PodSet) -> int:
        """
        Count the pods of *node*: what the TrainJob says, else the job's own parallelism, else what the runtime says.

        A launcher that works is one of the nodes. (In Go's Trainer the runtime's number sizes the launcher, which
        carries the trainer's label: four launchers and one node.)
        """
        trainer, policy = self.info.job.spec.trainer, self.info.runtime.ml_policy
        nodes = trainer.num_nodes if trainer else None
        if nodes is None:
            if node.ancestor != api.ANCESTOR_TRAINER and "parallelism" in node.job["template"]["spec"]:
                return node.count
            nodes = max(1, policy.num_nodes or 1) if policy else 1
        return max(nodes - 1, 1) if self.policy.run_launcher_as_node else nodes

    @property
    def slots(self) -> int:
        """How many ranks a node has room for: what the TrainJob says, else one for each GPU if the policy says 1."""
        trainer = self.info.job.spec.trainer
        if trainer and trainer.num_proc_per_node is not None:
            return trainer.num_proc_per_node
        if self.policy.num_proc_per_node == 1:
            return max(1, node_gpus(self.info))
        return self.policy.num_proc_per_node
