"""Validation of pods and pod templates: the rules whose violation a user meets, in the API server's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api import quantity
from ktrain.local.apiserver import causes, names
from ktrain.local.apiserver.builtins.pod_tolerations import validate_tolerations

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_MESSAGE_POLICIES: Final = ("File", "FallbackToLogsOnError")
_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc")
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
_PORT_TEXT: Final = "must be between 1 and 65535, inclusive"


def validate_pod_spec(spec: Json, field: str = "spec") -> list[Cause]:
    """Return what is wrong with the spec of a pod or template."""
    found: list[Cause] = []
    volumes = [volume.get("name", "") for volume in spec.get("volumes", ())]
    found += _validate_names(spec.get("volumes", ()), f"{field}.volumes")
    main = spec.get("containers") or []
    if not main:
        found.append(causes.required(f"{field}.containers"))
    seen: set[str] = set()
    for group in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(group) or ()):
            path = f"{field}.{group}[{index}]"
            found += _validate_container(container, path, volumes, init=group == "initContainers")
            name = container.get("name", "")
            if name and name in seen:
                found.append(causes.duplicate(f"{path}.name", name))
            seen.add(name)
    found += _validate_ephemeral(spec, f"{field}.ephemeralContainers", volumes, seen)
    found += _enumerated(spec, "restartPolicy", _RESTART_POLICIES, field)
    found += _enumerated(spec, "dnsPolicy", _DNS_POLICIES, field)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline < 2**31:
        detail = "must be between 1 and 2147483647, inclusive"
        found.append(causes.invalid(f"{field}.activeDeadlineSeconds", deadline, detail))
    found += validate_tolerations(spec.get("tolerations", ()), f"{field}.tolerations")
    for name in ("hostname", "subdomain"):
        if value := spec.get(name):
            found += [causes.invalid(f"{field}.{name}", value, text) for text in names.label(value)]
    for name in ("serviceAccountName", "nodeName"):
        if value := spec.get(name):
            found += [causes.invalid(f"{field}.{name}", value, text) for text in names.subdomain(value)]
    if value := spec.get("priorityClassName"):
        found += [causes.invalid(f"{field}.priorityClassName", value, text) for text in names.subdomain(value)]
    return found


def _validate_ephemeral(spec: Json, field: str, volumes: list[str], others: set[str]) -> Iterator[Cause]:
    """Yield what is wrong with containers to look around: they may use nothing that a pod's function could rest on."""
    names_so_far = set(others)
    for index, container in enumerate(spec.get("ephemeralContainers") or ()):
        path, name = f"{field}[{index}]", container.get("name", "")
        yield from _validate_container(container, path, volumes, init=False)
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


