"""
What a request does, in the words that rights are given in: a verb on a resource, or a method on a path.

Read from method and URL alone, before anything is known to exist, so that a refusal tells nothing about what does.
Source of the rules: `k8s.io/apiserver` request info; the `watch` and `proxy` prefixes are read although nothing is
served there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from ktrain.api.selectors import FieldSelector, SelectorError
from ktrain.local.apiserver import names
from ktrain.local.apiserver.access.quoting import quote
from ktrain.local.apiserver.errors import StatusError
from ktrain.local.apiserver.requests import Parameters

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.local.apiserver.requests import Request

_VERBS: Final = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_PREFIX_VERBS: Final = frozenset({"proxy", "watch"})
_OF_NAMESPACES: Final = frozenset({"status", "finalize"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """`path` is set for what is no resource, and then nothing but it and the verb."""

    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str | None = None

    @property
    def whole_resource(self) -> str:
        """The resource with its subresource, as rules name it."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def attributes_of(request: Request) -> Attributes:
    """Read what a request does. Never fails: whatever is no resource is a path."""
    path = unquote(request.path)
    parts = path.strip("/").split("/")
    if len(parts) < 3 or parts[0] not in {"api", "apis"}:
        return _of_path(request, path)
    group = ""
    if parts.pop(0) == "apis":
        if len(parts) < 3:
            return _of_path(request, path)
        group = parts.pop(0)
    version = parts.pop(0)
    verb = _VERBS.get(request.method, "")
    if parts[0] in _PREFIX_VERBS:
        if len(parts) < 2:
            return _of_path(request, path)
        verb = parts.pop(0)
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
        if len(parts) > 2 and parts[2] not in _OF_NAMESPACES:
            parts = parts[2:]
    resource, name, subresource = (*parts[:3], "", "")[:3]
    if not name:
        verb, name = _of_collection(request, verb)
    return Attributes(
        verb=verb,
        group=group,
        version=version,
        resource=resource,
        subresource="" if verb == "proxy" else subresource,
        namespace=namespace,
        name=name,
    )


def refusal(user: str, attributes: Attributes, reason: str = "") -> StatusError:
    """Return the 403 for a user who may not do this; `reason` says more than that."""
    because = f": {reason}" if reason else ""
    if attributes.path is not None:
        message = f"forbidden: User {quote(user)} cannot {attributes.verb} path {quote(attributes.path)}{because}"
        return StatusError(403, "Forbidden", message, details={})
    qualified = f"{attributes.resource}.{attributes.group}" if attributes.group else attributes.resource
    named = f"{qualified} {quote(attributes.name)}" if attributes.name else qualified
    where = f"in the namespace {quote(attributes.namespace)}" if attributes.namespace else "at the cluster scope"
    message = (
        f"{named} is forbidden: User {quote(user)} cannot {attributes.verb} resource "
        f"{quote(attributes.whole_resource)} in API group {quote(attributes.group)} {where}{because}"
    )
    details: Json = {"name": attributes.name} if attributes.name else {}
    if attributes.group:
        details["group"] = attributes.group
    details["kind"] = attributes.resource
    return StatusError(403, "Forbidden", message, details=details)


def _of_path(request: Request, path: str) -> Attributes:
    return Attributes(verb=request.method.lower(), path=path)


def _of_collection(request: Request, verb: str) -> tuple[str, str]:
    """Return the verb on a collection, and the one name that a list or watch is restricted to, if any."""
    if verb == "delete":
        return "deletecollection", ""
    if verb != "get":
        return verb, ""
    parameters = Parameters(request.query)
    return "watch" if parameters.flag("watch") else "list", _selected_name(parameters.text("fieldSelector"))


def _selected_name(selector: str) -> str:
    if "metadata.name" not in selector:
        return ""
    try:
        requirements = FieldSelector.parse(selector).requirements
    except SelectorError:
        return ""
    named = next((one.value for one in requirements if one.field == "metadata.name" and one.equal), "")
    return "" if names.path_segment(named) else named
