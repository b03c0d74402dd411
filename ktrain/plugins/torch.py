"""
Torch: tells `torchrun` who its peers are, through the `PET_*` variables that it reads as defaults of its options.

See https://docs.pytorch.org/docs/stable/elastic/run.html; the variable of `--nnodes` is `PET_NNODES`, and so on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from ktrain.api import trainer as api
from ktrain.pipeline.errors import PlanError
from ktrain.pipeline.findings import Findings, invalid
from ktrain.pipeline.info import COMPLETION_INDEX, from_field, literal
from ktrain.pipeline.journal import TRAIN_JOB, Author
from ktrain.pipeline.prepare import declared_environment, environment
from ktrain.pipeline.resources import cpu_count, gpu_count, names_device

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json
    from ktrain.pipeline.info import Container, Info
    from ktrain.pipeline.points import Context

NNODES: Final = "PET_NNODES"
NPROC_PER_NODE: Final = "PET_NPROC_PER_NODE"
NODE_RANK: Final = "PET_NODE_RANK"
MASTER_ADDR: Final = "PET_MASTER_ADDR"
MASTER_PORT: Final = "PET_MASTER_PORT"
RESERVED: Final = frozenset((NNODES, NPROC_PER_NODE, NODE_RANK, MASTER_ADDR, MASTER_PORT))


class Torch:
    """The static rendezvous of torchrun: every node knows rank 0's address from the start."""

    name: Final = "Torch"

    def enforce_ml_policy(self, info: Info, ctx: Context) -> None:  # noqa: ARG002 -- the hook's signature
        """
        Set the node count, the user's variables, torchrun's variables and its port.

        Raises:
            PlanError: The runtime asks for variables in a container that it does not have.
        """
        policy = info.runtime.ml_policy
        if policy is None or policy.torch is None:
            return
        trainer = info.job.spec.trainer
        if trainer and trainer.num_nodes is not None and info.trainer:
            info.trainer.set_count(trainer.num_nodes)
        variables = _variables(info)
        # Without `spec.trainer` the user's container is none of ours: a runtime may start torchrun by its own means.
        if trainer and (container := info.trainer_container):
            with info.journal.writing_as(Author(TRAIN_JOB)):
                container.set_env(*environment(trainer.env))
            container.set_env(*variables)
            container.set_port(api.TRAINER_PORT)
        for job_name, container_name, target in _targets(info, policy.torch):
            if target is None:
                raise PlanError(_missing_target(job_name, container_name))
            target.set_env(*variables)

    def validate(
        self,
        info: Info | None,
        job: api.TrainJob,
        old: api.TrainJob | None,  # noqa: ARG002 -- the hook's signature
        ctx: Context,  # noqa: ARG002 -- the hook's signature
    ) -> Findings:
        """Refuse variables that are torchrun's, and injection into containers that do not exist."""
        if info is None or info.runtime.ml_policy is None or info.runtime.ml_policy.torch is None:
            return Findings()
        torch = info.runtime.ml_policy.torch
        targets = msgspec.to_builtins(torch.env_injection.targets) if torch.env_injection else []
        errors = [
            invalid(
                "spec.runtimeRef",
                next((t for t in targets if t.get("jobName") == job_name), None),
                _missing_target(job_name, container_name),
            )
            for job_name, container_name, target in _targets(info, torch)
            if target is None
        ]
        env = declared_environment(job.spec.trainer.env) if job.spec.trainer else []
        if reserved := sorted(entry["name"] for entry in env if entry.get("name") in RESERVED):
            detail = f"must not have reserved envs, invalid envs configured: [{' '.join(reserved)}]"
            errors.append(invalid("spec.trainer.env", env, detail))
        return Findings(tuple(errors))


def _variables(info: Info) -> list[Json]:
    return [
        literal(NNODES, str(info.trainer.count if info.trainer else 1)),
        literal(NPROC_PER_NODE, _processes_per_node(info)),
        from_field(NODE_RANK, COMPLETION_INDEX),
        literal(MASTER_ADDR, info.coordinator_host),
        literal(MASTER_PORT, str(api.TRAINER_PORT)),
    ]


def _processes_per_node(info: Info) -> str:
    """
    What the user says; else `auto` with GPUs, one process each; else as many as there are cores.

    torchrun's own `auto` without GPUs would count the machine's cores, not the container's. A device that the TrainJob
    names replaces the runtime's GPUs here; cores and memory do not. (In Go's Trainer they do, too: a user who asks for
    more cores gets the runtime's four GPUs, and one process.)
    """
    trainer = info.job.spec.trainer
    if trainer and trainer.num_proc_per_node is not None:
        return str(trainer.num_proc_per_node)
    merged = info.trainer_container.resources if info.trainer_container else {}
    resources: Json = merged
    if trainer and trainer.resources_per_node:
        resources = msgspec.json.decode(trainer.resources_per_node)
    if gpu_count(resources) or (not names_device(resources) and gpu_count(merged)):
        return "auto"
    return str(max(1, cpu_count(resources)))


def _targets(info: Info, torch: api.TorchPolicy) -> Iterator[tuple[str, str, Container | None]]:
    for target in torch.env_injection.targets if torch.env_injection else ():
        pod_set = info.by_name(target.job_name)
        for name in target.container_names:
            yield target.job_name, name, pod_set.container(name) if pod_set else None


def _missing_target(job_name: str, container_name: str) -> str:
    return f'envInjection target podSet "{job_name}" container "{container_name}" not found in runtime template'
