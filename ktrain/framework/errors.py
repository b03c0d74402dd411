"""
Errors of the framework.

    FrameworkError
    ├── TransportError          no answer from the API server
    ├── ClientBusy              not sent: too many calls of this client were under way
    ├── ApiError                an answer that is a refusal; carries the request and the Status
    │   ├── BadRequest 400, Unauthorized 401, Forbidden 403, NotFound 404
    │   ├── Conflict 409        ├── AlreadyExists   └── ApplyConflict (another field manager)
    │   ├── Gone 410            the resource version is too old
    │   ├── Invalid 422         the object breaks the schema or a webhook's rule
    │   ├── TooManyRequests 429
    │   └── ServerError 5xx
    ├── DecodeError             an answer that does not fit the declared type
    ├── NoMatch                 no such kind on this API server, or more than one
    ├── AlreadyOwned            the object has another controller
    ├── ConfigError             no API server is configured, or the configuration cannot be used
    ├── CacheSyncTimeout        an informer did not get its first content in time
    ├── KindMissing             the API server does not serve a kind at all
    ├── LeadershipLost          this process may not write any more
    ├── ShutdownTimeout         something did not stop within the grace period
    ├── Blocked                 raised by a reconciler: the object cannot make progress, and nothing has failed
    └── TerminalError           raised by a reconciler: do not retry until the object changes
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

from ktrain.api.meta import Struct

MAX_RETRY_AFTER_S: Final = 3600


class FrameworkError(Exception):
    """Base of all errors that the framework raises."""


class TransportError(FrameworkError):
    """No answer came. If the request was a write, nobody knows whether it happened."""


class ClientBusy(FrameworkError):
    """No turn came in time, so the request was not sent. The text says who holds the turns."""


class NoMatch(FrameworkError):
    """The API server serves no such kind, or several groups do; the text names what comes near."""


class AlreadyOwned(FrameworkError):
    """Another object controls this one; the text names it. Only one may."""


class DecodeError(FrameworkError):
    """The server's answer does not fit the type the resource declares."""


class TerminalError(FrameworkError):
    """Raised by a reconciler when a retry cannot help; the key waits for its next event."""


class Blocked(FrameworkError):
    """
    Raised by a reconciler that cannot make progress although nothing has failed: users have to change something.

    The key is reconciled again with ever longer waits, for changes that no event reports. It counts as no error, and
    the log has one line for it.
    """


class ConfigError(FrameworkError):
    """No way to the API server: no kubeconfig, an unknown context, credentials that cannot be read."""


class CacheSyncTimeout(FrameworkError):
    """Informers without content when the time was up; the text names each and the last error it met."""


class KindMissing(FrameworkError):
    """The API server does not serve the kind: its CRD is not installed, or not any more."""


class LeadershipLost(FrameworkError):
    """The lease could be another's by now: the write was not sent, and the process must end its work."""


class ShutdownTimeout(FrameworkError):
    """Work went on after the grace period and was cancelled; the text says what."""


class StatusCause(Struct, frozen=True):
    """One cause inside a Status."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Struct, frozen=True):
    """What a Status is about."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int = 0


class Status(Struct, frozen=True):
    """The body of a refusal (metav1.Status)."""

    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails = StatusDetails()


class ApiError(FrameworkError):
    """The API server refused. `str()` reads as a sentence: what was asked, then why not."""

    def __init__(self, status: Status, *, method: str = "", path: str = "") -> None:
        self.status = status
        self.method = method
        self.path = path
        super().__init__(status.message or status.reason or f"HTTP {status.code}")

    @property
    def code(self) -> int:
        """The HTTP status."""
        return self.status.code

    @property
    def retry_after_s(self) -> int:
        """
        When to come back at the earliest, in seconds; 0 if the server did not say.

        An hour at the most: a mistake in a proxy must not put a controller to sleep for good.
        """
        return min(self.status.details.retry_after_seconds, MAX_RETRY_AFTER_S)

    @property
    def reason(self) -> str:
        """The machine-readable reason, for example `AlreadyExists`."""
        return self.status.reason

    def __str__(self) -> str:
        return f"{self.method} {self.path}: {self.status.message or self.status.reason} ({self.code})".lstrip()


class BadRequest(ApiError):
    """400."""


class Unauthorized(ApiError):
    """401: the credentials were not accepted."""


class Forbidden(ApiError):
    """403: the identity may not do this, or admission said no."""


class NotFound(ApiError):
    """404: the object, or the kind itself, is not there."""


class Conflict(ApiError):
    """409: the object changed since it was read, or a precondition failed."""


class AlreadyExists(Conflict):
    """409 on create: the name is taken."""


class ApplyConflict(Conflict):
    """409 on apply: another field manager owns a field with another value."""


class Gone(ApiError):
    """410: the resource version or the continue token is too old."""


class Invalid(ApiError):
    """422: the object is not valid; the causes name the fields."""


class TooManyRequests(ApiError):
    """429: come back later; `status.details.retry_after_seconds` says when."""


class ServerError(ApiError):
    """5xx."""


_BY_CODE: Final[dict[int, type[ApiError]]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}


def error_from(code: int, body: bytes, *, method: str = "", path: str = "", retry_after_s: float = 0) -> ApiError:
    """
    Build the typed error for an answer with a status of 400 or more. The body may be anything.

    `retry_after_s` is what its header says: who throttles before there is a Status (priority and fairness, proxies)
    says so nowhere else.
    """
    try:
        status = msgspec.json.decode(body, type=Status)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        status = Status(message=body[:1024].decode("utf-8", "replace").strip())
    if not status.code:
        status = msgspec.structs.replace(status, code=code)
    if retry_after_s and not status.details.retry_after_seconds:
        details = msgspec.structs.replace(
            status.details, retry_after_seconds=math.ceil(min(retry_after_s, MAX_RETRY_AFTER_S))
        )
        status = msgspec.structs.replace(status, details=details)
    return error_from_status(status, method=method, path=path)


def error_from_status(status: Status, *, method: str = "", path: str = "") -> ApiError:
    """Build the typed error for a Status, which also comes as an ERROR event of a watch."""
    kind = _BY_CODE.get(status.code, ServerError if status.code >= 500 else ApiError)
    if status.code == 409:
        if status.reason == "AlreadyExists":
            kind = AlreadyExists
        elif any(cause.reason == "FieldManagerConflict" for cause in status.details.causes):
            kind = ApplyConflict
    return kind(status, method=method, path=path)


def is_version_too_large(error: FrameworkError) -> bool:
    """Whether the server has not yet reached the resource version asked for (a restored etcd, a lagging replica)."""
    return isinstance(error, ApiError) and (
        any(cause.reason == "ResourceVersionTooLarge" for cause in error.status.details.causes)
        or "Too large resource version" in error.status.message  # all that servers before 1.19 say
    )


def is_namespace_ending(error: Exception) -> bool:
    """Whether nothing can be created because the namespace is being deleted: nothing anyone could mend, or wants to."""
    return isinstance(error, ApiError) and any(
        cause.reason == "NamespaceTerminating" for cause in error.status.details.causes
    )
