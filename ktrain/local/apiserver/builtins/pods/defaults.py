"""
Defaults of pods and pod templates (`k8s.io/api` v1 defaulting), filled into an object in place.

Idempotent: it runs before and after mutating admission and on every update.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from ktrain.api import quantity
from ktrain.local.apiserver.builtins.pods.images import pull_policy
from ktrain.local.apiserver.builtins.pods.shares import default_shares
from ktrain.local.apiserver.builtins.pods.volume_defaults import default_volume
from ktrain.local.apiserver.builtins.values.amounts import canonicalise

if TYPE_CHECKING:
    from ktrain.api.meta import Json

_FILLED: Final = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
}
_CONTAINER_FIELDS: Final = ("initContainers", "containers", "ephemeralContainers")


def default_pod_spec(spec: Json, *, requests: bool) -> None:
    """Fill in a pod's or template's spec; only a pod gets requests from its limits, and ports of its host."""
    for name, value in _FILLED.items():
        spec.setdefault(name, value)
    spec.setdefault("securityContext", {})
    if requests and spec.get("hostNetwork"):
        _default_host_ports(spec)
    # The old name of serviceAccountName is still written, for readers that know only it.
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for volume in spec.get("volumes", ()):
        default_volume(volume)
    for field in _CONTAINER_FIELDS:
        for container in spec.get(field, ()):
            _default_container(container, requests=requests and field != "ephemeralContainers")
    _write_empties(spec)
    if "overhead" in spec:
        _canonicalise(spec["overhead"])
    if "resources" in spec:
        for part in ("limits", "requests"):
            _canonicalise(spec["resources"].get(part, {}))
        if requests:
            default_shares(spec)


def _default_host_ports(spec: Json) -> None:
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        for port in container.get("ports", ()):
            if "containerPort" in port:
                port.setdefault("hostPort", port["containerPort"])


def _write_empties(spec: Json) -> None:
    """Write what typed clients always send."""
    for sysctl in spec["securityContext"].get("sysctls", ()):
        sysctl.setdefault("value", "")
    affinity = spec.get("affinity", {}).get("nodeAffinity", {})
    for weighted in affinity.get("preferredDuringSchedulingIgnoredDuringExecution", ()):
        weighted.setdefault("preference", {})


def containers(spec: Json) -> list[Json]:
    """Return all containers of a pod, the init containers first."""
    return [container for field in _CONTAINER_FIELDS for container in spec.get(field, ())]


def _default_container(container: Json, *, requests: bool) -> None:
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", pull_policy(container.get("image", "")))
    resources = container.setdefault("resources", {})
    for part in ("limits", "requests"):
        if isinstance(resources.get(part), dict):
            _canonicalise(resources[part])
    if requests and resources.get("limits"):
        resources["requests"] = {**resources["limits"], **resources.get("requests", {})}
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")
    for variable in container.get("env", ()):
        source = variable.get("valueFrom", {})
        if "fieldRef" in source:
            source["fieldRef"].setdefault("apiVersion", "v1")
        if "resourceFieldRef" in source:
            _default_divisor(source["resourceFieldRef"])
        if "fileKeyRef" in source:
            source["fileKeyRef"].setdefault("optional", False)
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if probe in container:
            _default_probe(container[probe])
    if "lifecycle" in container:
        _default_lifecycle(container)


def _default_probe(probe: Json) -> None:
    probe.setdefault("timeoutSeconds", 1)
    probe.setdefault("periodSeconds", 10)
    probe.setdefault("successThreshold", 1)
    probe.setdefault("failureThreshold", 3)
    if "httpGet" in probe:
        _default_http(probe["httpGet"])
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")


def _default_lifecycle(container: Json) -> None:
    lifecycle = container["lifecycle"]
    # Stop signals are an alpha feature: without its gate nobody reads the field, and the server forgets it.
    if lifecycle.pop("stopSignal", None) is not None and not lifecycle:
        del container["lifecycle"]
    for hook in lifecycle.values():
        if "httpGet" in hook:
            _default_http(hook["httpGet"])
        if "sleep" in hook:
            hook["sleep"].setdefault("seconds", 0)


def _default_divisor(ref: Json) -> None:
    ref.setdefault("divisor", "0")
    canonicalise(ref, "divisor")


def _default_http(action: Json) -> None:
    action.setdefault("path", "/")
    action.setdefault("scheme", "HTTP")
    for header in action.get("httpHeaders", ()):
        header.setdefault("value", "")


def _canonicalise(amounts: Json) -> None:
    for name, amount in amounts.items():
        if isinstance(amount, str | int | float):
            with suppress(ValueError):  # validation names the field
                amounts[name] = quantity.canonical_amount(amount)
