"""
A container's variables, command and arguments: pure functions of the pod, the objects it refers to, and the machine.

The rules are those of the kubelet (https://kubernetes.io/docs/tasks/inject-data-application/): `envFrom` entries in
order, then `env` in order, later wins; `$(NAME)` sees what came before it in this container and nothing else; values
that come from elsewhere are never expanded. Below them lies what an image would have given: here the few variables of
the caller that let its programs run. It is an allow-list, because a rank that inherits RANK, PET_* or KUBECONFIG of an
outer job does the wrong thing without saying so.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from ktrain.api import quantity
from ktrain.local.sandbox.executor import StartError

from .spec import ConfigMap, Container, EnvFromSource, EnvVarSource, Pod, Secret

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import PurePath

    from .service_address import ServiceAddress
    from .volume_spec import KeySelector, ResourceSelector, ServiceAccountToken

V = TypeVar("V")

_PROXIES: Final = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"})
_INHERITED: Final = _PROXIES | {"NO_PROXY", "no_proxy", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ"}
_INHERITED_PROGRAMS: Final = frozenset({"VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"})
_INHERITED_PREFIXES: Final = ("LC_", "SSL_CERT_", "CUDA_", "NVIDIA_")
_DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_REFERENCE: Final = re.compile(r"\$(?:(\$)|\(([^)]*)\))")
_MAP_ENTRY: Final = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]", re.DOTALL)

_INITIALIZERS: Final = {"dataset-initializer": "dataset", "model-initializer": "model"}
"""Images whose programs ktrain has, by name without registry and tag: Kubeflow's, and its own of the same name."""


