"""
JAX: tells every process who it is and where they all meet.

`jax.distributed.initialize` does not read these variables by itself: a program passes them on. They are not reserved,
and the TrainJob's variables are laid over them last: a user who runs several processes on a node numbers them himself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api import trainer as api
from ktrain.pipeline.findings import Findings, some_nodes
from ktrain.pipeline.info import COMPLETION_INDEX, from_field, literal

if TYPE_CHECKING:
    from ktrain.pipeline.info import Info
    from ktrain.pipeline.points import Context

NUM_PROCESSES: Final = "JAX_NUM_PROCESSES"
PROCESS_ID: Final = "JAX_PROCESS_ID"
COORDINATOR_ADDRESS: Final = "JAX_COORDINATOR_ADDRESS"


class JAX:
    """One process on each node; the first is the coordinator."""

    name: Final = "JAX"

    def validate(self, info: Info | None, job: api.TrainJob, old: api.TrainJob | None, ctx: Context) -> Findings:
        """Refuse a job without nodes."""
        policy = info.runtime.ml_policy if info and old is None else None
        return Findings(tuple(some_nodes(job, "jax")) if policy and policy.jax else ())

    def enforce_ml_policy(self, info: Info, ctx: Context) -> None:
        """Set the node count, JAX's variables and its port."""
        policy = info.runtime.ml_policy
        if policy is None or not policy.jax or info.trainer is None:
            return
        trainer = info.job.spec.trainer
        if trainer and trainer.num_nodes is not None:
            info.trainer.set_count(trainer.num_nodes)
        # Without `spec.trainer` the container is the runtime's own affair.
        if trainer and (container := info.trainer_container):
            container.set_env(
                literal(NUM_PROCESSES, str(info.trainer.count)),
                from_field(PROCESS_ID, COMPLETION_INDEX),
                literal(COORDINATOR_ADDRESS, f"{info.coordinator_host}:{api.TRAINER_PORT}"),
            )
            container.set_port(api.TRAINER_PORT)
