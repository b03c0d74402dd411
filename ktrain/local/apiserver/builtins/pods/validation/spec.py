"""The spec of a pod or pod template: its parts, each of which has a module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes, names
from ktrain.local.apiserver.builtins.pods.validation.affinity import validate_affinity
from ktrain.local.apiserver.builtins.pods.validation.annotations import MIRROR, validate_agreement, validate_annotations
from ktrain.local.apiserver.builtins.pods.validation.choices import enumerated
from ktrain.local.apiserver.builtins.pods.validation.containers import validate_containers, validate_images
from ktrain.local.apiserver.builtins.pods.validation.network import validate_network
from ktrain.local.apiserver.builtins.pods.validation.security import validate_pod_security
from ktrain.local.apiserver.builtins.pods.validation.shares import validate_shares
from ktrain.local.apiserver.builtins.pods.validation.spreading import validate_gates, validate_spreading
from ktrain.local.apiserver.builtins.pods.validation.tolerations import validate_tolerations
from ktrain.local.apiserver.builtins.pods.validation.volumes import validate_volumes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_PREEMPTION_POLICIES: Final = ("PreemptLowerPriority", "Never")
_NAMES: Final = ("serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName")
_LONGEST_S: Final = 2**31 - 1


def validate_pod(pod: Json) -> list[Cause]:
    """Return what is wrong with a pod, besides what is wrong with the metadata of anything."""
    meta, spec = pod["metadata"], pod.get("spec", {})
    annotations = meta.get("annotations", {})
    found = validate_pod_spec(spec, pod=meta.get("name", ""))
    found += validate_images(spec)
    if annotations:
        found += validate_annotations(annotations, spec, "metadata.annotations")
        if MIRROR in annotations and spec.get("resourceClaims"):
            # What they say does not matter then; and upstream says nothing of where.
            found = [cause for cause in found if not cause.field.startswith("spec.resourceClaims")]
            found.append(causes.forbidden("[]", "static pods do not support resource claims"))
    return found


def validate_new_pod(pod: Json) -> Iterator[Cause]:
    """Yield what is wrong with a pod only while it is new."""
    spec = pod["spec"]
    if spec.get("ephemeralContainers"):
        yield causes.forbidden("spec.ephemeralContainers", "cannot be set on create")
    if spec.get("nodeName") and spec.get("schedulingGates"):
        yield causes.forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")
    if annotations := pod["metadata"].get("annotations"):
        yield from validate_agreement(annotations, spec, "spec")


def validate_pod_spec(spec: Json, field: str = "spec", *, pod: str | None = None) -> list[Cause]:
    """
    Return what is wrong with the spec of a pod or template.

    `pod` is the name of the pod, None if it is a template's spec: templates may leave open what is filled in later.
    """
    volumes, found = validate_volumes(spec.get("volumes", []), f"{field}.volumes", pod)
    found += validate_containers(spec, field, volumes)
    found += enumerated(spec, "restartPolicy", _RESTART_POLICIES, field)
    found += validate_network(spec, field)
    found += validate_pod_security(spec, field)
    for fields, validate in _PARTS:
        if not fields.isdisjoint(spec):
            found += validate(spec, field)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _LONGEST_S:
        detail = f"must be between 1 and {_LONGEST_S}, inclusive"
        found.append(causes.invalid(f"{field}.activeDeadlineSeconds", deadline, detail))
    for name in _NAMES:
        # The empty name of a runtime class is a name.
        if (value := spec.get(name)) or (value is not None and name == "runtimeClassName"):
            found += [causes.invalid(f"{field}.{name}", value, text) for text in names.subdomain(value)]
    if (policy := spec.get("preemptionPolicy")) is not None and not policy:
        found.append(causes.required(f"{field}.preemptionPolicy"))
    else:
        found += enumerated(spec, "preemptionPolicy", _PREEMPTION_POLICIES, field)
    if (group := spec.get("schedulingGroup")) is not None:
        found += _validate_group(group, f"{field}.schedulingGroup.podGroupName")
    return found


def _validate_spreading(spec: Json, field: str) -> Iterator[Cause]:
    return validate_spreading(spec["topologySpreadConstraints"], f"{field}.topologySpreadConstraints")


def _validate_tolerations(spec: Json, field: str) -> Iterator[Cause]:
    return validate_tolerations(spec["tolerations"], f"{field}.tolerations")


_PARTS: Final[tuple[tuple[frozenset[str], Callable[[Json, str], Iterator[Cause]]], ...]] = (
    (frozenset({"resourceClaims", "resources", "overhead"}), validate_shares),
    (frozenset({"nodeSelector", "affinity"}), validate_affinity),
    (frozenset({"readinessGates", "schedulingGates"}), validate_gates),
    (frozenset({"topologySpreadConstraints"}), _validate_spreading),
    (frozenset({"tolerations"}), _validate_tolerations),
)
"""What most pods say nothing of, and who judges it: looked at only where it is."""


def _validate_group(group: Json, field: str) -> Iterator[Cause]:
    name = group.get("podGroupName")
    if name is None:
        yield causes.invalid(field, None, "must specify one of: `podGroupName`")
    else:
        yield from (causes.invalid(field, name, text) for text in names.subdomain(name))
