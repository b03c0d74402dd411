"""Nodes: their taints, address ranges and capacity, in the API server's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api import quantity
from ktrain.api.selectors import label_key_errors, label_value_errors
from ktrain.local.apiserver import causes
from ktrain.local.apiserver.builtins.values.addresses import read_network, validate_network
from ktrain.local.apiserver.builtins.values.amounts import canonicalise
from ktrain.local.apiserver.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause
    from ktrain.local.apiserver.backend import Backend

NOT_READY: Final = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_WHOLE: Final = frozenset({"pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps"})
_INFO: Final = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)
_UNTIMED: Final = ("lastHeartbeatTime", "lastTransitionTime")


class NodeStrategy(Strategy):
    """Nodes. A new one takes no pods until it is ready (`controllers.nodes`)."""

    has_generation = False
    status_on_create = True

    def default(self, obj: Json) -> None:
        """Keep the first address range and all of them in step; write what typed encoding always does."""
        spec, status = obj.setdefault("spec", {}), obj.setdefault("status", {})
        first, ranges = spec.get("podCIDR"), spec.get("podCIDRs")
        if first and (not ranges or ranges[0] != first):
            spec["podCIDRs"] = [first]
        elif ranges and not first:
            spec["podCIDR"] = ranges[0]
        canonicalise(status.get("capacity") or {})
        if status.get("capacity") and "allocatable" not in status:
            status["allocatable"] = dict(status["capacity"])
        canonicalise(status.get("allocatable") or {})
        status.setdefault("daemonEndpoints", {}).setdefault("kubeletEndpoint", {}).setdefault("Port", 0)
        status["nodeInfo"] = {**dict.fromkeys(_INFO, ""), **status.get("nodeInfo", {})}
        for condition in status.get("conditions") or ():
            for name in _UNTIMED:
                condition.setdefault(name, None)

    def admit(self, obj: Json, old: Json | None, backend: Backend) -> None:
        """Say that a new node is not ready: until somebody knows better, no pod shall come."""
        spec = obj.setdefault("spec", {})
        taints = spec.get("taints") or []
        if old is None and not any(is_not_ready(taint) for taint in taints):
            spec["taints"] = [*taints, dict(NOT_READY)]

    def prepare_create(self, obj: Json, backend: Backend) -> None:
        """Drop what kubelets no longer read."""
        self.default(obj)  # an apply that creates brings no status
        obj["spec"].pop("configSource", None)
        obj["status"].pop("config", None)

    def prepare_update(self, obj: Json, old: Json, backend: Backend) -> None:
        """Drop what kubelets no longer read."""
        obj["spec"].pop("configSource", None)

    def validate(self, obj: Json) -> Sequence[Cause]:
        """Check taints, ranges and amounts."""
        spec = obj["spec"]
        return [*_validate_taints(spec.get("taints") or ()), *_validate_ranges(spec.get("podCIDRs") or [])]

    def validate_create(self, obj: Json) -> Sequence[Cause]:
        """Check what a kubelet says of itself when it comes."""
        return list(_validate_status(obj["status"]))

    def validate_update(self, obj: Json, old: Json) -> Sequence[Cause]:
        """What a node is does not change; it may be said later."""
        spec, before = obj["spec"], old["spec"]
        found = []
        for name, shown in (("podCIDRs", "podCIDR"), ("providerID", "providerID")):
            if before.get(name) and spec.get(name) != before[name]:
                detail = f'node updates may not change {shown} except from "" to valid'
                found.append(causes.forbidden(f"spec.{name}", detail))
        if spec.get("externalID", "") != before.get("externalID", ""):
            found.append(causes.forbidden("spec.externalID", "may not be updated"))
        return found

    def validate_status(self, obj: Json, old: Json) -> Sequence[Cause]:
        """Check what a kubelet says of itself."""
        status = obj.get("status") or {}
        return [*_validate_addresses(status), *_validate_status(status)]

    def warn(self, obj: Json) -> Sequence[str]:
        """Say what nobody reads."""
        if obj["spec"].get("externalID"):
            return ["spec.externalID: this field is deprecated, and is unused by Kubernetes"]
        return ()


def is_not_ready(taint: Json) -> bool:
    """Whether this is the taint that a new node gets."""
    return all(taint.get(name) == value for name, value in NOT_READY.items())


def _validate_taints(taints: Sequence[Json]) -> Iterator[Cause]:
    seen = set()
    for index, taint in enumerate(taints):
        # Not where the taints are: it is upstream's text.
        field = f"metadata.taints[{index}]"
        key, value, effect = (taint.get(name, "") for name in ("key", "value", "effect"))
        yield from (causes.invalid(f"{field}.key", key, text) for text in label_key_errors(key))
        yield from (causes.invalid(f"{field}.value", value, text) for text in label_value_errors(value))
        if not effect:
            yield causes.required(f"{field}.effect")
        elif effect not in _EFFECTS:
            yield causes.not_supported(f"{field}.effect", effect, _EFFECTS)
        if (key, effect) in seen:
            duplicate = causes.duplicate(field, taint)
            yield duplicate._replace(message=f"{duplicate.message}: taints must be unique by key and effect pair")
        seen.add((key, effect))


def _validate_ranges(ranges: list[str]) -> Iterator[Cause]:
    for index, text in enumerate(ranges):
        yield from validate_network(text, f"spec.podCIDRs[{index}]")
    versions = [network.version for network in map(read_network, ranges) if network is not None]
    if len(ranges) > 2 or len(set(versions)) < len(versions):
        yield causes.invalid("spec.podCIDRs", ranges, "may specify no more than one CIDR for each IP family")


def _validate_addresses(status: Json) -> Iterator[Cause]:
    addresses: list[Json] = status.get("addresses") or []
    for index, address in enumerate(addresses):
        if address in addresses[:index]:
            yield causes.duplicate(f"status.addresses[{index}]", address)


def _validate_status(status: Json) -> Iterator[Cause]:
    for part in ("capacity", "allocatable"):
        for name, size in (status.get(part) or {}).items():
            amount = quantity.parse(size)
            if amount < 0:
                detail = "must be greater than or equal to 0"
                yield causes.invalid(f"status.{part}.{name}", str(size), detail)
            if (name in _WHOLE or _is_extended(name)) and amount.denominator != 1:
                yield causes.invalid(f"status.{part}.{name}", str(size), "must be an integer")


def _is_extended(name: str) -> bool:
    return "/" in name and "kubernetes.io/" not in name
