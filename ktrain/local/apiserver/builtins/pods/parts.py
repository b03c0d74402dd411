"""What may change in a pod through subresources: containers to look around, and sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

_GROUPS: Final = ("initContainers", "containers")
_RESIZABLE: Final = frozenset({"cpu", "memory"})


def with_ephemeral(obj: Json, old: Json) -> Json:
    """Return the old pod with the new one's ephemeral containers."""
    spec = {**old["spec"], "ephemeralContainers": obj["spec"].get("ephemeralContainers") or []}
    if not spec["ephemeralContainers"]:
        del spec["ephemeralContainers"]
    return {**old, "spec": spec}


def with_resources(obj: Json, old: Json) -> Json:
    """Return the old pod with what the new one's containers are to have; the containers are left as they come."""
    spec = dict(old["spec"])
    for group in _GROUPS:
        known = {container["name"]: container for container in old["spec"].get(group, ())}
        if group in obj["spec"]:
            spec[group] = [_resized(known.get(one.get("name")), one) for one in obj["spec"][group]]
    return {**old, "spec": spec}


def validate_ephemeral(obj: Json, old: Json) -> Iterator[Cause]:
    """They are added and never taken away or changed."""
    field = "spec.ephemeralContainers"
    found = {container.get("name"): container for container in obj["spec"].get("ephemeralContainers", ())}
    for container in old["spec"].get("ephemeralContainers", ()):
        name = container["name"]
        if name not in found:
            yield causes.forbidden(field, f'existing ephemeral containers "{name}" may not be removed\n')
        elif found[name] != container:
            yield causes.forbidden(field, f'existing ephemeral containers "{name}" may not be changed\n')


def validate_resize(obj: Json, old: Json, quality: str) -> Iterator[Cause]:
    """The class of service stays, and only cpu and memory change."""
    before = old.get("status", {}).get("qosClass", quality)
    if quality != before:
        yield causes.invalid("spec", before, "Pod QOS Class may not change as a result of resizing")
    for group in _GROUPS:
        new, known = obj["spec"].get(group, []), old["spec"].get(group, [])
        if len(new) != len(known):
            yield causes.forbidden(f"spec.{group}", f"{group} may not be added or removed on resize")
        elif [one.get("name") for one in new] != [one["name"] for one in known]:
            yield causes.forbidden(f"spec.{group}", f"{group} may not be renamed or reordered on resize")
        else:
            for index, (one, was) in enumerate(zip(new, known, strict=True)):
                yield from _validate_change(one, was, f"spec.{group}[{index}].resources")


def _validate_change(container: Json, old: Json, field: str) -> Iterator[Cause]:
    if container == old:
        return
    resources, before = container.get("resources") or {}, old.get("resources") or {}
    for part in ("limits", "requests"):
        if any(name not in resources.get(part, {}) for name in before.get(part, {})):
            yield causes.forbidden(f"{field}.{part}", f"resource {part} cannot be removed")
    if _fixed(container) != _fixed(old):
        yield causes.forbidden("spec", "only cpu and memory resources are mutable")


def _fixed(container: Json) -> Json:
    """Return what of a container no resize changes."""
    resources = container.get("resources") or {}
    parts: Json = {
        part: {name: value for name, value in (resources.get(part) or {}).items() if name not in _RESIZABLE}
        for part in ("limits", "requests")
    }
    return {**container, "resources": {**resources, **parts}}


def _resized(known: Json | None, container: Json) -> Json:
    if known is None:
        return container
    taken: Json = {name: container[name] for name in ("resources", "resizePolicy") if name in container}
    return {**known, **taken}
