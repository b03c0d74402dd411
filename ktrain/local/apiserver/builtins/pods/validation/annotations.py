"""Annotations of pods that mean something, and whether those that became fields agree with them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from ktrain.local.apiserver import causes, names
from ktrain.local.apiserver.access.quoting import quote
from ktrain.local.apiserver.builtins.pods.profiles import (
    APPARMOR,
    LOCALHOST,
    SECCOMP,
    SECCOMP_OF_POD,
    placed,
    profile_of,
)
from ktrain.local.apiserver.builtins.pods.validation.tolerations import validate_tolerations

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

MIRROR: Final = "kubernetes.io/config.mirror"
_TOLERATIONS: Final = "scheduler.alpha.kubernetes.io/tolerations"
_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_COST: Final = re.compile(r"-[0-9]+|[1-9][0-9]*|0")
_DEFAULTS: Final = ("runtime/default", "docker/default")
_SECCOMP_WORDS: Final[dict[str, tuple[str, ...]]] = {"Unconfined": ("unconfined",), "RuntimeDefault": _DEFAULTS}
_APPARMOR_WORDS: Final[dict[str, tuple[str, ...]]] = {
    "Unconfined": ("unconfined",),
    "RuntimeDefault": ("runtime/default",),
}
_FIXED: Final = {"AppArmor": APPARMOR, "mirror pod": MIRROR}


def validate_annotations(annotations: Json, spec: Json, field: str) -> Iterator[Cause]:
    """Yield what is wrong with the annotations of a pod or template."""
    if (mirrored := annotations.get(MIRROR)) is not None and not spec.get("nodeName"):
        yield causes.invalid(f"{field}[{MIRROR}]", mirrored, "must set spec.nodeName if mirror pod annotation is set")
    if tolerations := annotations.get(_TOLERATIONS):
        yield from _validate_tolerations(tolerations, field)
    cost = annotations.get(_DELETION_COST)
    if cost is not None and not (_COST.fullmatch(cost) and -(2**31) <= int(cost) < 2**31):
        yield causes.invalid(f"{field}[{_DELETION_COST}]", cost, "must be a 32bit integer")
    for key, value in annotations.items():
        if key == SECCOMP_OF_POD or key.startswith(SECCOMP):
            yield from _validate_seccomp(value, f"{field}.{key}")
        elif key.startswith(APPARMOR):
            yield from _validate_apparmor(key, value, spec, f"{field}[{key}]")


def validate_agreement(annotations: Json, spec: Json, field: str) -> Iterator[Cause]:
    """Yield where a profile that is given both ways, as annotation and as field of the spec at `field`, differs."""
    own = profile_of(spec, "seccompProfile")
    if own and SECCOMP_OF_POD in annotations:
        here = f"{field}.securityContext.seccompProfile"
        yield from _compare(own, annotations[SECCOMP_OF_POD], _SECCOMP_WORDS, "seccomp", here)
    inherited = profile_of(spec, "appArmorProfile")
    confined = spec.get("os", {}).get("name") != "windows"
    for path, container in placed(spec, field):
        name, here = container.get("name", ""), f"{path}.securityContext"
        profile, said = profile_of(container, "seccompProfile"), annotations.get(f"{SECCOMP}{name}")
        if profile and said is not None:
            yield from _compare(profile, said, _SECCOMP_WORDS, "seccomp", f"{here}.seccompProfile")
        profile, said = profile_of(container, "appArmorProfile") or inherited, annotations.get(f"{APPARMOR}{name}")
        if profile and said is not None and confined:
            yield from _compare(profile, said, _APPARMOR_WORDS, "apparmor", f"{here}.appArmorProfile")


def validate_kept(annotations: Json, before: Json) -> Iterator[Cause]:
    """Yield which annotations of a pod may not change as they did: those that were turned into something."""
    for key in annotations.keys() | before.keys():
        if annotations.get(key) != before.get(key):
            change = "remove or update" if key in before else "add"
            plural = {"AppArmor": "annotations", "mirror pod": "annotation"}
            for kind, fixed in _FIXED.items():
                if key == fixed or (fixed.endswith("/") and key.startswith(fixed)):
                    yield causes.forbidden(f"metadata.annotations[{key}]", f"may not {change} {kind} {plural[kind]}")


def _validate_tolerations(text: str, field: str) -> Iterator[Cause]:
    try:
        tolerations = msgspec.json.decode(text, type=list[dict[str, object]])
    except msgspec.DecodeError as error:
        yield causes.invalid(field, _TOLERATIONS, _go_complaint(text, error))
        return
    yield from validate_tolerations(tolerations, f"{field}.{_TOLERATIONS}")


def _go_complaint(text: str, error: msgspec.DecodeError) -> str:
    """Return the usual one of Go's complaints: the text does not begin as JSON does."""
    first = text.strip()[:1]
    begins = first in '[{"-' or first.isdigit()
    return str(error) if begins or not first else f"invalid character '{first}' looking for beginning of value"


def _validate_seccomp(profile: str, field: str) -> Iterator[Cause]:
    if profile.startswith(LOCALHOST):
        path = profile.removeprefix(LOCALHOST)
        yield from (causes.invalid(field, path, text) for text in names.descending_path(path))
    elif profile not in (*_DEFAULTS, "unconfined"):
        yield causes.invalid(field, profile, "must be a valid seccomp profile")


def _validate_apparmor(key: str, profile: str, spec: Json, field: str) -> Iterator[Cause]:
    name = key.removeprefix(APPARMOR)
    if all(container.get("name") != name for _, container in placed(spec, "")):
        yield causes.invalid(field, name, "container not found")
    if profile not in {"", "runtime/default", "unconfined"} and not profile.startswith(LOCALHOST):
        yield causes.invalid(field, profile, f"invalid AppArmor profile name: {quote(profile)}")


def _compare(profile: Json, said: str, words: dict[str, tuple[str, ...]], kind: str, field: str) -> Iterator[Cause]:
    chosen = profile.get("type", "")
    if chosen in words:
        if said not in words[chosen]:
            yield causes.forbidden(f"{field}.type", f"{kind} type in annotation and field must match")
    elif chosen == "Localhost":
        if not said.startswith(LOCALHOST):
            yield causes.forbidden(f"{field}.type", f"{kind} type in annotation and field must match")
        elif profile.get("localhostProfile") != said.removeprefix(LOCALHOST):
            yield causes.forbidden(f"{field}.localhostProfile", f"{kind} profile in annotation and field must match")
