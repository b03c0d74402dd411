"""
XGBoost: tells the workers where the tracker of their collective runs, how many they are, and which one each is.

The names are those that XGBoost's communicator takes (`dmlc_tracker_uri` and so on, in upper case). The program of the
first node starts the tracker. Node count and the user's variables are PlainML's work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api import trainer as api
from ktrain.pipeline.findings import Findings, forbidden, some_nodes
from ktrain.pipeline.info import COMPLETION_INDEX, from_field, literal
from ktrain.pipeline.prepare import declared_environment
from ktrain.pipeline.resources import node_gpus

if TYPE_CHECKING:
    from ktrain.pipeline.info import Info
    from ktrain.pipeline.points import Context

TRACKER_URI: Final = "DMLC_TRACKER_URI"
TRACKER_PORT: Final = "DMLC_TRACKER_PORT"
TASK_ID: Final = "DMLC_TASK_ID"
NUM_WORKER: Final = "DMLC_NUM_WORKER"
RESERVED: Final = frozenset((TRACKER_URI, TRACKER_PORT, TASK_ID, NUM_WORKER))


class XGBoost:
    """One worker for each GPU, or one on each node without."""

    name: Final = "XGBoost"
    after: Final = ("PlainML",)
    """The worker count is that of its nodes; and the user's variables come first, as everywhere."""

    def enforce_ml_policy(self, info: Info, ctx: Context) -> None:
        """Set the tracker's variables and port."""
        policy = info.runtime.ml_policy
        if policy is None or not policy.xgboost or info.job.spec.trainer is None or info.trainer is None:
            return
        if container := info.trainer_container:
            workers = info.trainer.count * max(1, node_gpus(info))
            container.set_env(
                literal(TRACKER_URI, info.coordinator_host),
                literal(TRACKER_PORT, str(api.TRAINER_PORT)),
                from_field(TASK_ID, COMPLETION_INDEX),
                literal(NUM_WORKER, str(workers)),
            )
            container.set_port(api.TRAINER_PORT)

    def validate(self, info: Info | None, job: api.TrainJob, old: api.TrainJob | None, ctx: Context) -> Findings:
        """Refuse the communicator's variables in the TrainJob, and a job without nodes."""
        policy = info.runtime.ml_policy if info else None
        if policy is None or not policy.xgboost or job.spec.trainer is None:
            return Findings()
        reserved = (
            forbidden(f"spec.trainer.env[{index}]", f"{variable['name']} is reserved for the XGBoost runtime")
            for index, variable in enumerate(declared_environment(job.spec.trainer.env))
            if variable.get("name") in RESERVED
        )
        return Findings((*reserved, *(some_nodes(job, "xgboost") if old is None else ())))
