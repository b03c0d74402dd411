"""
What a report says, and whether the API server would take it.

A report is answered before it is stored, so it is judged here, by the schema of the shipped definition and in the API
server's words. Unknown fields are skipped, as Go's decoder does; a field of a wrong type is no report at all, nor is a
number that no int32 holds. Pods write what they like, so whatever is said costs little: of too many metrics only as
many are looked at as it takes to know that.
"""

from __future__ import annotations

from datetime import UTC
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from ktrain.api import assets
from ktrain.api import trainer as api
from ktrain.api.meta import Struct, format_time
from ktrain.api.schema import Schema

if TYPE_CHECKING:
    from ktrain.api.meta import Json, Key

COMPLETE: Final = 100
"""The percentage of a job that is done."""
MAX_METRICS: Final = 256
"""What the schema allows. Tens of thousands fit into a body, and each is judged by itself."""
_INT32: Final = range(-(1 << 31), 1 << 31)


class Report(Struct, frozen=True):
    """The body of a request."""

    trainer_status: api.TrainerStatus | None = None

    @property
    def is_terminal(self) -> bool:
        """Whether the job says that it is done."""
        return self.trainer_status is not None and self.trainer_status.progress_percentage == COMPLETE

    def as_json(self) -> Json:
        """Return it as it goes over the wire: times to the second, in UTC."""
        status = self.trainer_status
        if status is None:
            return {}
        found: Json = msgspec.to_builtins(msgspec.structs.replace(status, metrics=None, last_updated_time=None))
        if status.metrics is not None:
            # An empty name or value is one that the schema has something to say about.
            found["metrics"] = [
                {"name": metric.name, "value": metric.value} for metric in status.metrics[: MAX_METRICS + 1]
            ]
        if status.last_updated_time is not None:
            found["lastUpdatedTime"] = format_time(status.last_updated_time)
        return {"trainerStatus": found}


class NoReport(Exception):
    """The body is not a report."""


def decode(body: bytes) -> Report:
    """
    Read the body of a request.

    Raises:
        NoReport: It is no JSON object of the right types, or its time has no time zone, or none in UTC.
    """
    try:
        report = msgspec.json.decode(body, type=Report)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise NoReport(str(error)) from error
    if report.trainer_status is not None:
        _check(report.trainer_status)
    return report


def _check(status: api.TrainerStatus) -> None:
    for number in (status.progress_percentage, status.estimated_remaining_seconds):
        if number is not None and number not in _INT32:
            raise NoReport("a number that no int32 holds")
    time = status.last_updated_time
    if time is None:
        return
    if time.tzinfo is None:
        raise NoReport("lastUpdatedTime has no time zone")
    try:
        time.astimezone(UTC)
    except OverflowError as error:
        raise NoReport("lastUpdatedTime is in no year from 1 to 9999") from error


def problem(job: Key, status: Json) -> str | None:
    """Say in the API server's words what is wrong with the status of a TrainJob; None if nothing is."""
    document = {
        "apiVersion": api.API_VERSION,
        "kind": "TrainJob",
        "metadata": {"name": job.name, "namespace": job.namespace},
        "status": status,
    }
    causes = _schema().validate_status(document)
    if not causes:
        return None
    texts = list(dict.fromkeys(map(str, causes)))
    said = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return f'TrainJob.{api.GROUP} "{job.name}" is invalid: {said}'


@lru_cache(maxsize=1)
def _schema() -> Schema:
    definition = next(crd for crd in assets.crds() if crd["metadata"]["name"] == f"trainjobs.{api.GROUP}")
    version = next(one for one in definition["spec"]["versions"] if one["name"] == api.VERSION)
    return Schema.shared_from_crd(version["schema"]["openAPIV3Schema"])
