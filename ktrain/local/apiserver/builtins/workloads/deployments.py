"""
Deployments, ReplicaSets, StatefulSets and DaemonSets: stored, defaulted, validated, scaled, and run by nobody here.

Charts install them and controllers own or scale them; this server has no controller that would make their pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes, names
from ktrain.local.apiserver.builtins.pods.warnings import warn_of_template
from ktrain.local.apiserver.builtins.values import percentages
from ktrain.local.apiserver.builtins.volumes.claim_specs import default_claim, validate_claim_spec
from ktrain.local.apiserver.builtins.workloads.templates import (
    default_template,
    validate_selected_template,
    warn_of_name,
)
from ktrain.local.apiserver.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause
    from ktrain.local.apiserver.backend import Backend

_SET_UPDATE_TEXT: Final = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
_TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"
"""What was a field before `apps/v1`, which keeps it here."""
_SET_MUTABLE: Final = frozenset(
    {
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    }
)


class ReplicaSetStrategy(Strategy):
    """ReplicaSets, and what the others share with them."""

    kind: str = "ReplicaSet"
    names_pods: bool = True
    """Whether the server warns of names that do not do for pods."""
    counts: tuple[str, ...] = ("replicas", "minReadySeconds")
    new_status: Json = {"replicas": 0}
    status_counts: tuple[str, ...] = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")

    def default(self, obj: Json) -> None:
        """Fill in the spec and its template."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("replicas", 1)
        default_template(spec)
        obj["status"] = {**self.new_status, **obj.get("status", {})}

    def prepare_create(self, obj: Json, backend: Backend) -> None:
        """Start with nothing running; typed encoding writes some of the zeros."""
        obj["status"] = dict(self.new_status)

    def validate(self, obj: Json) -> Sequence[Cause]:
        """Check counts, selector, template and strategy."""
        spec = obj.get("spec") or {}
        found = [cause for name in self.counts for cause in causes.non_negative(f"spec.{name}", spec.get(name))]
        return [*found, *validate_selected_template(spec, "spec", self.kind), *self.validate_strategy(spec)]

    def warn(self, obj: Json) -> Sequence[str]:
        """Warn of the template, and of a name that pods cannot have."""
        named = warn_of_name(obj) if self.names_pods else []
        return [*named, *warn_of_template(obj["spec"].get("template") or {}, "spec.template")]

    def validate_strategy(self, spec: Json) -> Iterator[Cause]:
        """Yield what is wrong with how pods are replaced."""
        yield from ()

    def validate_update(self, obj: Json, old: Json) -> Sequence[Cause]:
        """The selector stays: it says which pods are whose."""
        selector = obj["spec"].get("selector")
        same = selector == (old.get("spec") or {}).get("selector")
        return () if same else [causes.invalid("spec.selector", selector, causes.IMMUTABLE)]

    def validate_status(self, obj: Json, old: Json) -> Sequence[Cause]:
        """Counts are not negative, and none is more than all."""
        status = obj.get("status") or {}
        total = status.get("replicas", 0)
        found = causes.non_negative("status.replicas", total)
        for name in self.status_counts:
            count = status.get(name, 0)
            found += causes.non_negative(f"status.{name}", count)
            if count > total:
                found.append(causes.invalid(f"status.{name}", count, "cannot be greater than status.replicas"))
        return found


