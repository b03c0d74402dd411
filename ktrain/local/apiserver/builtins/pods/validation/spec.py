"""The spec of a pod or pod template: its parts, each of which has a module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes, names
from ktrain.local.apiserver.builtins.pods.validation.choices import enumerated
from ktrain.local.apiserver.builtins.pods.validation.containers import validate_containers
from ktrain.local.apiserver.builtins.pods.validation.tolerations import validate_tolerations

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")


def validate_pod_spec(spec: Json, field: str = "spec") -> list[Cause]:
    """Return what is wrong with the spec of a pod or template."""
    found: list[Cause] = []
    found += _validate_names(spec.get("volumes", ()), f"{field}.volumes")
    found += validate_containers(spec, field)
    found += enumerated(spec, "restartPolicy", _RESTART_POLICIES, field)
    found += enumerated(spec, "dnsPolicy", _DNS_POLICIES, field)
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
