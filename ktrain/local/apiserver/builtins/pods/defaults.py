"""
Defaults of pods and pod templates (`k8s.io/api` v1 defaulting), filled into an object in place.

Idempotent: it runs before and after mutating admission and on every update.
"""

from __future__ import annotations

import math
from contextlib import suppress
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from ktrain.api import quantity
from ktrain.local.apiserver.builtins.pods.images import pull_policy

if TYPE_CHECKING:
    from ktrain.api.meta import Json

_CONTAINER_FIELDS: Final = ("initContainers", "containers", "ephemeralContainers")
_DEFAULT_MODE: Final = 420
_MODE_VOLUMES: Final = ("secret", "configMap", "downwardAPI", "projected")


def default_pod_spec(spec: Json, *, requests: bool) -> None:
    """Fill in a pod's or template's spec; only a pod gets requests from its limits, and ports of its host."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("securityContext", {})
    if requests and spec.get("hostNetwork"):
        for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
            for port in container.get("ports", ()):
                if "containerPort" in port:
                    port.setdefault("hostPort", port["containerPort"])
    # The old name of serviceAccountName is still written, for readers that know only it.
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for volume in spec.get("volumes", ()):
        _default_volume(volume)
    for field in _CONTAINER_FIELDS:
        for container in spec.get(field, ()):
            _default_container(container, requests=requests)
    if "overhead" in spec:
        _canonicalise(spec["overhead"])


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
    with suppress(ValueError):  # validation names the field
        ref["divisor"] = quantity.canonical(ref["divisor"])


def _default_http(action: Json) -> None:
    action.setdefault("path", "/")
    action.setdefault("scheme", "HTTP")
    for header in action.get("httpHeaders", ()):
        header.setdefault("value", "")


def _default_volume(volume: Json) -> None:
    for kind in _MODE_VOLUMES:
        if isinstance(volume.get(kind), dict):
            volume[kind].setdefault("defaultMode", _DEFAULT_MODE)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    for source in volume.get("projected", {}).get("sources", ()):
        if "serviceAccountToken" in source:
            source["serviceAccountToken"].setdefault("expirationSeconds", 3600)
        for item in source.get("downwardAPI", {}).get("items", ()):
            if "fieldRef" in item:
                item["fieldRef"].setdefault("apiVersion", "v1")
    for item in volume.get("downwardAPI", {}).get("items", ()):
        if "fieldRef" in item:
            item["fieldRef"].setdefault("apiVersion", "v1")
    if not set(volume) - {"name"}:
        volume["emptyDir"] = {}
    limit = volume.get("emptyDir", {}).get("sizeLimit")
    if limit is not None:
        _canonicalise(volume["emptyDir"])


def _canonicalise(amounts: Json) -> None:
    """Write amounts as the server stores them: nothing finer than a thousandth, away from zero."""
    for name, amount in amounts.items():
        if isinstance(amount, str | int | float) and name != "medium":
            try:
                value = quantity.parse(amount)
                thousandths = math.ceil(abs(value) * 1000) * (1 if value > 0 else -1)
                amounts[name] = quantity.format_quantity(Fraction(thousandths, 1000), like=amount)
            except ValueError:
                continue  # validation names the field
