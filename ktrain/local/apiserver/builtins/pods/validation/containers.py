"""
Containers of every sort: main ones, those that run before or beside them, and those to look around.

Each part of a container has a module; which parts a container may have depends on its sort.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes, names
from ktrain.local.apiserver.builtins.pods.validation.choices import enumerated
from ktrain.local.apiserver.builtins.pods.validation.container_security import (
    validate_container_security,
    validate_for_system,
)
from ktrain.local.apiserver.builtins.pods.validation.context import PodContext
from ktrain.local.apiserver.builtins.pods.validation.devices import validate_devices
from ktrain.local.apiserver.builtins.pods.validation.env import validate_env, validate_env_from
from ktrain.local.apiserver.builtins.pods.validation.handlers import validate_lifecycle
from ktrain.local.apiserver.builtins.pods.validation.mounts import validate_mounts
from ktrain.local.apiserver.builtins.pods.validation.ports import validate_host_ports, validate_ports
from ktrain.local.apiserver.builtins.pods.validation.probes import PROBES, validate_probes
from ktrain.local.apiserver.builtins.pods.validation.resources import validate_resources
from ktrain.local.apiserver.builtins.pods.validation.restarts import (
    validate_init_resize,
    validate_resize,
    validate_restarts,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES: Final = ("File", "FallbackToLogsOnError")
_NOT_EPHEMERAL: Final = (
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
)
_NOT_EPHEMERAL_TEXT: Final = "cannot be set for an Ephemeral Container"
_NOT_INIT_TEXT: Final = "may not be set for init containers without restartPolicy=Always"
_PADDED_TEXT: Final = "must not have leading or trailing whitespace"
_GROUPS: Final = ("initContainers", "containers", "ephemeralContainers")


def validate_containers(spec: Json, field: str, volumes: Mapping[str, Json]) -> Iterator[Cause]:
    """Yield what is wrong with all containers in the spec of a pod or template, of whose volumes these are sound."""
    pod = PodContext.of(spec, volumes)
    main = f"{field}.containers"
    if not spec.get("containers"):
        yield causes.required(main)
    names_so_far: set[str] = set()
    for path, container in _listed(spec, field, "containers"):
        yield from _validate_common(container, path, pod)
        yield from _validate_unique(container, path, names_so_far)
        yield from _validate_life(container, path, pod)
        yield from validate_restarts(container, path, init=False)
    host_network = spec.get("hostNetwork", False)
    yield from validate_host_ports(_listed(spec, field, "containers"), host_network=host_network)
    for path, container in _listed(spec, field, "initContainers"):
        yield from _validate_common(container, path, pod)
        yield from _validate_unique(container, path, names_so_far)
        yield from _validate_init(container, path, pod)
        # They run one by one, so only their own ports conflict. Upstream tells of the first, whichever it is.
        yield from validate_host_ports([(f"{field}.initContainers[0]", container)], host_network=False)
    yield from _validate_ephemeral(spec, field, pod, names_so_far)
    yield from _validate_on_system(spec, field)


def validate_images(spec: Json, field: str = "spec") -> Iterator[Cause]:
    """Yield what is wrong with the images of a pod; templates may hold what somebody fills in later."""
    for group in ("containers", "initContainers"):
        for path, container in _listed(spec, field, group):
            yield from _validate_image(container, path)


def validate_template_containers(spec: Json, field: str) -> Iterator[Cause]:
    """Yield what is wrong with the containers of a template besides: none are there to look around."""
    if spec.get("ephemeralContainers"):
        yield causes.forbidden(f"{field}.ephemeralContainers", "ephemeral containers not allowed in pod template")


def _validate_common(container: Json, field: str, pod: PodContext) -> Iterator[Cause]:
    """Yield what is wrong with a container of any sort."""
    if name := container.get("name"):
        for text in names.label(name):
            yield causes.invalid(f"{field}.name", name, text)
    else:
        yield causes.required(f"{field}.name")
    if not container.get("image"):
        yield causes.required(f"{field}.image")
    yield from enumerated(container, "imagePullPolicy", _PULL_POLICIES, field)
    yield from enumerated(container, "terminationMessagePolicy", _MESSAGE_POLICIES, field)
    yield from validate_ports(container.get("ports", ()), f"{field}.ports")
    yield from validate_env(container.get("env", ()), f"{field}.env", pod.volumes)
    yield from validate_env_from(container.get("envFrom", ()), f"{field}.envFrom")
    if "volumeMounts" in container:
        yield from validate_mounts(container, f"{field}.volumeMounts", pod.volumes)
    if "volumeDevices" in container:
        yield from validate_devices(container, f"{field}.volumeDevices", pod.volumes)
        if not pod.host_users:
            yield causes.forbidden(f"{field}.volumeDevices", "when `hostUsers` is false")
    yield from validate_resources(container.get("resources", {}), f"{field}.resources", pod.claims)
    yield from validate_resize(container.get("resizePolicy", ()), f"{field}.resizePolicy", pod.restart_policy)
    if context := container.get("securityContext"):
        yield from validate_container_security(context, f"{field}.securityContext", host_users=pod.host_users)


def _validate_unique(container: Json, field: str, names_so_far: set[str]) -> Iterator[Cause]:
    name = container.get("name", "")
    if name in names_so_far:
        yield causes.duplicate(f"{field}.name", name)
    names_so_far.add(name)


def _validate_life(container: Json, field: str, pod: PodContext) -> Iterator[Cause]:
    """Yield what is wrong with how a container that is meant to stay is looked after."""
    if "lifecycle" in container:
        yield from validate_lifecycle(container["lifecycle"], f"{field}.lifecycle", pod.grace_s)
    yield from validate_probes(container, field, pod.grace_s)


def _validate_init(container: Json, field: str, pod: PodContext) -> Iterator[Cause]:
    yield from validate_restarts(container, field, init=True)
    if container.get("restartPolicy") == "Always":
        yield from _validate_life(container, field, pod)
        return
    for name in ("lifecycle", *PROBES):
        if name in container:
            yield causes.forbidden(f"{field}.{name}", _NOT_INIT_TEXT)
    yield from validate_init_resize(container, field)


def _validate_ephemeral(spec: Json, field: str, pod: PodContext, others: set[str]) -> Iterator[Cause]:
    """Yield what is wrong with containers to look around: they may use nothing that a pod's function could rest on."""
    names_so_far = set(others)
    for path, container in _listed(spec, field, "ephemeralContainers"):
        yield from _validate_common(container, path, pod)
        yield from _validate_image(container, path)
        yield from _validate_unique(container, path, names_so_far)
        target = container.get("targetContainerName")
        if target and target not in others:
            yield causes.missing_reference(f"{path}.targetContainerName", target)
        for denied in _NOT_EPHEMERAL:
            # No resources are set everywhere, by default.
            if denied in container and (container[denied] or denied != "resources"):
                yield causes.forbidden(f"{path}.{denied}", _NOT_EPHEMERAL_TEXT)
        for number, mount in enumerate(container.get("volumeMounts") or ()):
            for denied in ("subPath", "subPathExpr"):
                if mount.get(denied):
                    yield causes.forbidden(f"{path}.volumeMounts[{number}].{denied}", _NOT_EPHEMERAL_TEXT)


def _validate_image(container: Json, field: str) -> Iterator[Cause]:
    image = container.get("image", "")
    if image != image.strip():
        yield causes.invalid(f"{field}.image", image, _PADDED_TEXT)


def _validate_on_system(spec: Json, field: str) -> Iterator[Cause]:
    if system := spec.get("os", {}).get("name"):
        for group in _GROUPS:
            for path, container in _listed(spec, field, group):
                context = container.get("securityContext", {})
                yield from validate_for_system(context, f"{path}.securityContext", system)


def _listed(spec: Json, field: str, group: str) -> Iterator[tuple[str, Json]]:
    """Yield containers with the fields that they are at."""
    for index, container in enumerate(spec.get(group) or ()):
        yield f"{field}.{group}[{index}]", container
