"""
Requests and answers as bytes, and what their query parameters mean.

`Request` and `Answer` are the whole border of the server: HTTP, in-process callers and tests all speak them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from ktrain.local.apiserver import causes
from ktrain.local.apiserver.errors import bad_request, invalid_options
from ktrain.local.apiserver.numbers import NumberError, parse_signed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

JSON_TYPE: Final = "application/json"
_MANAGER_LIMIT: Final = 128
_MOST_WARNINGS: Final = 100
_VALIDATIONS: Final = ("", "Ignore", "Strict", "Warn")


@dataclass(frozen=True, slots=True)
class User:
    """Who asks. Authorisation and admission see it."""

    name: str
    groups: tuple[str, ...] = ("system:authenticated",)
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """What else is known of the user, by key; the values are anybody's."""

    def info(self) -> Json:
        """Return the user as reviews show it: `authentication.k8s.io/v1` UserInfo."""
        shown: Json = {"username": self.name}
        if self.uid:
            shown["uid"] = self.uid
        if self.groups:
            shown["groups"] = list(self.groups)
        if self.extra:
            shown["extra"] = {key: list(values) for key, values in self.extra}
        return shown


ADMIN: Final = User("system:admin", ("system:masters", "system:authenticated"))


@dataclass(frozen=True, slots=True)
class Request:
    """One request. `path` is still percent-encoded, `query` is decoded, header names are lower case."""

    method: str
    path: str
    query: Sequence[tuple[str, str]] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    user: User = ADMIN
    impersonation: Sequence[tuple[str, str]] = ()
    """The headers `impersonate-*`, apart from the others because they may repeat."""


class Connection(Protocol):
    """Messages both ways, once a connection was upgraded."""

    async def receive(self) -> bytes | None:
        """Return the next message, None when the other side has gone."""

    async def send(self, data: bytes) -> None:
        """Send a message, waiting while the other side does not read. ConnectionError when it has gone."""

    async def aclose(self) -> None:
        """Close in order. Idempotent."""


@dataclass(frozen=True, slots=True)
class Upgrade:
    """What an upgraded connection is for."""

    protocol: str
    """The WebSocket subprotocol that was agreed on."""
    serve: Callable[[Connection], Awaitable[None]]
    """Serves the connection to its end. Nothing is started before it is called."""


@dataclass(frozen=True, slots=True)
class Answer:
    """
    One answer: a whole body, `chunks` that arrive over time (a watch, a log), or an `upgrade` of the connection.

    Whoever takes an answer with chunks must exhaust or `aclose` them, one with an upgrade may `serve` it.
    Header names are lower case and may repeat.
    """

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = (("content-type", JSON_TYPE),)
    chunks: AsyncIterator[bytes] | None = None
    upgrade: Upgrade | None = None


class Parameters:
    """Query parameters, first value of each name, with the server's idea of booleans and integers."""

    __slots__ = ("_values",)

    def __init__(self, query: Sequence[tuple[str, str]]) -> None:
        self._values: dict[str, str] = {}
        for name, value in query:
            self._values.setdefault(name, value)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str) -> str:
        """Return the value, empty when it is absent."""
        return self._values.get(name, "")

    def flag(self, name: str) -> bool:
        """Return True for anything but absent, `false` and `0`: also for an empty value."""
        value = self._values.get(name)
        return value is not None and value.lower() != "false" and value != "0"

    def number(self, name: str) -> int | None:
        """
        Return an integer, None when it is absent.

        Raises:
            StatusError: 400 when it is no integer of 64 bits.
        """
        value = self._values.get(name)
        try:
            return None if value is None else parse_signed(value)
        except NumberError as error:
            raise bad_request(str(error)) from error


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """CreateOptions, UpdateOptions and PatchOptions; `kind` says which."""

    kind: str
    manager: str
    dry_run: bool = False
    validation: str = "Warn"
    force: bool = False


def write_options(kind: str, request: Request, parameters: Parameters, *, apply: bool = False) -> WriteOptions:
    """
    Read and check the options of a write. Without a fieldManager the User-Agent's first word is one.

    Raises:
        StatusError: 422 that lists what is wrong.
    """
    manager = parameters.text("fieldManager")
    validation = parameters.text("fieldValidation")
    found = [causes.required("fieldManager", "is required for apply patch")] if apply and not manager else []
    found += [*_check_manager(manager), *check_dry_run([v for n, v in request.query if n == "dryRun"])]
    if validation not in _VALIDATIONS:
        found.append(causes.not_supported("fieldValidation", validation, _VALIDATIONS))
    if kind == "PatchOptions" and not apply and "force" in parameters:
        found.append(causes.forbidden("force", "may not be specified for non-apply patch"))
    if found:
        raise invalid_options(kind, found)
    return WriteOptions(
        kind=kind,
        manager=manager or _agent(request),
        dry_run=bool(parameters.text("dryRun")),
        validation=validation or "Warn",
        force=parameters.flag("force"),
    )


def check_dry_run(values: Sequence[str]) -> list[Cause]:
    """Check the dryRun directives: `All` is the only one."""
    return [causes.not_supported("dryRun", list(values), ["All"])] if set(values) - {"All"} else []


def warning_headers(warnings: Sequence[str]) -> list[tuple[str, str]]:
    """Return one Warning header for each text, duplicates dropped; cut when they are long together or many."""
    unique = list(dict.fromkeys(warnings))
    if len(unique) > _MOST_WARNINGS:
        left = len(unique) - _MOST_WARNINGS + 1
        unique[_MOST_WARNINGS - 1 :] = [f"at least {left} more warnings are left out"]
    if sum(map(len, unique)) > 4096:
        unique = [text[:256] for text in unique]
    return [("warning", f'299 - "{_quote(text)}"') for text in unique]


def _quote(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _check_manager(manager: str) -> list[Cause]:
    if len(manager.encode()) > _MANAGER_LIMIT:
        return [causes.too_long("fieldManager", _MANAGER_LIMIT)]
    for position, char in enumerate(manager):
        if not char.isprintable():
            detail = f"invalid character U+{ord(char):04X} (at position {position})"
            return [causes.invalid("fieldManager", manager, detail)]
    return []


def _agent(request: Request) -> str:
    word = request.headers.get("user-agent", "").split("/", 1)[0]
    printable = "".join(char for char in word if char.isprintable())
    return printable.encode()[:_MANAGER_LIMIT].decode(errors="ignore") or "unknown"