class ConfigError(Exception):
    """The container cannot be configured; the kubelet reports CreateContainerConfigError and tries again."""


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What is known of a pod only on its node."""

    node_name: str
    host_ip: str
    pod_ip: str
    allocatable: Mapping[str, str]
    """Quantities of the node; they stand in for limits that are not set."""


@dataclass(frozen=True, slots=True)
class Sources:
    """The ConfigMaps and Secrets a pod refers to, by name. A name that is absent does not exist."""

    config_maps: Mapping[str, ConfigMap] = field(default_factory=dict)
    secrets: Mapping[str, Secret] = field(default_factory=dict)
    tokens: Mapping[ServiceAccountToken, str] = field(default_factory=dict)


def base_environment(environ: Mapping[str, str], interpreter: PurePath) -> dict[str, str]:
    """Choose what containers inherit from the caller; the interpreter's directory comes first in PATH."""
    names = _INHERITED | _INHERITED_PROGRAMS | {name for name in environ if name.startswith(_INHERITED_PREFIXES)}
    kept = {name: value for name, value in environ.items() if name in names - {"CUDA_VISIBLE_DEVICES"}}
    programs = str(interpreter.parent)
    others = [part for part in environ.get("PATH", _DEFAULT_PATH).split(":") if part and part != programs]
    return kept | {"PATH": ":".join([programs, *others]), "PYTHONUNBUFFERED": "1"}


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$(NAME)` by its value; an unknown name stays as it is, `$$` stands for one `$`."""

    def replacement(match: re.Match[str]) -> str:
        return "$" if match[1] else variables.get(match[2], match[0])

    return _REFERENCE.sub(replacement, text)


def command_line(container: Container, variables: Mapping[str, str]) -> list[str]:
    """
    Return the program and its arguments, expanded with the final variables.

    Raises:
        StartError: Neither command nor args: the image's entry point is wanted, and images are not run, except for
            those of the initializers.
    """
    if not container.command and not container.args:
        name = container.image.rpartition("/")[2].partition("@")[0].partition(":")[0]
        if name in _INITIALIZERS:
            return _initializer(name, variables)
        raise StartError(
            f"container {container.name!r} has neither command nor args; images are not run here, "
            f"so the entry point of {container.image or 'its image'!r} is unknown: set command"
        )
    return [expand(word, variables) for word in (*container.command, *container.args)]


def _initializer(image: str, variables: Mapping[str, str]) -> list[str]:
    """Return ktrain's own program in place of the entry point; its directory is in sight, so that it is rewritten."""
    kind = _INITIALIZERS[image]
    target = [] if variables.get("TARGET_DIR") else ["env", f"TARGET_DIR=/workspace/{kind}"]
    return [*target, "python", "-m", f"ktrain.initializers.{kind}"]


def referenced(containers: Sequence[Container]) -> tuple[set[str], set[str]]:
    """Name the ConfigMaps and the Secrets that the variables of these containers refer to."""
    config_maps: set[str] = set()
    secrets: set[str] = set()
    for container in containers:
        for entry in container.env_from:
            config_maps |= {entry.config_map_ref.name} if entry.config_map_ref else set()
            secrets |= {entry.secret_ref.name} if entry.secret_ref else set()
        for variable in container.env:
            source = variable.value_from or EnvVarSource()
            config_maps |= {source.config_map_key_ref.name} if source.config_map_key_ref else set()
            secrets |= {source.secret_key_ref.name} if source.secret_key_ref else set()
    return config_maps, secrets


def service_variables(services: Mapping[str, ServiceAddress], *, host_network: bool) -> dict[str, str]:
    """Return the variables of services by name: those that ktrain itself serves, as others have no addresses here."""
    found: dict[str, str] = {}
    for name, address in services.items():
        host, port = address.machine if host_network else address.pods
        prefix = name.upper().replace("-", "_")
        found[f"{prefix}_SERVICE_HOST"] = host
        found[f"{prefix}_SERVICE_PORT"] = found[f"{prefix}_SERVICE_PORT_HTTPS"] = str(port)
    return found


def container_variables(
    pod: Pod, container: Container, facts: PodFacts, sources: Sources, service: Mapping[str, str] | None = None
) -> dict[str, str]:
    """
    Compute the variables that the pod's author gave to this container, in order of definition.

    They may refer to those of services, too.

    Raises:
        ConfigError: A reference that is not optional leads nowhere.
    """
    variables: dict[str, str] = {}
    for entry in container.env_from:
        variables.update(_imported(entry, pod, sources))
    for variable in container.env:
        if variable.value_from is None:
            variables[variable.name] = expand(variable.value, {**(service or {}), **variables})
            continue
        value = _referenced_value(variable.value_from, pod, container, facts, sources)
        if value is not None:
            variables[variable.name] = value
    return variables


def process_environment(
    base: Mapping[str, str], pod: Pod, variables: Mapping[str, str], gpus: Sequence[str] | None
) -> dict[str, str]:
    """
    Put together what the process gets: the inherited part, the host name, GPU slots, and the container's variables.

    `gpus` are the devices of this container on a machine that has some, None where there are none to divide.
    """
    environment = {**base, "HOSTNAME": pod.hostname}
    if not _PROXIES.isdisjoint(environment):
        environment |= _without_proxy(environment, pod)
    environment |= variables
    if gpus is not None:
        environment["CUDA_VISIBLE_DEVICES"] = visible_devices(gpus, variables.get("CUDA_VISIBLE_DEVICES"))
    return environment


def visible_devices(gpus: Sequence[str], wanted: str | None) -> str:
    """
    Compose a container's devices with its author's own CUDA_VISIBLE_DEVICES, whose numbers count within the container.

    A container without devices sees none, unless its author named some: that is taken as said.
    """
    if wanted is None:
        return ",".join(gpus)
    numbers = [part.strip() for part in wanted.split(",") if part.strip()]
    if not gpus or not all(number.isdecimal() and int(number) < len(gpus) for number in numbers):
        return wanted
    return ",".join(gpus[int(number)] for number in numbers)


def field_value(path: str, pod: Pod, facts: PodFacts) -> str:
    """
    Read a field of the pod as `fieldRef` names it.

    Raises:
        ConfigError: No such field can be read.
    """
    meta, spec = pod.metadata, pod.spec
    if entry := _MAP_ENTRY.fullmatch(path):
        return (meta.labels if entry[1] == "labels" else meta.annotations).get(entry[2], "")
    fields = {
        "metadata.name": meta.name,
        "metadata.namespace": meta.namespace,
        "metadata.uid": meta.uid,
        "metadata.labels": _formatted(meta.labels),
        "metadata.annotations": _formatted(meta.annotations),
        "spec.nodeName": facts.node_name,
        "spec.serviceAccountName": spec.service_account_name or "default",
        "status.hostIP": facts.host_ip,
        "status.hostIPs": facts.host_ip,
        "status.podIP": facts.pod_ip,
        "status.podIPs": facts.pod_ip,
    }
    if path not in fields:
        raise ConfigError(f"fieldRef {path!r} is not supported; expected one of {', '.join(sorted(fields))}")
    return fields[path]


def resource_value(
    selector: ResourceSelector, pod: Pod, container: Container | None, allocatable: Mapping[str, str]
) -> str:
    """
    Read a request or limit as `resourceFieldRef` names it: whole units of the divisor, rounded up.

    Raises:
        ConfigError: The container or the field does not exist.
    """
    if selector.container_name:
        every = (*pod.spec.containers, *pod.spec.init_containers)
        container = next((c for c in every if c.name == selector.container_name), None)
    if container is None:
        raise ConfigError(f"resourceFieldRef {selector.resource!r}: no container {selector.container_name!r}")
    kind, _, name = selector.resource.partition(".")
    if kind == "limits":
        amount = container.resources.limits.get(name) or allocatable.get(name, "0")
    elif kind == "requests":
        amount = container.resources.requests.get(name, "0")
    else:
        raise ConfigError(f"resourceFieldRef {selector.resource!r}: expected limits.NAME or requests.NAME")
    return str(math.ceil(quantity.parse(amount) / (quantity.parse(selector.divisor) or 1)))


def _imported(entry: EnvFromSource, pod: Pod, sources: Sources) -> dict[str, str]:
    values: dict[str, str] = {}
    if (ref := entry.config_map_ref) is not None:
        if (config_map := sources.config_maps.get(ref.name)) is not None:
            values = dict(config_map.data)
        elif not ref.optional:
            raise ConfigError(f"configmap {ref.name!r} not found in namespace {pod.metadata.namespace!r}")
    if (ref := entry.secret_ref) is not None:
        if (secret := sources.secrets.get(ref.name)) is not None:
            values = {key: _text(value) for key, value in secret.data.items()}
        elif not ref.optional:
            raise ConfigError(f"secret {ref.name!r} not found in namespace {pod.metadata.namespace!r}")
    return {entry.prefix + key: value for key, value in values.items()}


def _referenced_value(
    source: EnvVarSource, pod: Pod, container: Container, facts: PodFacts, sources: Sources
) -> str | None:
    """Return the value, or None where an optional reference leads nowhere: then the variable is not set at all."""
    if source.field_ref is not None:
        return field_value(source.field_ref.field_path, pod, facts)
    if source.resource_field_ref is not None:
        return resource_value(source.resource_field_ref, pod, container, facts.allocatable)
    if (ref := source.config_map_key_ref) is not None:
        config_map = sources.config_maps.get(ref.name)
        return _entry(config_map.data if config_map else None, ref, "configmap", pod.metadata.namespace)
    if (ref := source.secret_key_ref) is not None:
        secret = sources.secrets.get(ref.name)
        value = _entry(secret.data if secret else None, ref, "secret", pod.metadata.namespace)
        return None if value is None else _text(value)
    raise ConfigError("valueFrom names no source that is supported here")


def _entry(data: Mapping[str, V] | None, ref: KeySelector, kind: str, namespace: str) -> V | None:
    value = None if data is None else data.get(ref.key)
    if value is None and not ref.optional:
        if data is None:
            raise ConfigError(f"{kind} {ref.name!r} not found in namespace {namespace!r}")
        raise ConfigError(f"couldn't find key {ref.key!r} in {kind} {namespace}/{ref.name}")
    return value


def _without_proxy(environment: Mapping[str, str], pod: Pod) -> dict[str, str]:
    """Keep traffic between pods off the caller's proxy; gRPC and Python honour suffixes, both spellings are in use."""
    ours = ["localhost", "127.0.0.1", "10.88.0.0/16", ".svc", ".cluster.local", pod.hostname]
    if pod.spec.subdomain:
        ours.append(f".{pod.spec.subdomain}")
    given = environment.get("no_proxy") or environment.get("NO_PROXY")
    value = ",".join([given, *ours] if given else ours)
    return {"no_proxy": value, "NO_PROXY": value}


def _formatted(entries: Mapping[str, str]) -> str:
    """All labels or annotations as downward API files show them."""
    lines = []
    for key, value in sorted(entries.items()):
        quoted = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        lines.append(f'{key}="{quoted}"')
    return "\n".join(lines)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")
