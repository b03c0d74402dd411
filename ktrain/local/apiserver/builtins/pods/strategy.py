"""Pods: what the server sets, what may change, how long a deleted pod stays."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from ktrain.api import quantity
from ktrain.api.meta import format_time
from ktrain.local.apiserver.builtins.pods import parts
from ktrain.local.apiserver.builtins.pods.admission import admit_pod, check_overhead, tolerate_failing_nodes
from ktrain.local.apiserver.builtins.pods.changes import validate_change
from ktrain.local.apiserver.builtins.pods.defaults import default_pod_spec
from ktrain.local.apiserver.builtins.pods.matching import merge_label_keys
from ktrain.local.apiserver.builtins.pods.profiles import fill_in_apparmor
from ktrain.local.apiserver.builtins.pods.validation import validate_kept, validate_new_pod, validate_pod
from ktrain.local.apiserver.builtins.pods.warnings import warn_of_pod
from ktrain.local.apiserver.builtins.quotas import limits
from ktrain.local.apiserver.strategy import Part, Strategy

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause
    from ktrain.local.apiserver.backend import Backend
    from ktrain.local.apiserver.registry import ServedResource

_GRACE: Final = "terminationGracePeriodSeconds"
_FINISHED: Final = frozenset({"Succeeded", "Failed"})
_RATED: Final = frozenset({"cpu", "memory"})
"""The resources that a pod's class of service is about."""


def _validate_resize(obj: Json, old: Json) -> Iterable[Cause]:
    return parts.validate_resize(obj, old, quality_class(obj["spec"]))


_PARTS: Final = {
    "ephemeralcontainers": Part(parts.with_ephemeral, parts.validate_ephemeral),
    "resize": Part(parts.with_resources, _validate_resize),
}


class PodStrategy(Strategy):
    """Pods."""

    parts = _PARTS

    answers_deleted_object = True
    shows_deletion = True
    kept_by_status = ("ownerReferences",)

    def default(self, obj: Json) -> None:
        """Fill in pod defaults."""
        spec = obj.setdefault("spec", {})
        if spec.get(_GRACE, 0) < 0:
            # As upstream has it: whoever writes a negative one is in a hurry, but gets a moment.
            spec[_GRACE] = 1
        default_pod_spec(spec, requests=True)
        spec.setdefault("enableServiceLinks", True)
        status = obj.get("status", {})
        if status.get("podIPs") and not status.get("podIP"):
            status["podIP"] = status["podIPs"][0].get("ip", "")
        elif status.get("podIP") and not status.get("podIPs"):
            status["podIPs"] = [{"ip": status["podIP"]}]
        for condition in obj.get("status", {}).get("conditions") or ():
            # Typed clients always send these two.
            condition.setdefault("lastProbeTime", None)
            condition.setdefault("lastTransitionTime", None)

    def admit(self, obj: Json, old: Json | None, backend: Backend) -> None:
        """Fill in what a new pod does not say; refuse classes that do not exist."""
        if old is None:
            admit_pod(obj, backend)
        else:
            tolerate_failing_nodes(obj)

    def judge(self, resource: ServedResource, obj: Json, old: Json | None, backend: Backend) -> None:
        """Hold new pods to the limits of their namespace, and to the costs of their runtime."""
        if old is None:
            check_overhead(obj, backend)
            limits.check(resource, obj, backend)

    def prepare_create(self, obj: Json, backend: Backend) -> None:
        """Start in Pending; gated pods say so."""
        spec = obj["spec"]
        obj["status"] = {"phase": "Pending", "qosClass": quality_class(spec)}
        if spec.get("schedulingGates"):
            condition = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "lastProbeTime": None}
            condition["lastTransitionTime"] = format_time(backend.now())
            message = "Scheduling is blocked due to non-empty scheduling gates"
            obj["status"]["conditions"] = [{**condition, "message": message}]
        merge_label_keys(obj)
        fill_in_apparmor(obj)

    def validate(self, obj: Json) -> Sequence[Cause]:
        """Check the spec, and what annotations say."""
        return validate_pod(obj)

    def validate_create(self, obj: Json) -> Sequence[Cause]:
        """Containers to look around come later, and so does the node of a gated pod."""
        return list(validate_new_pod(obj))

    def validate_update(self, obj: Json, old: Json) -> Sequence[Cause]:
        """Only images, deadlines, added tolerations, removed gates and a gated pod's constraints may change."""
        annotations, before = obj["metadata"].get("annotations", {}), old["metadata"].get("annotations", {})
        return [*validate_kept(annotations, before), *validate_change(obj["spec"], old["spec"])]

    def warn(self, obj: Json) -> Sequence[str]:
        """Warn of a new pod; people seldom change one."""
        return warn_of_pod(obj) if obj["metadata"].get("generation") == 1 else ()

    def grace_seconds(self, obj: Json, asked: int | None) -> int:
        """Nobody has to end a pod that was never started or has finished."""
        if not obj["spec"].get("nodeName") or obj.get("status", {}).get("phase") in _FINISHED:
            return 0
        grace: int = obj["spec"].get(_GRACE, 30) if asked is None else asked
        return grace if grace >= 0 else 1


def quality_class(spec: Json) -> str:
    """
    Return the quality-of-service class of a pod.

    It is guaranteed what it asks for if that is all that it may use, of cpu and of memory; what it says of itself as a
    whole counts instead of what its containers say. Nothing at all is as good as nothing said.
    """
    own = spec.get("resources")
    asking = [own] if own is not None else [one.get("resources", {}) for one in _lasting(spec)]
    requests, limits = _added_up(asking, "requests"), _added_up(asking, "limits")
    if not requests and not limits:
        return "BestEffort"
    bounded = all(len(_added_up([one], "limits")) == len(_RATED) for one in asking)
    return "Guaranteed" if bounded and requests == limits else "Burstable"


def _lasting(spec: Json) -> list[Json]:
    """Return the containers that a pod is made of."""
    return [*spec.get("containers", ()), *spec.get("initContainers", ())]


def _added_up(asking: Iterable[Json], part: str) -> dict[str, Fraction]:
    """Return the amounts that make a class: more than nothing, and readable (what is not, validation refuses)."""
    total: dict[str, Fraction] = {}
    for resources in asking:
        for name in _RATED & (listed := resources.get(part, {})).keys():
            with suppress(ValueError):
                if (amount := quantity.parse(listed[name])) > 0:
                    total[name] = total.get(name, Fraction()) + amount
    return total
