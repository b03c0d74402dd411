"""Kinds that are little more than storage: accounts, classes, nodes, configurations of admission."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes, names
from ktrain.local.apiserver.builtins.pods.validation.resources import validate_resources
from ktrain.local.apiserver.builtins.pods.validation.tolerations import validate_tolerations
from ktrain.local.apiserver.builtins.values.amounts import canonicalise
from ktrain.local.apiserver.builtins.values.selectors import validate_labels
from ktrain.local.apiserver.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

_MOUNTABLE: Final = "kubernetes.io/enforce-mountable-secrets"
_HIGHEST_USER_PRIORITY: Final = 1_000_000_000
_SYSTEM_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_PREEMPTIONS: Final = ("PreemptLowerPriority", "Never")


class PlainStrategy(Strategy):
    """Kinds without a generation that PUT may create."""

    has_generation = False
    create_on_update = True


class AccountStrategy(Strategy):
    """ServiceAccounts."""

    has_generation = False
    answers_deleted_object = True

    def warn(self, obj: Json) -> Sequence[str]:
        """Say what is deprecated."""
        if _MOUNTABLE not in (obj["metadata"].get("annotations") or {}):
            return ()
        advice = "prefer separate namespaces to isolate access to mounted secrets"
        return [f"metadata.annotations[{_MOUNTABLE}]: deprecated in v1.32+; {advice}"]


class PriorityClassStrategy(Strategy):
    """PriorityClasses."""

    empty: Json = {"value": 0}

    def default(self, obj: Json) -> None:
        """Fill in preemption."""
        obj.setdefault("preemptionPolicy", "PreemptLowerPriority")
        obj.setdefault("value", 0)

    def spec_changed(self, obj: Json, old: Json) -> bool:
        """Nobody looks at a class's generation."""
        return False

    def validate_create(self, obj: Json) -> Sequence[Cause]:
        """High values and `system-` names are the system's."""
        name, value = obj["metadata"].get("name", ""), obj.get("value", 0)
        if name.startswith("system-"):
            if _SYSTEM_PRIORITIES.get(name) == value:
                return ()
            known = _SYSTEM_PRIORITIES.get(name)
            problem = f"value of {name} PriorityClass must be {known}"
            if known is None:
                problem = f"{name} is not a known system priority class"
            detail = f"priority class names with 'system-' prefix are reserved for system use only. error: {problem}"
            return [causes.forbidden("metadata.name", detail)]
        if value > _HIGHEST_USER_PRIORITY:
            detail = f"maximum allowed value of a user defined priority is {_HIGHEST_USER_PRIORITY}"
            return [causes.forbidden("value", detail)]
        policy = obj.get("preemptionPolicy")
        if not policy:
            return [causes.required("preemptionPolicy")]
        if policy not in _PREEMPTIONS:
            return [causes.not_supported("preemptionPolicy", policy, _PREEMPTIONS)]
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

    unconditional_update = False
    qualified_finalizers = False

    def default(self, obj: Json) -> None:
        """Write amounts canonically; here they may be finer than a thousandth."""
        fixed = (obj.get("overhead") or {}).get("podFixed") or {}
        canonicalise(fixed, *fixed)

    def validate(self, obj: Json) -> Sequence[Cause]:
        """The handler is a label."""
        handler = obj.get("handler", "")
        found = [causes.invalid("handler", handler, text) for text in names.label(handler)]
        if not handler:
            found = [causes.required("handler")]
        if fixed := (obj.get("overhead") or {}).get("podFixed"):
            found += validate_resources({"limits": fixed}, "overhead", ())
        scheduling = obj.get("scheduling") or {}
        found += validate_labels(scheduling.get("nodeSelector"), "scheduling.nodeSelector")
        tolerations = scheduling.get("tolerations") or []
        found += validate_tolerations(tolerations, "scheduling.tolerations")
        for index, toleration in enumerate(tolerations):
            if toleration in tolerations[:index]:
                found.append(causes.duplicate(f"scheduling.tolerations[{index}]", toleration))
        return found

    def validate_update(self, obj: Json, old: Json) -> Sequence[Cause]:
        """The handler stays."""
        if obj.get("handler") == old.get("handler"):
            return ()
        return [causes.invalid("handler", obj.get("handler", ""), causes.IMMUTABLE)]
