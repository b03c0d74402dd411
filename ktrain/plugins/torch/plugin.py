"""The Torch plugin's hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from ktrain.api import trainer as api
from ktrain.pipeline.errors import PlanError
from ktrain.pipeline.findings import Findings, invalid
from ktrain.pipeline.journal import TRAIN_JOB, Author
from ktrain.pipeline.prepare import declared_environment, environment

from . import elastic, torchtune
from .variables import RESERVED, STANDALONE, is_standalone, rendezvous, standalone, topology

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.pipeline.info import Container, Info
    from ktrain.pipeline.points import Context


class Torch:
    """The rendezvous of torchrun: static, where every node knows rank 0's address from the start, or elastic."""

    name: Final = "Torch"

    def enforce_ml_policy(self, info: Info, ctx: Context) -> None:
        """
        Set the node count, the user's variables, torchrun's variables and its port.

        Raises:
            PlanError: The runtime asks for variables in a container that it does not have.
        """
        policy = info.runtime.ml_policy
        if policy is None or policy.torch is None:
            return
        trainer = info.job.spec.trainer
        elastic_policy = policy.torch.elastic_policy
        if elastic_policy:
            # Nothing of it makes sense without the rendezvous, so nobody is asked to say `trainer: {}` for it.
            trainer = trainer or api.Trainer()
            elastic.shape(info, elastic_policy)
            everything = elastic.variables(info, elastic_policy)
        else:
            if trainer and trainer.num_nodes is not None and info.trainer:
                info.trainer.set_count(max(1, trainer.num_nodes))
            everything = standalone(info) if is_standalone(info) else topology(info) + rendezvous(info)
        # Without `spec.trainer` the user's container is none of ours: a runtime may start torchrun by its own means.
        if trainer and (container := info.trainer_container):
            with info.journal.writing_as(Author(TRAIN_JOB)):
                container.set_env(*environment(trainer.env))
            if torchtune.is_torchtune(trainer) and not elastic_policy:
                # Where to meet is an option of its command: the variables would contradict that.
                info.set_program(torchtune.program(info, trainer))
                container.set_env(*(everything if is_standalone(info) else topology(info)))
            else:
                container.set_env(*everything)
            if elastic_policy:
                elastic.declare_port(container, elastic_policy)
            else:
                container.set_port(api.TRAINER_PORT)
        for job_name, container_name, target in _targets(info, policy.torch):
            if target is None:
                raise PlanError(_missing_target(job_name, container_name))
            target.set_env(*everything)

    def validate(self, info: Info | None, job: api.TrainJob, old: api.TrainJob | None, ctx: Context) -> Findings:
        """Refuse variables that are torchrun's, containers that do not exist, and what TorchTune cannot do."""
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
        taken = RESERVED | elastic.reserved(torch.elastic_policy)
        if is_standalone(info):
            taken |= {STANDALONE}
        if reserved := sorted(entry["name"] for entry in env if entry.get("name") in taken):
            detail = f"must not have reserved envs, invalid envs configured: [{' '.join(reserved)}]"
            errors.append(invalid("spec.trainer.env", env, detail))
        if job.spec.trainer and torchtune.is_torchtune(job.spec.trainer):
            errors += torchtune.check(info, job.spec.trainer)
        return Findings(tuple(errors))


def _targets(info: Info, torch: api.TorchPolicy) -> Iterator[tuple[str, str, Container | None]]:
    for target in torch.env_injection.targets if torch.env_injection else ():
        pod_set = info.by_name(target.job_name)
        for name in target.container_names:
            yield target.job_name, name, pod_set.container(name) if pod_set else None


def _missing_target(job_name: str, container_name: str) -> str:
    return f'envInjection target podSet "{job_name}" container "{container_name}" not found in runtime template'