def _validate_names(items: Iterable[Json], field: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, item in enumerate(items):
        path, name = f"{field}[{index}].name", item.get("name", "")
        if not name:
            yield causes.required(path)
            continue
        if name in seen:
            yield causes.duplicate(path, name)
        seen.add(name)
        for text in names.label(name):
            yield causes.invalid(path, name, text)


def _validate_container(container: Json, field: str, volumes: list[str], *, init: bool) -> list[Cause]:
    found = list(_validate_name(container.get("name", ""), f"{field}.name"))
    if not container.get("image"):
        found.append(causes.required(f"{field}.image"))
    found += _enumerated(container, "imagePullPolicy", _PULL_POLICIES, field)
    found += _enumerated(container, "terminationMessagePolicy", _MESSAGE_POLICIES, field)
    found += _validate_ports(container.get("ports", ()), f"{field}.ports")
    found += _validate_env(container.get("env", ()), f"{field}.env")
    found += _validate_mounts(container.get("volumeMounts", ()), f"{field}.volumeMounts", volumes)
    found += _validate_resources(container.get("resources", {}), f"{field}.resources")
    policy = container.get("restartPolicy")
    if policy is not None and init and policy != "Always":
        found.append(causes.not_supported(f"{field}.restartPolicy", policy, ["Always"]))
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if probe in container:
            found += _validate_probe(container[probe], f"{field}.{probe}", readiness=probe == "readinessProbe")
    return found


def _validate_name(name: str, field: str) -> Iterator[Cause]:
    if not name:
        yield causes.required(field)
        return
    for text in names.label(name):
        yield causes.invalid(field, name, text)


def _validate_ports(ports: Iterable[Json], field: str) -> Iterator[Cause]:
    seen: set[str] = set()
    host: set[str] = set()
    for index, port in enumerate(ports):
        path = f"{field}[{index}]"
        number = port.get("containerPort", 0)
        if number == 0:
            yield causes.required(f"{path}.containerPort")
        elif not 1 <= number <= 65535:
            yield causes.invalid(f"{path}.containerPort", number, _PORT_TEXT)
        yield from _enumerated(port, "protocol", _PROTOCOLS, path)
        name = port.get("name")
        if name:
            for text in names.port(name):
                yield causes.invalid(f"{path}.name", name, text)
            if name in seen:
                yield causes.duplicate(f"{path}.name", name)
            seen.add(name)
        if on_host := port.get("hostPort"):
            place = f"{port.get('protocol', 'TCP')}/{port.get('hostIP', '')}/{on_host}"
            if not 1 <= on_host <= 65535:
                yield causes.invalid(f"{path}.hostPort", on_host, _PORT_TEXT)
            elif place in host:
                yield causes.duplicate(f"{path}.hostPort", place)
            host.add(place)


def _validate_env(variables: Iterable[Json], field: str) -> Iterator[Cause]:
    for index, variable in enumerate(variables):
        name = variable.get("name", "")
        if not name:
            yield causes.required(f"{field}[{index}].name")
        elif "=" in name:
            detail = "a valid environment variable name must consist only of printable ASCII characters other than '='"
            yield causes.invalid(f"{field}[{index}].name", name, detail)
        source = variable.get("valueFrom")
        if source is not None and variable.get("value"):
            yield causes.invalid(f"{field}[{index}].valueFrom", "", "may not be specified when `value` is not empty")
        elif source is not None and not source:
            detail = (
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
            )
            yield causes.invalid(f"{field}[{index}].valueFrom", "", detail)


def _validate_mounts(mounts: Iterable[Json], field: str, volumes: list[str]) -> Iterator[Cause]:
    paths: set[str] = set()
    for index, mount in enumerate(mounts):
        name, path = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            yield causes.required(f"{field}[{index}].name")
        elif name not in volumes:
            yield causes.missing_reference(f"{field}[{index}].name", name)
        if not path:
            yield causes.required(f"{field}[{index}].mountPath")
        elif path in paths:
            yield causes.invalid(f"{field}[{index}].mountPath", path, "must be unique")
        paths.add(path)
        for text in names.descending_path(mount.get("subPath", "")):
            # Upstream leaves the index out.
            yield causes.invalid(f"{field}.subPath", mount["subPath"], text)
        if mount.get("subPathExpr"):
            if mount.get("subPath"):
                detail = "subPathExpr and subPath are mutually exclusive"
                yield causes.invalid(f"{field}[{index}].subPathExpr", mount["subPathExpr"], detail)
            for text in names.descending_path(mount["subPathExpr"]):
                yield causes.invalid(f"{field}.subPathExpr", mount["subPathExpr"], text)


def _validate_resources(resources: Json, field: str) -> Iterator[Cause]:
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    amounts = {}
    for part, listed in (("limits", limits), ("requests", requests)):
        for name, amount in listed.items():
            try:
                value = amounts[part, name] = quantity.parse(amount)
            except ValueError:
                yield causes.invalid(f"{field}.{part}[{name}]", amount, "must be a valid quantity")
                continue
            if value < 0:
                yield causes.invalid(f"{field}.{part}[{name}]", amount, "must be greater than or equal to 0")
    if any(_is_extended(name) and name not in limits for name in requests):
        yield causes.required(f"{field}.limits", "Limit must be set for non overcommitable resources")
    for name, amount in requests.items():
        if ("limits", name) in amounts and ("requests", name) in amounts:
            limit, request = amounts["limits", name], amounts["requests", name]
            if request > limit:
                detail = f"must be less than or equal to {name} limit of {limits[name]}"
                yield causes.invalid(f"{field}.requests", amount, detail)
            elif request != limit and _is_extended(name):
                yield causes.invalid(f"{field}.requests", amount, f"must be equal to {name} limit of {limits[name]}")


def _is_extended(name: str) -> bool:
    """Whether a resource is one that a node offers besides Kubernetes' own; of those there is no overcommitment."""
    return "/" in name and not name.startswith("kubernetes.io/")


def _validate_probe(probe: Json, field: str, *, readiness: bool) -> Iterator[Cause]:
    given = [name for name in _HANDLERS if name in probe]
    if not given:
        yield causes.required(field, "must specify a handler type")
    elif len(given) > 1:
        yield causes.forbidden(f"{field}.{given[1]}", "may not specify more than 1 handler type")
    for name in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"):
        yield from causes.non_negative(f"{field}.{name}", probe.get(name))
    if not readiness and probe.get("successThreshold", 1) != 1:
        yield causes.invalid(f"{field}.successThreshold", probe["successThreshold"], "must be 1")


def _enumerated(obj: Json, name: str, supported: tuple[str, ...], field: str) -> list[Cause]:
    value = obj.get(name)
    if value is None or value in supported:
        return []
    return [causes.not_supported(f"{field}.{name}", value, supported)]
