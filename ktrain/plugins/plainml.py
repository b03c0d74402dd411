"""
PlainML: training without a framework that has to be told who its peers are.

Also runs beside frameworks that leave the node count and the user's variables to it (XGBoost, Flux, third parties).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.pipeline.journal import TRAIN_JOB, Author
from ktrain.pipeline.prepare import environment

if TYPE_CHECKING:
    from ktrain.pipeline.info import Info
    from ktrain.pipeline.points import Context


class PlainML:
    """Sets the node count and the user's environment."""

    name: Final = "PlainML"

    def enforce_ml_policy(self, info: Info, ctx: Context) -> None:
        """Apply `trainer.numNodes` and `trainer.env`, unless a framework with its own rules for them is configured."""
        policy = info.runtime.ml_policy
        if policy and (policy.torch or policy.mpi or policy.jax):
            return
        trainer = info.job.spec.trainer
        if trainer is None:
            return
        if trainer.num_nodes is not None and info.trainer:
            info.trainer.set_count(trainer.num_nodes)
        if info.trainer_container:
            with info.journal.writing_as(Author(TRAIN_JOB)):
                info.trainer_container.set_env(*environment(trainer.env))