class DeploymentStrategy(ReplicaSetStrategy):
    """Deployments."""

    kind = "Deployment"
    kept_by_status = ("labels",)
    counts = ("replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
    new_status: Json = {}
    status_counts = ("updatedReplicas", "readyReplicas", "availableReplicas")

    def default(self, obj: Json) -> None:
        """Fill in the spec, its template and the strategy."""
        super().default(obj)
        spec = obj["spec"]
        strategy = spec.setdefault("strategy", {})
        if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", "25%")
            rolling.setdefault("maxSurge", "25%")
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("progressDeadlineSeconds", 600)

    def spec_changed(self, obj: Json, old: Json) -> bool:
        """Annotations count: they go on to the replica sets."""
        annotations = (obj["metadata"].get("annotations"), old["metadata"].get("annotations"))
        return annotations[0] != annotations[1] or super().spec_changed(obj, old)

    def validate_strategy(self, spec: Json) -> Iterator[Cause]:
        """Yield what is wrong with how pods are replaced."""
        strategy, field = spec.get("strategy") or {}, "spec.strategy"
        rolling = strategy.get("rollingUpdate")
        if strategy.get("type") == "Recreate":
            if rolling is not None:
                yield causes.forbidden(
                    f"{field}.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'"
                )
        elif strategy.get("type") == "RollingUpdate":
            yield from _validate_rolling(rolling or {}, f"{field}.rollingUpdate")
        else:
            yield causes.not_supported(field, _internal(strategy), ["Recreate", "RollingUpdate"])
        deadline, ready = spec.get("progressDeadlineSeconds"), spec.get("minReadySeconds", 0)
        if deadline is not None and deadline <= ready:
            yield causes.invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


class StatefulSetStrategy(ReplicaSetStrategy):
    """StatefulSets."""

    kind = "StatefulSet"
    names_pods = False
    new_status: Json = {"replicas": 0, "availableReplicas": 0}
    empty: Json = {"spec": {"serviceName": ""}}
    status_counts = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")

    def check_name(self, name: str, *, prefix: bool = False) -> list[str]:
        """The names of pods are made of it."""
        return names.label(name, prefix=prefix)

    def default(self, obj: Json) -> None:
        """Fill in the spec, its template, its claims and the strategy."""
        super().default(obj)
        spec = obj["spec"]
        spec.setdefault("podManagementPolicy", "OrderedReady")
        strategy = spec.setdefault("updateStrategy", {})
        if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
            strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)
        spec.setdefault("serviceName", "")
        if "ordinals" in spec:
            spec["ordinals"].setdefault("start", 0)
        spec.setdefault("revisionHistoryLimit", 10)
        retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
        retention.setdefault("whenDeleted", "Retain")
        retention.setdefault("whenScaled", "Retain")
        for claim in spec.get("volumeClaimTemplates", ()):
            claim |= {"kind": "PersistentVolumeClaim", "apiVersion": "v1"}
            default_claim(claim)
            claim["status"] = {"phase": "Pending"}

    def validate_strategy(self, spec: Json) -> Iterator[Cause]:
        """Yield what is wrong with how pods are made and replaced."""
        if (policy := spec.get("podManagementPolicy")) not in {"OrderedReady", "Parallel"}:
            yield causes.invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'")
        strategy = spec.get("updateStrategy") or {}
        rolling = strategy.get("rollingUpdate")
        if strategy.get("type") not in {"RollingUpdate", "OnDelete"}:
            yield causes.invalid("spec.updateStrategy", _internal(strategy), "must be 'RollingUpdate' or 'OnDelete'")
        elif strategy["type"] == "OnDelete" and rolling is not None:
            detail = "only allowed for updateStrategy 'RollingUpdate'"
            yield causes.invalid("spec.updateStrategy.rollingUpdate", rolling, detail)
        elif rolling:
            yield from causes.non_negative("spec.updateStrategy.rollingUpdate.partition", rolling.get("partition"))
        for name, value in (spec.get("persistentVolumeClaimRetentionPolicy") or {}).items():
            if value not in {"Retain", "Delete"}:
                field = f"spec.persistentVolumeClaimRetentionPolicy.{name}"
                yield causes.not_supported(field, value, ["Retain", "Delete"])
        yield from causes.non_negative("spec.ordinals.start", (spec.get("ordinals") or {}).get("start"))

    def prepare_create(self, obj: Json, backend: Backend) -> None:
        """Start with nothing running."""
        super().prepare_create(obj, backend)
        _drop_unavailable(obj)

    def prepare_update(self, obj: Json, old: Json, backend: Backend) -> None:
        """Drop what a feature would allow that is off."""
        super().prepare_update(obj, old, backend)
        _drop_unavailable(obj)

    def validate_create(self, obj: Json) -> Sequence[Cause]:
        """Check what cannot change later."""
        spec = obj.get("spec") or {}
        service, found = spec.get("serviceName"), []
        if service:
            found += [causes.invalid("spec.serviceName", service, text) for text in names.label(service)]
        for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
            found += validate_claim_spec(claim.get("spec") or {}, f"spec.volumeClaimTemplates[{index}].spec")
        return found

    def warn(self, obj: Json) -> Sequence[str]:
        """Warn of the template, and of a history that never ends."""
        found = list(super().warn(obj))
        if (obj["spec"].get("revisionHistoryLimit") or 0) < 0:
            detail = "a negative value retains all historical revisions; a value >= 0 is recommended"
            found.append(f"spec.revisionHistoryLimit: {detail}")
        return found

    def validate(self, obj: Json) -> Sequence[Cause]:
        """Check all; the claims count as volumes of the template."""
        spec = dict(obj.get("spec") or {})
        claimed = dict.fromkeys((c.get("metadata") or {}).get("name", "") for c in spec.get("volumeClaimTemplates", ()))
        claims: list[Json] = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claimed]
        template = dict(spec.get("template") or {})
        pod = dict(template.get("spec") or {})
        pod["volumes"] = [*claims, *(v for v in pod.get("volumes", ()) if v.get("name") not in claimed)]
        return super().validate({**obj, "spec": {**spec, "template": {**template, "spec": pod}}})

    def validate_update(self, obj: Json, old: Json) -> Sequence[Cause]:
        """Only some of it may change."""
        spec, before = obj["spec"], old["spec"]
        changed = {name for name in spec.keys() | before.keys() if spec.get(name) != before.get(name)}
        return [causes.forbidden("spec", _SET_UPDATE_TEXT)] if changed - _SET_MUTABLE else ()


