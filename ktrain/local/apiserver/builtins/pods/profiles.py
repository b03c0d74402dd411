"""
Profiles of containers, which were annotations of the pod before they became fields.

The server still fills in the field by the annotation for AppArmor, so that old charts keep what they ask for
(KEP-24); of seccomp's it only warns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json

APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
SECCOMP: Final = "container.seccomp.security.alpha.kubernetes.io/"
SECCOMP_OF_POD: Final = "seccomp.security.alpha.kubernetes.io/pod"
LOCALHOST: Final = "localhost/"
_TYPES: Final = {"unconfined": "Unconfined", "runtime/default": "RuntimeDefault"}
_GROUPS: Final = ("initContainers", "containers", "ephemeralContainers")
_MAX_PATH: Final = 4095


def placed(spec: Json, field: str) -> Iterator[tuple[str, Json]]:
    """Yield all containers of a pod and the fields that they are at."""
    for group in _GROUPS:
        for index, container in enumerate(spec.get(group, ())):
            yield f"{field}.{group}[{index}]", container


def profile_of(context_owner: Json, name: str) -> Json | None:
    """Return a profile of a pod or a container."""
    profile: Json | None = context_owner.get("securityContext", {}).get(name)
    return profile


def apparmor_profile(annotation: str) -> Json | None:
    """Return what an annotation says as a field; None if no field could say it."""
    if kind := _TYPES.get(annotation):
        return {"type": kind}
    path = annotation.removeprefix(LOCALHOST)
    sound = path and path != annotation and path.strip() == path and len(path.encode()) <= _MAX_PATH
    return {"type": "Localhost", "localhostProfile": path} if sound else None


def old_apparmor(spec: Json, annotations: Json) -> Iterator[tuple[Json, str, Json | None]]:
    """
    Yield containers that have only an annotation for AppArmor, its key, and the profile that it stands for.

    Not those whose annotation says what the pod's own field says; the profile is None if the annotation says nothing.
    """
    if spec.get("os", {}).get("name") == "windows":
        return
    own = profile_of(spec, "appArmorProfile")
    for _, container in placed(spec, ""):
        key = f"{APPARMOR}{container.get('name', '')}"
        if key in annotations and profile_of(container, "appArmorProfile") is None:
            profile = apparmor_profile(annotations[key])
            if profile is None or profile != own:
                yield container, key, profile


def fill_in_apparmor(pod: Json) -> None:
    """Write into the fields of a new pod what its annotations ask for."""
    if annotations := pod["metadata"].get("annotations"):
        for container, _, profile in list(old_apparmor(pod["spec"], annotations)):
            if profile is not None:
                container.setdefault("securityContext", {})["appArmorProfile"] = profile
