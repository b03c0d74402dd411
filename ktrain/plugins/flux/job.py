"""`mlPolicy.flux`, and what follows from it for one job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from ktrain.api import trainer as api
from ktrain.api.meta import Struct
from ktrain.pipeline.resources import node_gpus

if TYPE_CHECKING:
    from ktrain.pipeline.info import Info, PodSet

_DEFAULTS: Final = {
    "FLUX_VIEW_IMAGE": "ghcr.io/converged-computing/flux-view-ubuntu:tag-jammy",
    "FLUX_NETWORK_DEVICE": "eth0",
    "FLUX_QUEUE_POLICY": "fcfs",
}
"""Settings, which are variables of the trainer's container: the runtime's, then the TrainJob's."""


class FluxPolicy(Struct, frozen=True):
    """`mlPolicy.flux` with the CRD's default."""

    num_proc_per_node: int = 1


@dataclass(frozen=True, slots=True)
class FluxJob:
    """One Flux job: the policy, and the pods that brokers run in."""

    info: Info
    policy: FluxPolicy
    nodes: PodSet

    @classmethod
    def of(cls, info: Info | None) -> FluxJob | None:
        """Return the Flux job of *info*; None if its runtime has no Flux policy, or no job for nodes."""
        policy = info.runtime.ml_policy if info else None
        if info is None or policy is None or not policy.flux:
            return None
        nodes = info.trainer or info.by_name(api.TRAINER_CONTAINER)
        return cls(info, msgspec.json.decode(policy.flux, type=FluxPolicy), nodes) if nodes else None

    def setting(self, name: str) -> str:
        """Return a setting; a variable without a literal value is none."""
        container = self.nodes.step_container
        given = {entry["name"]: entry.get("value") for entry in (container.env if container else ())}
        return given.get(name) or _DEFAULTS[name]

    @property
    def words(self) -> list[str]:
        """
        The program that Flux is to run: the TrainJob's command or else the runtime's, and the TrainJob's arguments.

        The runtime's arguments stay on the container, and follow when it starts.
        """
        trainer = self.info.job.spec.trainer
        container = self.nodes.step_container
        own = container.spec.get("command") or () if container else ()
        command = own if trainer is None or trainer.command is None else trainer.command
        return [*command, *((trainer.args if trainer else None) or ())]

    @property
    def size(self) -> int:
        """How many brokers there are. Of a job without nodes nothing runs; its files are those of one."""
        return max(1, self.nodes.count)

    @property
    def tasks(self) -> int:
        """How many tasks a node has."""
        trainer = self.info.job.spec.trainer
        said = trainer.num_proc_per_node if trainer else None
        return self.policy.num_proc_per_node if said is None else said

    @property
    def gpus(self) -> int:
        """How many GPUs a node has."""
        return node_gpus(self.info)

    @property
    def lead(self) -> str:
        """The host name of the broker that the program is handed to."""
        return self._host("0")

    @property
    def hosts(self) -> str:
        """All host names, as Flux writes lists of them: `job-node-0-[0-3]`."""
        return self._host(f"[{ids(self.size)}]")

    @property
    def domain(self) -> str:
        """Where the host names are found."""
        return f"{self.info.subdomain}.{self.info.job.metadata.namespace}.svc.cluster.local"

    @property
    def run_options(self) -> list[str]:
        """What `flux run` is told: nodes, tasks of all of them, GPUs of a task."""
        options = ["-N", str(self.size), "-n", str(self.tasks * self.size)]
        return [*options, "-g", str(self.gpus)] if self.gpus else options

    @property
    def resources(self) -> list[str]:
        """What `flux R encode` is told a node has."""
        options = [f"--cores={ids(self.tasks)}"]
        return [*options, f"--gpu={ids(self.gpus)}"] if self.gpus else options

    def _host(self, pod: str) -> str:
        return f"{self.info.job.metadata.name}-{self.nodes.name}-0-{pod}"


def ids(count: int) -> str:
    """Name the numbers below *count*, which is at least 1, as Flux does: `0`, `0-3`."""
    return "0" if count == 1 else f"0-{count - 1}"
