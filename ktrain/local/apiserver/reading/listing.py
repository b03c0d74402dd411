"""
GET of one object and of a collection: resourceVersion rules and paging.

The newest state serves every request for "not older than". Only an exact version, and the later pages of a list, are
rebuilt from history. A continue token names the version of the first page and the last key sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ktrain.api.meta import Key
from ktrain.local.apiserver import causes, errors
from ktrain.local.apiserver.errors import StatusError, bad_request, invalid_options, not_found
from ktrain.local.apiserver.numbers import NumberError, parse_unsigned
from ktrain.local.apiserver.reading import selection, tokens
from ktrain.local.apiserver.storage.store import Expired

if TYPE_CHECKING:
    from ktrain.local.apiserver.backend import Backend, Call
    from ktrain.local.apiserver.storage.store import Item

_MATCHES: Final = ("Exact", "NotOlderThan", "")
_TOO_OLD: Final = "The resourceVersion for the provided list is too old."
_PAGE_TOO_OLD: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)
_FUTURE_WAIT_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list, or all of it. `remaining` is None when it is not known."""

    items: list[Item]
    revision: int
    continue_token: str = ""
    remaining: int | None = None


async def await_revision(backend: Backend, call: Call) -> None:
    """
    Wait a moment for a version that the store has not reached.

    Raises:
        StatusError: The version is unreadable; 504 when it does not come.
    """
    asked = read_revision(call)
    if asked <= backend.store.revision:
        return
    await backend.env.clock.sleep(_FUTURE_WAIT_S)
    if asked > backend.store.revision:
        raise errors.future_version(asked, backend.store.revision)


def read_revision(call: Call) -> int:
    """
    Return the resourceVersion parameter, 0 when it is absent.

    Raises:
        StatusError: It is no number: 400 to a list, 500 to GET of an object and to a watch, as from a real server.
    """
    text = call.parameters.text("resourceVersion")
    try:
        return parse_unsigned(text) if text else 0
    except NumberError as error:
        complaint = f'resourceVersion: Invalid value: "{text}": {error}'
    if call.name or call.parameters.flag("watch"):
        raise StatusError(500, "", complaint)
    raise bad_request(f"invalid resource version: {complaint}")


def get_object(backend: Backend, call: Call) -> Item:
    """
    Return the newest version of the object that the URL names.

    Raises:
        StatusError: 404.
    """
    item = backend.collection(call.resource).get(call.key)
    if item is None:
        raise not_found(call.resource, call.name)
    return item


def check_request(call: Call) -> None:
    """
    Refuse a list that asks for what cannot be; that its version is unreadable is found out later.

    Raises:
        StatusError: 400 or 422.
    """
    for name in ("limit", "timeoutSeconds"):
        call.parameters.number(name)
    selection.parse(call)
    _check_options(call)


def list_objects(backend: Backend, call: Call) -> Page:
    """
    List a collection, or a page of it.

    Raises:
        StatusError: 400, 410 or 422.
    """
    limit = max(call.parameters.number("limit") or 0, 0)
    labels, fields = selection.parse(call)
    matches = selection.matcher(call.resource, call.namespace, labels, fields)
    token, version = tokens.read(call.parameters.text("continue")), call.parameters.text("resourceVersion")
    if token is not None and version not in {"", "0"}:
        raise bad_request("specifying resource version is not allowed when using continue")
    if token is None and version == "0":
        limit = 0
    revision = _exact_revision(call, token, limit) or backend.store.revision
    entries = _entries_at(backend, call, revision, token)
    if token is not None:
        start = _parse_key(token.start)
        entries = [(key, item) for key, item in entries if key > start]
    selective = bool(labels.requirements or fields.requirements)
    chosen = [(key, item) for key, item in entries if matches(item)] if selective else entries
    page = chosen[:limit] if limit else chosen
    rest = len(chosen) - len(page)
    if not rest:
        return Page([item for _, item in page], revision)
    last = page[-1][0]
    return Page([item for _, item in page], revision, tokens.write(revision, last), None if selective else rest)


def _entries_at(backend: Backend, call: Call, revision: int, token: tokens.Token | None) -> list[tuple[Key, Item]]:
    try:
        return backend.collection(call.resource).entries_at(revision, call.namespace)
    except Expired:
        if token is None:
            raise errors.expired(_TOO_OLD) from None
        meta = {"continue": tokens.encode(tokens.Token(token.v, -1, token.start))}
        raise errors.expired(_PAGE_TOO_OLD, list_meta=meta) from None


def _exact_revision(call: Call, token: tokens.Token | None, limit: int) -> int:
    """Return the only version that will do, 0 if the newest is fine."""
    if token is not None:
        return max(token.rv, 0)
    revision = read_revision(call)
    match = call.parameters.text("resourceVersionMatch")
    # A version and a limit without a match mean exactly that version: an old rule that paging clients rest on.
    return revision if match == "Exact" or (limit and not match) else 0


def _check_options(call: Call) -> None:
    parameters = call.parameters
    version, match = parameters.text("resourceVersion"), parameters.text("resourceVersionMatch")
    found = []
    if match and not version:
        detail = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        found.append(causes.forbidden("resourceVersionMatch", detail))
    if match and parameters.text("continue"):
        detail = "resourceVersionMatch is forbidden when continue is provided"
        found.append(causes.forbidden("resourceVersionMatch", detail))
    if match not in _MATCHES:
        found.append(causes.not_supported("resourceVersionMatch", match, _MATCHES))
    elif match == "Exact" and version == "0":
        detail = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        found.append(causes.forbidden("resourceVersionMatch", detail))
    if "sendInitialEvents" in parameters:
        found.append(causes.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if found:
        raise invalid_options("ListOptions", found)


def _parse_key(text: str) -> Key:
    namespace, _, name = text.partition("/")
    return Key(namespace, name)
