"""Kinds that are little more than storage: accounts, RBAC, classes, nodes, configurations of admission."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes, names
from ktrain.local.apiserver.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

_HIGHEST_USER_PRIORITY: Final = 1_000_000_000
_SYSTEM_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
RBAC_GROUP: Final = "rbac.authorization.k8s.io"


class PlainStrategy(Strategy):
    """Kinds without a generation that PUT may create."""

    has_generation = False
    create_on_update = True


class AccountStrategy(Strategy):
    """ServiceAccounts."""

    has_generation = False
    answers_deleted_object = True


class NodeStrategy(Strategy):
    """Nodes."""

    has_generation = False


class RoleStrategy(PlainStrategy):
    """Roles and ClusterRoles."""

    def check_name(self, name: str, *, prefix: bool = False) -> list[str]:
        """RBAC names may hold colons and capitals."""
        return names.path_segment(name, prefix=prefix)

    def default(self, obj: Json) -> None:
        """Rules are always written, also when there are none."""
        obj.setdefault("rules", None)

    def validate(self, obj: Json) -> Sequence[Cause]:
        """Every rule has verbs, and is about resources or URLs."""
        found = []
        for index, rule in enumerate(obj.get("rules") or ()):
            field = f"rules[{index}]"
            if not rule.get("verbs"):
                found.append(causes.required(f"{field}.verbs", "verbs must contain at least one value"))
            if rule.get("nonResourceURLs"):
                continue
            if not rule.get("apiGroups"):
                found.append(causes.required(f"{field}.apiGroups", "resource rules must supply at least one api group"))
            if not rule.get("resources"):
                found.append(causes.required(f"{field}.resources", "resource rules must supply at least one resource"))
        return found


class BindingStrategy(PlainStrategy):
    """RoleBindings and ClusterRoleBindings."""

    def check_name(self, name: str, *, prefix: bool = False) -> list[str]:
        """RBAC names may hold colons and capitals."""
        return names.path_segment(name, prefix=prefix)

    def default(self, obj: Json) -> None:
        """Fill in API groups."""
        reference = obj.get("roleRef")
        if isinstance(reference, dict) and not reference.get("apiGroup"):
            reference["apiGroup"] = RBAC_GROUP
        for subject in obj.get("subjects") or ():
            if subject.get("kind") in {"User", "Group"}:
                subject.setdefault("apiGroup", RBAC_GROUP)

    def validate(self, obj: Json) -> Sequence[Cause]:
        """Check the reference and the subjects."""
        reference = obj.get("roleRef") or {}
        found = []
        if reference.get("kind") not in {"Role", "ClusterRole"}:
            found.append(causes.not_supported("roleRef.kind", reference.get("kind", ""), ["Role", "ClusterRole"]))
        if not reference.get("name"):
            found.append(causes.required("roleRef.name"))
        for index, subject in enumerate(obj.get("subjects") or ()):
            if not subject.get("name"):
                found.append(causes.required(f"subjects[{index}].name"))
            if subject.get("kind") == "ServiceAccount" and not subject.get("namespace"):
                found.append(causes.required(f"subjects[{index}].namespace"))
        return found

    def validate_update(self, obj: Json, old: Json) -> Sequence[Cause]:
        """What a binding grants stays; whom it grants it to may change."""
        if obj.get("roleRef") == old.get("roleRef"):
            return ()
        return [causes.invalid("roleRef", obj.get("roleRef"), "cannot change roleRef")]


class PriorityClassStrategy(Strategy):
    """PriorityClasses."""

    def default(self, obj: Json) -> None:
        """Fill in preemption."""
        obj.setdefault("preemptionPolicy", "PreemptLowerPriority")
        obj.setdefault("value", 0)

    def validate(self, obj: Json) -> Sequence[Cause]:
        """High values and `system-` names are the system's."""
        name, value = obj["metadata"].get("name", ""), obj.get("value", 0)
        if name.startswith("system-"):
            if _SYSTEM_PRIORITIES.get(name) == value:
                return ()
            detail = "priority class names with 'system-' prefix are reserved for system use only"
            return [causes.forbidden("metadata.name", detail)]
        if value > _HIGHEST_USER_PRIORITY:
            detail = f"maximum allowed value of a user defined priority is {_HIGHEST_USER_PRIORITY}"
            return [causes.forbidden("value", detail)]
        return ()

    def validate_update(self, obj: Json, old: Json) -> Sequence[Cause]:
        """Pods carry the value, so it stays."""
        found = []
        if obj.get("value") != old.get("value"):
            found.append(causes.forbidden("value", "may not be changed in an update."))
        if obj.get("preemptionPolicy") != old.get("preemptionPolicy"):
            policy = obj.get("preemptionPolicy")
            found.append(causes.invalid("preemptionPolicy", policy, causes.IMMUTABLE))
        return found


class RuntimeClassStrategy(PlainStrategy):
    """RuntimeClasses."""

    def validate(self, obj: Json) -> Sequence[Cause]:
        """The handler is a label."""
        handler = obj.get("handler", "")
        return [causes.invalid("handler", handler, text) for text in names.label(handler)]

    def validate_update(self, obj: Json, old: Json) -> Sequence[Cause]:
        """The handler stays."""
        if obj.get("handler") == old.get("handler"):
            return ()
        return [causes.invalid("handler", obj.get("handler"), causes.IMMUTABLE)]
