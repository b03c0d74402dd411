"""Containers of every sort, in the API server's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes, names
from ktrain.local.apiserver.builtins.pods.validation.choices import enumerated
from ktrain.local.apiserver.builtins.pods.validation.env import validate_env
from ktrain.local.apiserver.builtins.pods.validation.mounts import validate_mounts
from ktrain.local.apiserver.builtins.pods.validation.ports import validate_ports
from ktrain.local.apiserver.builtins.pods.validation.probes import validate_probe
from ktrain.local.apiserver.builtins.pods.validation.resources import validate_resources

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES: Final = ("File", "FallbackToLogsOnError")
_NOT_EPHEMERAL: Final = (
    "ports",
    "resources",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
    "resizePolicy",
    "restartPolicy",
)
_NOT_EPHEMERAL_TEXT: Final = "cannot be set for an Ephemeral Container"


def validate_container(container: Json, field: str, volumes: list[str], *, init: bool) -> list[Cause]:
    """Return what is wrong with a container, whose mounts may name `volumes`."""
    found = list(_validate_name(container.get("name", ""), f"{field}.name"))
    if not container.get("image"):
        found.append(causes.required(f"{field}.image"))
    found += enumerated(container, "imagePullPolicy", _PULL_POLICIES, field)
    found += enumerated(container, "terminationMessagePolicy", _MESSAGE_POLICIES, field)
    found += validate_ports(container.get("ports", ()), f"{field}.ports")
    found += validate_env(container.get("env", ()), f"{field}.env")
    found += validate_mounts(container.get("volumeMounts", ()), f"{field}.volumeMounts", volumes)
    found += validate_resources(container.get("resources", {}), f"{field}.resources")
    policy = container.get("restartPolicy")
    if policy is not None and init and policy != "Always":
        found.append(causes.not_supported(f"{field}.restartPolicy", policy, ["Always"]))
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if probe in container:
            found += validate_probe(container[probe], f"{field}.{probe}", readiness=probe == "readinessProbe")
    return found


def validate_ephemeral(spec: Json, field: str, volumes: list[str], others: set[str]) -> Iterator[Cause]:
    """Yield what is wrong with containers to look around: they may use nothing that a pod's function could rest on."""
    names_so_far = set(others)
    for index, container in enumerate(spec.get("ephemeralContainers") or ()):
        path, name = f"{field}[{index}]", container.get("name", "")
        yield from validate_container(container, path, volumes, init=False)
        if name in names_so_far:
            yield causes.duplicate(f"{path}.name", name)
        names_so_far.add(name)
        target = container.get("targetContainerName")
        if target and target not in others:
            yield causes.missing_reference(f"{path}.targetContainerName", target)
        for denied in _NOT_EPHEMERAL:
            if container.get(denied):
                yield causes.forbidden(f"{path}.{denied}", _NOT_EPHEMERAL_TEXT)
        for number, mount in enumerate(container.get("volumeMounts") or ()):
            for denied in ("subPath", "subPathExpr"):
                if mount.get(denied):
                    yield causes.forbidden(f"{path}.volumeMounts[{number}].{denied}", _NOT_EPHEMERAL_TEXT)


def _validate_name(name: str, field: str) -> Iterator[Cause]:
    if not name:
        yield causes.required(field)
        return
    for text in names.label(name):
        yield causes.invalid(field, name, text)
