"""
The rights that parts of an operator need, declared beside the code that uses them.

A `Rule` is one rule of a role (rbac.authorization.k8s.io/v1, PolicyRule). A `Right` adds where it has to hold, so that
the same declarations make a ClusterRole for a whole cluster, or Roles in some namespaces.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from .meta import Json, Resource

WATCHED: Final = ("list", "watch")
"""The verbs of a rule for what is only looked up."""
BUILT: Final = ("get", *WATCHED, "create", "patch")
"""The verbs of a rule for what is built."""

Scope = Literal["cluster", "watched", "own"]
"""
- `cluster`: kinds without a namespace, or all namespaces at once; only a ClusterRole can allow it
- `watched`: the namespaces that the operator watches, which may be all
- `own`: the operator's namespace
"""


@dataclass(frozen=True, slots=True)
class Rule:
    """
    What a role has to allow; one rule of a ClusterRole.

    A kind that is watched wants `list` and `watch`, one that is built also `get`, `create` and `patch`.
    """

    api_groups: tuple[str, ...]
    resources: tuple[str, ...]
    """Plurals; `trainjobs/status` for a subresource."""
    verbs: tuple[str, ...]
    resource_names: tuple[str, ...] = ()
    """
    Only the objects of these names; empty: all. `create` cannot be limited so; `list` and `watch` can if a request has
    a field selector by the name.
    """
    reason: str = ""
    """What it is for, a few words for the administrator who reads the role."""

    @property
    def document(self) -> Json:
        """The rule as it stands in a role."""
        rule: Json = {
            "apiGroups": list(self.api_groups),
            "resources": list(self.resources),
            "verbs": list(self.verbs),
        }
        return {**rule, "resourceNames": list(self.resource_names)} if self.resource_names else rule


@dataclass(frozen=True, slots=True)
class Right:
    """A rule, where it has to hold, and for which feature of the operator; empty: always."""

    scope: Scope
    rule: Rule
    feature: str = ""

    def for_feature(self, feature: str) -> Right:
        """Return the right as one that only this feature needs."""
        return replace(self, feature=feature)


# `Any`: any kind.
def right(
    scope: Scope,
    resource: Resource[Any],
    *verbs: str,
    reason: str,
    subresource: str = "",
    names: tuple[str, ...] = (),
) -> Right:
    """Return a right to one kind, or to a subresource of it; with *names* only to these objects."""
    plural = f"{resource.plural}/{subresource}" if subresource else resource.plural
    return Right(scope, Rule((resource.group,), (plural,), verbs, names, reason))
