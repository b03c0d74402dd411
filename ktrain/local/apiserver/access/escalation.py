"""
Nobody gives away rights that they do not have: admission of roles and bindings.

Who writes a role must hold all that it grants, or may `escalate` it; who writes a binding must hold all that the role
grants, or may `bind` it. A role that gathers others could come to grant anything, so only those who may do everything
write it. Changes of finalizers and owners alone are free, or nobody could delete what they may not grant.

Source of the rules: the `policybased` storages of `pkg/registry/rbac`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api.meta import Key
from ktrain.local.apiserver import errors
from ktrain.local.apiserver.access.attributes import Attributes
from ktrain.local.apiserver.access.quoting import quote, quote_all
from ktrain.local.apiserver.access.rbac import GROUP, RoleMissing, together
from ktrain.local.apiserver.access.rules import Rule, uncovered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.meta import Json
    from ktrain.local.apiserver.access.gate import Gate
    from ktrain.local.apiserver.admission.chain import AdmissionRequest, AdmissionResponse

_ROLES: Final = frozenset({"roles", "clusterroles"})
_BINDINGS: Final = frozenset({"rolebindings", "clusterrolebindings"})
_FREE: Final = ("finalizers", "ownerReferences", "managedFields", "resourceVersion", "generation")
_EVERYTHING: Final = (Rule(("*",), ("*",), ("*",)), Rule(("*",), urls=("*",)))


class Escalation:
    """The admission plugin of one server."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def admit(self, request: AdmissionRequest) -> AdmissionResponse | None:
        """
        Refuse a role or binding that grants more than its writer holds.

        Raises:
            StatusError: 403; 404 for a binding to a role that nobody can know.
        """
        obj, resource = request.object, request.resource
        if resource.group != GROUP or obj is None or self._gate.is_unlimited(request.user):
            return None
        if request.old_object is not None and _without_free(obj) == _without_free(request.old_object):
            return None
        if resource.plural in _ROLES:
            self._check_role(request, obj)
        elif resource.plural in _BINDINGS:
            self._check_binding(request, obj)
        return None

    def _check_role(self, request: AdmissionRequest, role: Json) -> None:
        before = request.old_object or {}
        if role.get("aggregationRule") or before.get("aggregationRule"):
            held, _ = self._gate.rules_of(request.user, "")
            if uncovered(held, _EVERYTHING):
                detail = "must have cluster-admin privileges to use the aggregationRule"
                raise errors.forbidden(request.resource, request.name, detail)
        if not self._may(request, "escalate", request.resource.plural, request.name if before else ""):
            self._hold(request, list(map(Rule.of, role.get("rules") or ())))

    def _check_binding(self, request: AdmissionRequest, binding: Json) -> None:
        reference = binding["roleRef"]
        kind, name = reference["kind"], reference["name"]
        if self._may(request, "bind", "clusterroles" if kind == "ClusterRole" else "roles", name):
            return
        try:
            rules = self._gate.rbac.role(kind, Key("" if kind == "ClusterRole" else request.namespace, name))
        except RoleMissing:
            raise errors.not_found(request.resource, name) from None
        self._hold(request, rules)

    def _may(self, request: AdmissionRequest, verb: str, resource: str, name: str) -> bool:
        asked = Attributes(verb=verb, group=GROUP, resource=resource, namespace=request.namespace, name=name)
        return self._gate.decide(request.user, asked).allowed

    def _hold(self, request: AdmissionRequest, wanted: Sequence[Rule]) -> None:
        user = request.user
        held, gone = self._gate.rules_of(user, request.namespace)
        missing = sorted(map(str, uncovered(held, wanted)))
        if not missing:
            return
        rules = "\n".join(missing)
        detail = (
            f"user {quote(user.name)} (groups={quote_all(user.groups)}) is attempting to grant RBAC permissions "
            f"not currently held:\n{rules}"
        )
        if gone:
            # Upstream names them as if they were of the kind that is written.
            problems = together(f"{request.resource.qualified_name} {quote(role.name)} not found" for role in gone)
            detail += f"; resolution errors: [{problems}]"
        raise errors.forbidden(request.resource, request.name, detail)


def _without_free(obj: Json) -> Json:
    return {**obj, "metadata": {name: value for name, value in obj["metadata"].items() if name not in _FREE}}
