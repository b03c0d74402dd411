"""What CEL expressions ask about permissions: `authorizer.group("apps").resource("x").check("get").allowed()`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ktrain.api.schema.cel import CelError
from ktrain.api.schema.cel.library import FIELDS, function
from ktrain.api.schema.cel.values import KINDS
from ktrain.local.apiserver.access.attributes import Attributes
from ktrain.local.apiserver.access.rbac import Decision
from ktrain.local.apiserver.requests import User

if TYPE_CHECKING:
    from ktrain.local.apiserver.admission.chain import AdmissionRequest


Decide = Callable[[User, Attributes], Decision]
"""Whether somebody may do something, and why."""


@dataclass(frozen=True, slots=True)
class Authorizer:
    """The variable `authorizer`: asks for one user. `about` is what the request is about."""

    user: User
    decide: Decide
    about: Attributes

    def cel_field(self, name: str) -> ResourceCheck:
        """
        Return `authorizer.requestResource`: a question about what the request is about.

        Raises:
            CelError: It has no other field.
        """
        if name != "requestResource":
            raise CelError(f"no such key: {name}")
        return ResourceCheck(self, self.about)


@dataclass(frozen=True, slots=True)
class Check:
    """A question that is being put together."""

    authorizer: Authorizer
    asked: Attributes


class ResourceCheck(Check):
    """A question about a resource."""

    __slots__ = ()


class PathCheck(Check):
    """A question about a path."""

    __slots__ = ()


class GroupCheck(Check):
    """A question about a group, whose resource is not named yet."""

    __slots__ = ()


_KINDS: Final = {
    Authorizer: "kubernetes.authorization.Authorizer",
    PathCheck: "kubernetes.authorization.PathCheck",
    GroupCheck: "kubernetes.authorization.GroupCheck",
    ResourceCheck: "kubernetes.authorization.ResourceCheck",
    Decision: "kubernetes.authorization.Decision",
}
KINDS.update(_KINDS)
AUTHORIZER_TYPE: Final = (_KINDS[Authorizer],)
FIELDS[AUTHORIZER_TYPE[0]] = {"requestResource": (_KINDS[ResourceCheck],)}
_P: Final = "kubernetes.authorization."


def authorizer_of(request: AdmissionRequest, decide: Decide) -> Authorizer:
    """Return the authorizer that expressions about a request may ask."""
    resource = request.resource
    about = Attributes(
        verb="",
        group=resource.group,
        version=resource.version,
        resource=resource.plural,
        subresource=request.subresource,
        namespace=request.namespace if resource.namespaced else "",
        name=request.name,
    )
    return Authorizer(request.user, decide, about)


@function(f"{_P}Authorizer.path(string) -> {_P}PathCheck")
def _path(authorizer: Authorizer, path: str) -> PathCheck:
    return PathCheck(authorizer, Attributes(verb="", path=path))


@function(f"{_P}Authorizer.group(string) -> {_P}GroupCheck")
def _group(authorizer: Authorizer, group: str) -> GroupCheck:
    return GroupCheck(authorizer, Attributes(verb="", group=group, version="*"))


@function(f"{_P}Authorizer.serviceAccount(string, string) -> {_P}Authorizer")
def _service_account(authorizer: Authorizer, namespace: str, name: str) -> Authorizer:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return replace(authorizer, user=User(f"system:serviceaccount:{namespace}:{name}", groups))


@function(f"{_P}GroupCheck.resource(string) -> {_P}ResourceCheck")
def _resource(check: GroupCheck, resource: str) -> ResourceCheck:
    return ResourceCheck(check.authorizer, replace(check.asked, resource=resource))


@function(f"{_P}ResourceCheck.subresource(string) -> {_P}ResourceCheck")
def _subresource(check: ResourceCheck, subresource: str) -> ResourceCheck:
    return ResourceCheck(check.authorizer, replace(check.asked, subresource=subresource))


@function(f"{_P}ResourceCheck.namespace(string) -> {_P}ResourceCheck")
def _namespace(check: ResourceCheck, namespace: str) -> ResourceCheck:
    return ResourceCheck(check.authorizer, replace(check.asked, namespace=namespace))


@function(f"{_P}ResourceCheck.name(string) -> {_P}ResourceCheck")
def _name(check: ResourceCheck, name: str) -> ResourceCheck:
    return ResourceCheck(check.authorizer, replace(check.asked, name=name))


@function(f"{_P}ResourceCheck.check(string) -> {_P}Decision", f"{_P}PathCheck.check(string) -> {_P}Decision")
def _check(check: Check, verb: str) -> Decision:
    return check.authorizer.decide(check.authorizer.user, replace(check.asked, verb=verb))


@function(f"{_P}Decision.allowed() -> bool")
def _allowed(decision: Decision) -> bool:
    return decision.allowed


@function(f"{_P}Decision.reason() -> string")
def _reason(decision: Decision) -> str:
    return decision.reason


@function(f"{_P}Decision.errored() -> bool")
def _errored(_decision: Decision) -> bool:
    return False


@function(f"{_P}Decision.error() -> string")
def _error(_decision: Decision) -> str:
    return ""
