"""`pods/log`: the options, which container is meant, and the bytes from whoever runs the containers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from ktrain.local.apiserver import causes
from ktrain.local.apiserver.errors import bad_request, invalid
from ktrain.local.apiserver.reading import listing
from ktrain.local.apiserver.requests import Answer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ktrain.api.meta import Json
    from ktrain.local.apiserver.backend import Backend, Call

_TEXT = (("content-type", "text/plain"),)
_CONTAINER_FIELDS = ("initContainers", "containers", "ephemeralContainers")


@dataclass(frozen=True, slots=True)
class LogOptions:
    """v1.PodLogOptions without the container. Times are seconds back from now, or an RFC 3339 time."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    since_seconds: int | None = None
    since_time: str = ""
    tail_lines: int | None = None
    limit_bytes: int | None = None


class LogUnavailable(Exception):
    """Raised by a `LogSource`: there is no log; the message says why in the API server's words (a 400)."""


class LogSource(Protocol):
    """Whoever runs containers and keeps what they print: the kubelet."""

    async def open(self, namespace: str, pod: str, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        """
        Open the log of one container; the iterator ends when the log (and, if followed, the container) does.

        Raises:
            LogUnavailable: For example the container has not started.
        """


async def serve(backend: Backend, call: Call) -> Answer:
    """
    Answer a request for a log.

    Raises:
        StatusError: 404, or 400 and 422 for what was asked.
    """
    options = _read_options(call)
    if options.since_time and not _is_time(options.since_time):
        raise bad_request(f"sinceTime {options.since_time!r} is not an RFC 3339 time")
    pod = listing.get_object(backend, call).obj
    container = choose_container(call, pod, call.parameters.text("container"))
    agent = backend.nodes.of(pod)
    if agent is None:
        # Upstream has no node to ask: an empty answer, not an error.
        return Answer(204, headers=())
    try:
        chunks = await agent.logs.open(call.namespace, call.name, container, options)
    except LogUnavailable as error:
        raise bad_request(str(error)) from error
    return Answer(200, headers=_TEXT, chunks=chunks)


def _is_time(text: str) -> bool:
    """Whether it is a time of a place: one without a zone could be any of several."""
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def choose_container(call: Call, pod: Json, asked: str) -> str:
    """
    Return which container of a pod a request means: the one it asks for, the only one, or the pod's default.

    Raises:
        StatusError: 400: there is no such container, or none is named and there are several.
    """
    spec = pod["spec"]
    known = [c["name"] for field in _CONTAINER_FIELDS for c in spec.get(field, ())]
    if asked:
        if asked not in known:
            raise bad_request(f"container {asked} is not valid for pod {call.name}")
        return asked
    main = [c["name"] for c in spec["containers"]]
    default: str = pod["metadata"].get("annotations", {}).get("kubectl.kubernetes.io/default-container", "")
    if len(main) == 1 or default in main:
        return default if default in main else main[0]
    init = [c["name"] for c in spec.get("initContainers", ())]
    text = f"a container name must be specified for pod {call.name}, choose one of: [{' '.join(main)}]"
    raise bad_request(f"{text} or one of the init containers: [{' '.join(init)}]" if init else text)


def _read_options(call: Call) -> LogOptions:
    parameters = call.parameters
    options = LogOptions(
        follow=parameters.flag("follow"),
        previous=parameters.flag("previous"),
        timestamps=parameters.flag("timestamps"),
        since_seconds=parameters.number("sinceSeconds"),
        since_time=parameters.text("sinceTime"),
        tail_lines=parameters.number("tailLines"),
        limit_bytes=parameters.number("limitBytes"),
    )
    found = causes.non_negative("tailLines", options.tail_lines)
    if options.limit_bytes is not None and options.limit_bytes < 1:
        found.append(causes.invalid("limitBytes", options.limit_bytes, "must be greater than 0"))
    if options.since_seconds is not None and options.since_seconds < 1:
        found.append(causes.invalid("sinceSeconds", options.since_seconds, "must be greater than 0"))
    if options.since_seconds is not None and options.since_time:
        found.append(causes.forbidden("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    if "stream" in parameters:
        # One stream at a time (PodLogsQuerySplitStreams) is off by default.
        found.append(causes.forbidden("stream", "may not be specified"))
    if found:
        raise invalid(call.resource, call.name, found, kind="PodLogOptions")
    return options
