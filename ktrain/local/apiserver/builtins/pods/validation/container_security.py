"""Security contexts of containers, in the API server's words; the parts that pods have, too, are for their use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ktrain.local.apiserver import causes, names
from ktrain.local.apiserver.builtins.pods.validation.windows import validate_windows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

_ID_TEXT: Final = "must be between 0 and 2147483647, inclusive"
_PROC_MOUNTS: Final = ("Default", "Unmasked")
_SECCOMP: Final = ("Localhost", "RuntimeDefault", "Unconfined")
_APPARMOR: Final = ("Localhost", "RuntimeDefault", "Unconfined")
_MAX_PATH: Final = 4095
_LINUX_ONLY: Final = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
)
_LOCALHOST_ONLY: Final = "can only be set when {} type is Localhost"
_LOCALHOST_NEEDS: Final = "must be set when {} type is Localhost"


def validate_container_security(context: Json, field: str, *, host_users: bool) -> Iterator[Cause]:
    """Yield what is wrong with a container's security context; `host_users`: users inside are the users outside."""
    for name in ("runAsUser", "runAsGroup"):
        if (number := context.get(name)) is not None and not 0 <= number < 2**31:
            yield causes.invalid(f"{field}.{name}", number, _ID_TEXT)
    if (proc := context.get("procMount")) is not None:
        if proc not in _PROC_MOUNTS:
            yield causes.not_supported(f"{field}.procMount", proc, _PROC_MOUNTS)
        elif proc == "Unmasked" and host_users:
            yield causes.invalid(f"{field}.procMount", proc, "`hostUsers` must be false to use `Unmasked`")
    if (profile := context.get("seccompProfile")) is not None:
        yield from validate_seccomp(profile, f"{field}.seccompProfile")
    if context.get("allowPrivilegeEscalation") is False:
        yield from _validate_escalation(context, field)
    if (options := context.get("windowsOptions")) is not None:
        yield from validate_windows(options, f"{field}.windowsOptions")
    if (profile := context.get("appArmorProfile")) is not None:
        yield from validate_apparmor(profile, f"{field}.appArmorProfile")


def validate_for_system(context: Json, field: str, system: str) -> Iterator[Cause]:
    """Yield what of a container's security context another operating system has."""
    if system == "linux" and "windowsOptions" in context:
        yield causes.forbidden(f"{field}.windowsOptions", "windows options cannot be set for a linux pod")
    elif system == "windows":
        for name in _LINUX_ONLY:
            if name in context:
                yield causes.forbidden(f"{field}.{name}", "cannot be set for a windows pod")


def validate_seccomp(profile: Json, field: str) -> Iterator[Cause]:
    """Yield what is wrong with a seccomp profile, of a container or a pod."""
    kind, path = profile.get("type", ""), profile.get("localhostProfile")
    if not kind:
        yield causes.required(f"{field}.type", "type is required when seccompProfile is set")
    elif kind not in _SECCOMP:
        yield causes.not_supported(f"{field}.type", kind, _SECCOMP)
    if kind != "Localhost":
        if path is not None:
            shown = _held(profile, _PROFILE)
            yield causes.invalid(f"{field}.localhostProfile", shown, _LOCALHOST_ONLY.format("seccomp"))
    elif path is None:
        yield causes.required(f"{field}.localhostProfile", _LOCALHOST_NEEDS.format("seccomp"))
    else:
        for text in names.descending_path(path):
            yield causes.invalid(f"{field}.localhostProfile", path, text)


def validate_apparmor(profile: Json, field: str) -> Iterator[Cause]:
    """Yield what is wrong with an AppArmor profile, of a container or a pod."""
    kind, path = profile.get("type", ""), profile.get("localhostProfile")
    if not kind:
        yield causes.required(f"{field}.type", "type is required when appArmorProfile is set")
    elif kind not in _APPARMOR:
        yield causes.not_supported(f"{field}.type", kind, _APPARMOR)
    elif kind == "Localhost":
        yield from _validate_apparmor_path(path, f"{field}.localhostProfile")
    elif path is not None:
        yield causes.invalid(f"{field}.localhostProfile", path, _LOCALHOST_ONLY.format("AppArmor"))


def _validate_apparmor_path(path: str | None, field: str) -> Iterator[Cause]:
    if not path:
        yield causes.required(field, _LOCALHOST_NEEDS.format("AppArmor"))
        return
    if path.strip() != path:
        yield causes.invalid(field, path, "must not be padded with whitespace")
    if len(path.encode()) > _MAX_PATH:
        yield causes.too_long(field, _MAX_PATH)


def _validate_escalation(context: Json, field: str) -> Iterator[Cause]:
    """Who has all privileges cannot be kept from getting more."""
    refusal = "cannot set `allowPrivilegeEscalation` to false and "
    if context.get("privileged"):
        yield causes.invalid(field, _held(context, _CONTEXT), f"{refusal}`privileged` to true")
    for capability in context.get("capabilities", {}).get("add", ()):
        if capability == "CAP_SYS_ADMIN":
            yield causes.invalid(field, _held(context, _CONTEXT), f"{refusal}`capabilities.Add` CAP_SYS_ADMIN")


_PROFILE: Final[dict[str, Any]] = {"Type": "", "LocalhostProfile": None}
_CONTEXT: Final[dict[str, Any]] = {
    "Capabilities": {"Add": None, "Drop": None},
    "Privileged": None,
    "SELinuxOptions": {"User": "", "Role": "", "Type": "", "Level": ""},
    "WindowsOptions": {
        "GMSACredentialSpecName": None,
        "GMSACredentialSpec": None,
        "RunAsUserName": None,
        "HostProcess": None,
    },
    "RunAsUser": None,
    "RunAsGroup": None,
    "RunAsNonRoot": None,
    "ReadOnlyRootFilesystem": None,
    "AllowPrivilegeEscalation": None,
    "ProcMount": None,
    "SeccompProfile": _PROFILE,
    "AppArmorProfile": _PROFILE,
}
_LOWERED: Final = {"SELinuxOptions": "seLinuxOptions", "GMSACredentialSpecName": "gmsaCredentialSpecName"} | {
    "GMSACredentialSpec": "gmsaCredentialSpec"
}


def _held(obj: Json, shape: dict[str, Any]) -> Json:
    """Return an object as the server holds it, which is how it shows it: every field, by its Go name."""
    shown: Json = {}
    for name, empty in shape.items():
        value = obj.get(_LOWERED.get(name) or name[0].lower() + name[1:])
        if isinstance(empty, dict):
            shown[name] = None if value is None else _held(value, empty)
        else:
            shown[name] = empty if value is None else value
    return shown
