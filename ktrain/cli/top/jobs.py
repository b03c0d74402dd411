"""What is shown of TrainJobs: the columns of `kubectl get trainjobs -o wide`, by a watch that reads no more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from ktrain.api import trainer as api
from ktrain.api.meta import Object, Resource, Struct
from ktrain.cli.display import printable

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

Sort = Literal["state", "name", "age", "restarts"]

STATES: Final = (
    *("Stalled", "Restarting", "Pending", "Queued", "Starting", "Running", "Suspended"),
    *("Unknown", "Failed", "Complete"),
)
"""The order of `--sort state`: jobs that may need someone first, jobs that are over last."""
UNKNOWN: Final = "Unknown"


class _Nodes(Struct, frozen=True):
    summary: str = ""


class _Reason(Struct, frozen=True):
    reason: str = ""


class _Condition(Struct, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""


class _Runtime(Struct, frozen=True):
    name: str = ""


class _Spec(Struct, frozen=True):
    runtime_ref: _Runtime = _Runtime()


class _Status(Struct, frozen=True):
    state: str = ""
    nodes: _Nodes | None = None
    restarts: int | None = None
    diagnosis: _Reason | None = None
    conditions: tuple[_Condition, ...] = ()


class TopJob(Object, frozen=True):
    """A TrainJob, as far as it is shown."""

    spec: _Spec = _Spec()
    status: _Status = _Status()


TOP_JOBS: Final = Resource(api.GROUP, api.VERSION, "TrainJob", "trainjobs", namespaced=True, type=TopJob)


@dataclass(frozen=True, slots=True)
class Row:
    """One TrainJob. `nodes` is ready of wanted; what the status does not say is empty or 0."""

    namespace: str
    name: str
    state: str
    nodes: str
    restarts: int
    reason: str
    """Of the diagnosis, or else of the last condition."""
    runtime: str
    age_s: float


def rows(jobs: Iterable[TopJob], now: datetime, sort: Sort) -> list[Row]:
    """Return a row for each job, in order."""
    found = [_row(job, now) for job in jobs]
    found.sort(key=lambda row: (row.namespace, row.name))
    if sort == "state":
        found.sort(key=lambda row: STATES.index(row.state) if row.state in STATES else len(STATES))
    elif sort == "age":
        found.sort(key=lambda row: row.age_s)
    elif sort == "restarts":
        found.sort(key=lambda row: -row.restarts)
    return found


def _row(job: TopJob, now: datetime) -> Row:
    meta, status = job.metadata, job.status
    last = status.conditions[-1] if status.conditions else _Condition()
    reason = status.diagnosis.reason if status.diagnosis else last.reason
    return Row(
        namespace=meta.namespace,
        name=meta.name,
        # Without the feature gate TrainJobState, and with Kubeflow's operator, there are conditions only.
        state=printable(status.state or (last.type if last.status == "True" else "")) or UNKNOWN,
        nodes=printable(status.nodes.summary) if status.nodes else "",
        restarts=status.restarts or 0,
        reason=printable(reason),
        runtime=printable(job.spec.runtime_ref.name),
        age_s=max((now - meta.creation_timestamp).total_seconds(), 0.0) if meta.creation_timestamp else 0.0,
    )
