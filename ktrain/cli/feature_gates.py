"""`--feature-gates` of `ktrain up` and `ktrain run`: features that can be switched, by their names on a cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from ktrain.controllers.jobset import Gates

TRAIN_JOB_STATUS: Final = "TrainJobStatus"
GENERIC_WORKLOAD: Final = "GenericWorkload"
TRAIN_JOB_STATE: Final = "TrainJobState"
_ELASTIC: Final = "ElasticJobSet"


@dataclass(frozen=True, slots=True)
class FeatureGates:
    """What is on."""

    jobsets: Gates | None = None
    """Of JobSets; None: what is on by default."""
    train_job_status: bool = False
    """Pods can report their progress."""
    generic_workload: bool = True
    """`podGroupPolicy.workload` works."""
    train_job_state: bool | None = None
    """TrainJobs have `status.state`; None: where pods run."""


def parse(text: str) -> FeatureGates:
    """
    Read `TrainJobStatus,RestartJob=true,InPlaceRestart=false`; a name alone is on, as is its `=true`.

    Raises:
        ValueError: A name is none of a gate or given twice, or a value is neither true nor false.
    """
    found = switches(text)
    own = FeatureGates(
        train_job_status=found.pop(TRAIN_JOB_STATUS, False),
        generic_workload=found.pop(GENERIC_WORKLOAD, True),
        train_job_state=found.pop(TRAIN_JOB_STATE, None),
    )
    if not found:
        return own
    from ktrain.controllers.jobset import Gates

    try:
        gates = Gates.of(found)
    except ValueError as error:
        names = ", ".join((TRAIN_JOB_STATUS, GENERIC_WORKLOAD, TRAIN_JOB_STATE))
        raise ValueError(f"{error} of JobSets, and {names}") from error
    # Elastic TrainJobs work without being asked for; who names the gate decides for all JobSets.
    return replace(own, jobsets=gates if _ELASTIC in found else replace(gates, elastic_train_jobs=True))


def switches(text: str) -> dict[str, bool]:
    """Read `A,B=true,C=false`. ValueError as `parse`, whatever the names."""
    found: dict[str, bool] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = item.partition("=")
        if value not in ("", "true", "false"):
            raise ValueError(f"feature gate {name}: {value!r} is neither true nor false")
        if name in found:
            raise ValueError(f"feature gate {name} is given twice")
        found[name] = value != "false"
    return found


def _callback(_ctx: click.Context, _param: click.Parameter, value: str) -> FeatureGates:
    try:
        return parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


feature_gates_option = click.option(
    "--feature-gates",
    default="",
    callback=_callback,
    metavar="GATE[=true|false],...",
    help="Off by default: TrainJobStatus (pods report their progress); of JobSets RestartJob, ElasticJobSet, "
    "InPlaceRestart. On by default: GenericWorkload (podGroupPolicy.workload), TrainJobState (status.state and the "
    "columns of kubectl; off with --pods off).",
)
