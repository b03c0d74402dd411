"""What probes and lifecycle hooks do, and the hooks themselves, in the API server's words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes
from ktrain.local.apiserver.builtins.pods.validation.ports import validate_number, validate_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

PROBED_BY: Final = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOKED_BY: Final = ("exec", "httpGet", "tcpSocket", "sleep")
_SCHEMES: Final = ("HTTP", "HTTPS")
_HEADER: Final = re.compile(r"[-A-Za-z0-9]+")
_HEADER_TEXT: Final = (
    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for "
    "validation is '[-A-Za-z0-9]+')"
)


def validate_lifecycle(lifecycle: Json, field: str, grace_s: int) -> Iterator[Cause]:
    """Yield what is wrong with the hooks of a container in a pod that may take this long to end."""
    for hook in ("postStart", "preStop"):
        if hook in lifecycle:
            yield from validate_handler(lifecycle[hook], f"{field}.{hook}", _HOOKED_BY, grace_s)


def validate_handler(handler: Json, field: str, kinds: tuple[str, ...], grace_s: int) -> Iterator[Cause]:
    """Yield what is wrong with what is done: exactly one of the kinds."""
    given = [kind for kind in kinds if kind in handler]
    if not given:
        yield causes.required(field, "must specify a handler type")
        return
    kind, *others = given
    yield from _validate_action(kind, handler[kind], f"{field}.{kind}", grace_s)
    for other in others:
        yield causes.forbidden(f"{field}.{other}", "may not specify more than 1 handler type")


def _validate_action(kind: str, action: Json, field: str, grace_s: int) -> Iterator[Cause]:
    if kind == "exec" and not action.get("command"):
        yield causes.required(f"{field}.command")
    elif kind == "httpGet":
        yield from _validate_http(action, field)
    elif kind == "tcpSocket":
        yield from validate_port(action.get("port", 0), f"{field}.port")
    elif kind == "grpc":
        yield from validate_number(action.get("port", 0), f"{field}.port")
    elif kind == "sleep" and not 0 <= (seconds := action.get("seconds", 0)) <= grace_s:
        detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_s})"
        yield causes.invalid(field, seconds, detail)


def _validate_http(action: Json, field: str) -> Iterator[Cause]:
    yield from validate_port(action.get("port", 0), f"{field}.port")
    if (scheme := action.get("scheme", "HTTP")) not in _SCHEMES:
        yield causes.not_supported(f"{field}.scheme", scheme, _SCHEMES)
    for header in action.get("httpHeaders", ()):
        if not _HEADER.fullmatch(name := header.get("name", "")):
            yield causes.invalid(f"{field}.httpHeaders", name, _HEADER_TEXT)
