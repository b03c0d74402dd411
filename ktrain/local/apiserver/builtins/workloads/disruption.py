"""PodDisruptionBudgets: how many pods may go. `evictions` keeps to them, and the disruption controller counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes, names
from ktrain.local.apiserver.builtins.values import percentages
from ktrain.local.apiserver.builtins.values.selectors import validate_selector
from ktrain.local.apiserver.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause
    from ktrain.local.apiserver.backend import Backend

_POLICIES: Final = ("AlwaysAllow", "IfHealthyBudget")
COUNTS: Final = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


class BudgetStrategy(Strategy):
    """PodDisruptionBudgets."""

    unconditional_update = False
    qualified_finalizers = False

    def check_name(self, name: str, *, prefix: bool = False) -> list[str]:
        """Anything that fits into a URL."""
        return names.path_segment(name, prefix=prefix)

    def default(self, obj: Json) -> None:
        """Write the counts that typed clients always send."""
        obj["status"] = {**dict.fromkeys(COUNTS, 0), **obj.get("status", {})}

    def prepare_create(self, obj: Json, backend: Backend) -> None:
        """Start with nothing counted: nothing may be evicted yet."""
        obj["status"] = dict.fromkeys(COUNTS, 0)

    def validate(self, obj: Json) -> Sequence[Cause]:
        """Check the two bounds and the selector."""
        spec = obj.get("spec") or {}
        found: list[Cause] = []
        if "minAvailable" in spec and "maxUnavailable" in spec:
            found.append(causes.invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set"))
        for name in ("minAvailable", "maxUnavailable"):
            if name in spec:
                found += percentages.validate(spec[name], f"spec.{name}")
        found += validate_selector(spec.get("selector"), "spec.selector")
        policy = spec.get("unhealthyPodEvictionPolicy")
        if policy is not None and policy not in _POLICIES:
            found.append(causes.not_supported("spec.unhealthyPodEvictionPolicy", policy, _POLICIES))
        return found

    def validate_status(self, obj: Json, old: Json) -> Sequence[Cause]:
        """Counts are not negative."""
        status = obj.get("status") or {}
        return [cause for name in COUNTS for cause in causes.non_negative(f"status.{name}", status.get(name))]


def is_healthy(pod: Json) -> bool:
    """Whether a pod counts: it is ready."""
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def set_condition(budget: Json, now: str) -> None:
    """Say in the status whether an eviction is allowed."""
    status = budget["status"]
    allowed = status["disruptionsAllowed"] > 0
    conditions = status.get("conditions", [])
    old: Json = next((one for one in conditions if one["type"] == "DisruptionAllowed"), {})
    state = "True" if allowed else "False"
    condition = {
        "type": "DisruptionAllowed",
        "status": state,
        "observedGeneration": status.get("observedGeneration", 0),
        "lastTransitionTime": old["lastTransitionTime"] if old.get("status") == state else now,
        "reason": "SufficientPods" if allowed else "InsufficientPods",
        "message": "",
    }
    status["conditions"] = [*(one for one in conditions if one["type"] != "DisruptionAllowed"), condition]
