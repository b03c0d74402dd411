"""All that a pod or a template is warned of."""

from __future__ import annotations

import ipaddress
from itertools import islice
from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import names
from ktrain.local.apiserver.access.quoting import quote
from ktrain.local.apiserver.builtins.pods.profiles import (
    APPARMOR,
    SECCOMP,
    SECCOMP_OF_POD,
    apparmor_profile,
    old_apparmor,
    placed,
    profile_of,
)
from ktrain.local.apiserver.builtins.pods.validation.addresses import read_address
from ktrain.local.apiserver.builtins.pods.warnings.amounts import warn_of_fraction
from ktrain.local.apiserver.builtins.pods.warnings.containers import warn_of_containers
from ktrain.local.apiserver.builtins.pods.warnings.labels import warn_of_labels
from ktrain.local.apiserver.builtins.pods.warnings.limits import MOST_WARNINGS
from ktrain.local.apiserver.builtins.pods.warnings.volumes import warn_of_volumes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json

_OLD_ANNOTATIONS: Final = {
    "scheduler.alpha.kubernetes.io/critical-pod": 'non-functional in v1.16+; use the "priorityClassName" field instead',
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
_OLD_SECCOMP: Final = 'non-functional in v1.27+; use the "seccompProfile" field instead'
_OLD_APPARMOR: Final = 'deprecated since v1.30; use the "appArmorProfile" field instead'


def warn_of_pod(pod: Json) -> list[str]:
    """Return what to know about a new pod, before its annotations were turned into fields."""
    meta, spec = pod["metadata"], pod["spec"]
    found = [f"metadata.annotations[{key}]: {_OLD_APPARMOR}" for key in _old_keys(spec, meta.get("annotations"))]
    if problems := names.label(meta.get("name", "")):
        risk = "this is used in the Pod's hostname, which can result in surprising behavior"
        found.append(f"metadata.name: {risk}; a DNS label is recommended: [{' '.join(problems)}]")
    return [*found, *islice(_warn_of_spec(spec, meta, ""), MOST_WARNINGS)]


def warn_of_template(template: Json, field: str) -> list[str]:
    """Return what to know about a template, which is at `field`."""
    spec, meta = template.get("spec") or {}, template.get("metadata") or {}
    found = [*islice(_warn_of_spec(spec, meta, f"{field}."), MOST_WARNINGS)]
    if annotations := meta.get("annotations"):
        own = profile_of(spec, "appArmorProfile")
        for _, container in placed(spec, ""):
            key = f"{APPARMOR}{container.get('name', '')}"
            alone = key in annotations and profile_of(container, "appArmorProfile") is None
            if alone and (own is None or apparmor_profile(annotations[key]) != own):
                found.append(f"{field}.metadata.annotations[{key}]: {_OLD_APPARMOR}")
    return found


def _old_keys(spec: Json, annotations: Json | None) -> list[str]:
    return [key for _, key, _ in old_apparmor(spec, annotations)] if annotations else []


def _warn_of_spec(spec: Json, meta: Json, prefix: str) -> Iterator[str]:
    field = f"{prefix}spec"
    yield from warn_of_labels(spec, field)
    if annotations := meta.get("annotations"):
        yield from _warn_of_annotations(annotations, spec, f"{prefix}metadata.annotations")
    yield from warn_of_volumes(spec.get("volumes", ()), f"{field}.volumes")
    for name, part in (("hostAliases", "ip"), ("imagePullSecrets", "name")):
        yield from _warn_of_doubles(spec.get(name, ()), part, f"{field}.{name}")
    for index, secret in enumerate(spec.get("imagePullSecrets", ())):
        if not secret.get("name"):
            yield f'{field}.imagePullSecrets[{index}].name: invalid empty name ""'
    for name in ("memory", "ephemeral-storage"):
        yield from warn_of_fraction(spec.get("overhead", {}), name, f"{field}.overhead")
    yield from warn_of_containers(spec, field)
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        text = "must be >= 0; negative values are invalid and will be treated as 1"
        yield f"{field}.terminationGracePeriodSeconds: {text}"
    for index, server in enumerate(spec.get("dnsConfig", {}).get("nameservers", ())):
        yield from _warn_of_address(server, f"{field}.dnsConfig.nameservers[{index}]")
    for index, alias in enumerate(spec.get("hostAliases", ())):
        yield from _warn_of_address(alias.get("ip", ""), f"{field}.hostAliases[{index}].ip")


def _warn_of_annotations(annotations: Json, spec: Json, field: str) -> Iterator[str]:
    for key, text in _OLD_ANNOTATIONS.items():
        if key in annotations:
            yield f"{field}[{key}]: {text}"
    profiled = [(SECCOMP_OF_POD, spec)]
    profiled += [(f"{SECCOMP}{container.get('name', '')}", container) for _, container in placed(spec, "")]
    for key, owner in profiled:
        if key in annotations and profile_of(owner, "seccompProfile") is None:
            yield f"{field}[{key}]: {_OLD_SECCOMP}"


def _warn_of_doubles(items: list[Json], part: str, field: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, item in enumerate(items):
        value = item.get(part, "")
        if value in seen:
            yield f"{field}[{index}].{part}: duplicate {part} {quote(value)}"
        seen.add(value)


def _warn_of_address(address: str, field: str) -> Iterator[str]:
    read = read_address(address)
    if isinstance(read, ipaddress.IPv6Address) and str(read) != address:
        canonical = quote(str(read))
        yield f"{field}: IPv6 address {quote(address)} should be in RFC 5952 canonical format ({canonical})"
