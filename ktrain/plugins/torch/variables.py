"""
The `PET_*` variables: torchrun reads them as defaults of its options, `PET_NNODES` for `--nnodes`, and so on.

See https://docs.pytorch.org/docs/stable/elastic/run.html.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api import trainer as api
from ktrain.pipeline.info import COMPLETION_INDEX, from_field, literal
from ktrain.pipeline.resources import cpu_count, job_resources, node_gpus

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.pipeline.info import Info

NNODES: Final = "PET_NNODES"
NPROC_PER_NODE: Final = "PET_NPROC_PER_NODE"
NODE_RANK: Final = "PET_NODE_RANK"
MASTER_ADDR: Final = "PET_MASTER_ADDR"
MASTER_PORT: Final = "PET_MASTER_PORT"
STANDALONE: Final = "PET_STANDALONE"
"""torchrun's `--standalone`: one node, which needs no address. A flag: torchrun reads 0 or 1 (`check_env`)."""
RESERVED: Final = frozenset((NNODES, NPROC_PER_NODE, NODE_RANK, MASTER_ADDR, MASTER_PORT))
AUTO: Final = "auto"
"""One process for each GPU; also the name that torchrun has for it."""
_CPU: Final = "cpu"


def node_count(info: Info) -> int:
    """Count the nodes: the trainer's pods."""
    return info.trainer.count if info.trainer else 1


def processes_per_node(info: Info) -> int | str:
    """
    Return what the user says, else the runtime; else `auto` with GPUs, one process each; else as many as cores.

    torchrun's own `auto` without GPUs would count the machine's cores, not the container's, as would its `cpu`.
    """
    trainer = info.job.spec.trainer
    if trainer and trainer.num_proc_per_node is not None:
        return trainer.num_proc_per_node
    policy = info.runtime.ml_policy
    said = policy.torch.processes if policy and policy.torch else None
    said = (trainer.processes_per_node if trainer else "") or said
    if said == _CPU:
        return cpu_count(job_resources(info)) or _CPU
    if said not in (None, AUTO):
        return said
    return AUTO if node_gpus(info) else max(1, cpu_count(job_resources(info)))


def is_standalone(info: Info) -> bool:
    """Whether the job has no nodes to count, in KEP-2170's words `numNodes=0`: it runs alone, on one."""
    policy, trainer = info.runtime.ml_policy, info.job.spec.trainer
    if policy is None or policy.torch is None or policy.torch.elastic_policy:
        return False
    asked = trainer.num_nodes if trainer else None
    return (policy.num_nodes if asked is None else asked) == 0


def standalone(info: Info) -> list[Json]:
    """Return what torchrun is told of a node that is alone."""
    return [literal(NPROC_PER_NODE, str(processes_per_node(info))), literal(STANDALONE, "1")]


def topology(info: Info) -> list[Json]:
    """Return who this node is among how many."""
    return [
        literal(NNODES, str(node_count(info))),
        literal(NPROC_PER_NODE, str(processes_per_node(info))),
        from_field(NODE_RANK, COMPLETION_INDEX),
    ]


def rendezvous(info: Info) -> list[Json]:
    """Return where the nodes meet."""
    return [literal(MASTER_ADDR, info.coordinator_host), literal(MASTER_PORT, str(api.TRAINER_PORT))]