class DaemonSetStrategy(ReplicaSetStrategy):
    """DaemonSets."""

    kind = "DaemonSet"
    names_pods = False
    counts = ("minReadySeconds", "revisionHistoryLimit")
    new_status: Json = {
        "currentNumberScheduled": 0,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 0,
        "numberReady": 0,
    }
    status_counts = ()

    def default(self, obj: Json) -> None:
        """Fill in the spec, its template and the strategy."""
        spec = obj.setdefault("spec", {})
        default_template(spec)
        obj["status"] = {**self.new_status, **obj.get("status", {})}
        strategy = spec.setdefault("updateStrategy", {})
        if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", 1)
            rolling.setdefault("maxSurge", 0)
        elif (rolling := strategy.get("rollingUpdate")) is not None:
            rolling.setdefault("maxUnavailable", 0)
            rolling.setdefault("maxSurge", 0)
        spec.setdefault("revisionHistoryLimit", 10)
        _set_generation(obj, _generation(obj))

    def prepare_create(self, obj: Json, backend: Backend) -> None:
        """Count the first template."""
        super().prepare_create(obj, backend)
        _set_generation(obj, max(_generation(obj), 1))

    def prepare_update(self, obj: Json, old: Json, backend: Backend) -> None:
        """Count the templates."""
        before = _generation(old)
        same = obj["spec"]["template"] == old["spec"]["template"]
        _set_generation(obj, before if same else before + 1)

    def validate_strategy(self, spec: Json) -> Iterator[Cause]:
        """Yield what is wrong with how pods are replaced."""
        strategy, field = spec.get("updateStrategy") or {}, "spec.updateStrategy.rollingUpdate"
        if strategy.get("type") not in {"RollingUpdate", "OnDelete"}:
            yield causes.not_supported("spec.updateStrategy", _internal(strategy), ["RollingUpdate", "OnDelete"])
        if strategy.get("type") != "RollingUpdate":
            return
        rolling = strategy.get("rollingUpdate") or {}
        unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
        yield from percentages.validate(unavailable, f"{field}.maxUnavailable")
        yield from percentages.validate(surge, f"{field}.maxSurge")
        if percentages.amount(unavailable) and percentages.amount(surge):
            yield causes.invalid(f"{field}.maxSurge", surge, "may not be set when maxUnavailable is non-zero")
        elif not percentages.amount(unavailable) and not percentages.amount(surge):
            yield causes.required(f"{field}.maxUnavailable", "cannot be 0 when maxSurge is 0")


def _drop_unavailable(obj: Json) -> None:
    """Leave out how many pods may be away at once: a feature of StatefulSets that is off by default."""
    rolling = obj["spec"]["updateStrategy"].get("rollingUpdate")
    if rolling is not None:
        rolling.pop("maxUnavailable", None)


def _generation(obj: Json) -> int:
    text = obj["metadata"].get("annotations", {}).get(_TEMPLATE_GENERATION, "")
    return int(text) if text.isascii() and text.isdigit() else 0


def _set_generation(obj: Json, count: int) -> None:
    meta = obj["metadata"]
    meta["annotations"] = {**meta.get("annotations", {}), _TEMPLATE_GENERATION: str(count)}


def _internal(strategy: Json) -> Json:
    """Return a strategy as the server's messages print it: with Go's names."""
    return {"Type": strategy.get("type", ""), "RollingUpdate": strategy.get("rollingUpdate")}


def _validate_rolling(rolling: Json, field: str) -> Iterator[Cause]:
    unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    yield from percentages.validate(unavailable, f"{field}.maxUnavailable")
    yield from percentages.validate(surge, f"{field}.maxSurge", limited=False)
    if not percentages.amount(unavailable) and not percentages.amount(surge):
        yield causes.invalid(f"{field}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0")
