"""Why a pass could not do its work, in words for the TrainJob: what the API server refused, or what nobody foresaw."""

from __future__ import annotations

from typing import Final

from ktrain.framework.errors import (
    ApiError,
    ApplyConflict,
    Blocked,
    Conflict,
    FrameworkError,
    Invalid,
    ServerError,
    TooManyRequests,
)
from ktrain.pipeline.errors import PlanError

from .observe import BLOCKERS, INTERNAL_ERROR, REFUSED, RUNTIME_UNUSABLE, Failure
from .writing import ADVICE

_LASTING: Final = (400, 403, 409, 422)
_TOO_LARGE: Final = ("request is too large", "Request entity too large")
"""In the words of etcd, whose answer is a 500, and of the API server: neither says of what, nor what to do."""

_UNDECLARED: Final = "field not declared in schema"
"""The API server says so of an apply with a field that the definition lacks. Its answer is a 500; no retry helps."""
_RULES: Final = ".spec.startupPolicy.rules:"
RULES_ADVICE: Final = (
    "startupPolicy.rules (KEP-672) needs ktrain's definition of JobSet, config/crd/jobsets.jobset.x-k8s.io.yaml, and"
    " ktrain's JobSet controller, `ktrain operator --jobset`; with another operator use dependsOn in replicatedJobs"
)
_DEFINITION_ADVICE: Final = "install the definitions that ktrain ships in config/crd, or leave the field out"


class JobFailed(FrameworkError):
    """The pass could not do its work, and said so on the object; the key runs again after its back-off."""


class JobBlocked(Blocked):
    """The TrainJob waits for a change that users have to make, and its event says which."""


def error_of(failure: Failure, cause: ApiError | PlanError | None) -> FrameworkError:
    """Return what a reconcile raises that could not do its work."""
    if isinstance(cause, ApiError):
        return cause
    return (JobBlocked if failure.reason in BLOCKERS else JobFailed)(failure.message)


def is_behind(error: ApiError | PlanError) -> bool:
    """Whether it was only our caches that were behind; then the next pass sees what is there."""
    if isinstance(error, Invalid):  # so are applies refused that meet an object of another UID
        return any(cause.field == "metadata.uid" for cause in error.status.details.causes)
    return isinstance(error, Conflict) and not isinstance(error, ApplyConflict)


def may_pass(error: ApiError | PlanError) -> bool:
    """Whether the API server, or what it asks, only has too much to do or is down."""
    return isinstance(error, TooManyRequests | ServerError)


def failure(error: ApiError | PlanError) -> Failure:
    """Say why the API server refused a child. What it calls the client's fault, time alone will not mend."""
    if isinstance(error, PlanError):
        return Failure(RUNTIME_UNUSABLE, str(error))
    message = error.status.message or str(error)
    if any(words in message for words in _TOO_LARGE):
        what = "/".join(error.path.split("/")[-2:])
        record = "with the record of who set which field, is larger than what can be stored"
        return Failure(REFUSED, f"{what}, {record}; {ADVICE}: {message}", at_once=True)
    if _UNDECLARED in message:
        advice = RULES_ADVICE if _RULES in message else _DEFINITION_ADVICE
        return Failure(REFUSED, f"{message}: the cluster's definition has no such field; {advice}", at_once=True)
    return Failure(REFUSED, message, at_once=error.code in _LASTING)


def unforeseen(error: Exception) -> Failure:
    """Say what went wrong in ktrain itself, or in something that a plugin built and nobody checked."""
    return Failure(INTERNAL_ERROR, f"{type(error).__name__}: {error}; the operator's log has more")
