"""The security context of a pod, and what there is of it on its operating system, in the API server's words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes
from ktrain.local.apiserver.builtins.pods.profiles import placed
from ktrain.local.apiserver.builtins.pods.validation.choices import enumerated
from ktrain.local.apiserver.builtins.pods.validation.container_security import validate_apparmor, validate_seccomp
from ktrain.local.apiserver.builtins.pods.validation.windows import validate_windows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

_MAX_ID: Final = 2**31 - 1
_ID_TEXT: Final = f"must be between 0 and {_MAX_ID}, inclusive"
_CHOICES: Final = {
    "fsGroupChangePolicy": ("Always", "OnRootMismatch"),
    "supplementalGroupsPolicy": ("Merge", "Strict"),
    "seLinuxChangePolicy": ("Recursive",),
}
_MAX_SYSCTL: Final = 253
_SYSCTL: Final = re.compile(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?")
_IPC_SYSCTLS: Final = frozenset(
    f"kernel.{name}"
    for name in ("sem", "shmall", "shmmax", "shmmni", "shm_rmid_forced", "shm", "msgmax", "msgmnb", "msgmni", "msg")
)
_SYSTEMS: Final = ("linux", "windows")
_LINUX_ONLY: Final = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "sysctls",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "seLinuxChangePolicy",
)
_LINUX_ONLY_OF_POD: Final = ("hostUsers", "hostPID", "hostIPC", "shareProcessNamespace")


def validate_pod_security(spec: Json, field: str) -> Iterator[Cause]:
    """Yield what is wrong with a pod's security context and operating system."""
    context, here = spec.get("securityContext", {}), f"{field}.securityContext"
    if context:
        yield from _validate_context(context, spec, here)
    if spec.get("hostPID") and spec.get("shareProcessNamespace"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield causes.invalid(f"{here}.shareProcessNamespace", spec["shareProcessNamespace"], detail)
    yield from _validate_host_process(spec, field)
    if (system := spec.get("os")) is not None:
        yield from _validate_system(system, spec, field)


def _validate_context(context: Json, spec: Json, field: str) -> Iterator[Cause]:
    numbered = [(name, context.get(name)) for name in ("fsGroup", "runAsUser", "runAsGroup")]
    numbered += [(f"supplementalGroups[{n}]", group) for n, group in enumerate(context.get("supplementalGroups", ()))]
    for name, number in numbered:
        if number is not None and not 0 <= number <= _MAX_ID:
            yield causes.invalid(f"{field}.{name}", number, _ID_TEXT)
    yield from _validate_sysctls(context.get("sysctls", ()), spec, f"{field}.sysctls")
    for name, words in _CHOICES.items():
        yield from enumerated(context, name, words, field)
    if "seccompProfile" in context:
        yield from validate_seccomp(context["seccompProfile"], f"{field}.seccompProfile")
    if "windowsOptions" in context:
        yield from validate_windows(context["windowsOptions"], f"{field}.windowsOptions")
    if "appArmorProfile" in context:
        yield from validate_apparmor(context["appArmorProfile"], f"{field}.appArmorProfile")


def _validate_sysctls(sysctls: list[Json], spec: Json, field: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, sysctl in enumerate(sysctls):
        here, name = f"{field}[{index}].name", sysctl.get("name", "")
        if not name:
            yield causes.required(here)
        elif len(name) > _MAX_SYSCTL or not _SYSCTL.fullmatch(name):
            detail = f"must have at most {_MAX_SYSCTL} characters and match regex ^{_SYSCTL.pattern}$"
            yield causes.invalid(here, name, detail)
        elif name in seen:
            yield causes.duplicate(here, name)
        seen.add(name)
        if (shared := _namespace(name)) and spec.get(shared):
            yield causes.invalid(here, name, f"may not be specified when '{shared}' is true")


def _namespace(sysctl: str) -> str:
    """Return the field that gives a pod its host's namespace, if the sysctl belongs to one."""
    # Separators are those of the first one: the other sort is part of a name.
    first = re.search(r"[./]", sysctl)
    name = sysctl.translate({ord("."): "/", ord("/"): "."}) if first and first[0] == "/" else sysctl
    if name.startswith("net."):
        return "hostNetwork"
    return "hostIPC" if name in _IPC_SYSCTLS or name.startswith("fs.mqueue.") else ""


def _validate_host_process(spec: Json, field: str) -> Iterator[Cause]:
    """Windows containers that are processes of the host come only all together, and share its network."""
    own = _host_process(spec)
    chosen = []
    for path, container in placed(spec, field):
        asked = _host_process(container)
        if own is not None and asked is not None and asked != own:
            detail = f"pod hostProcess value must be identical if both are specified, was {str(own).lower()}"
            yield causes.invalid(f"{path}.securityContext.windowsOptions.hostProcess", asked, detail)
        chosen.append(own if asked is None else asked)
    if not any(chosen):
        return
    if not all(chosen):
        detail = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        yield causes.invalid(field, "", detail)
    if not spec.get("hostNetwork"):
        detail = "hostNetwork must be true if pod contains any hostProcess containers"
        yield causes.invalid(f"{field}.hostNetwork", spec.get("hostNetwork", False), detail)


def _host_process(owner: Json) -> bool | None:
    context = owner.get("securityContext")
    asked: bool | None = context.get("windowsOptions", {}).get("hostProcess") if context else None
    return asked


def _validate_system(system: Json, spec: Json, field: str) -> Iterator[Cause]:
    name, context = system.get("name", ""), spec.get("securityContext", {})
    if not name:
        yield causes.required(f"{field}.os.name")
    elif name not in _SYSTEMS:
        yield causes.not_supported(f"{field}.os", name, _SYSTEMS)
    elif name == "linux" and "windowsOptions" in context:
        detail = "windows options cannot be set for a linux pod"
        yield causes.forbidden(f"{field}.securityContext.windowsOptions", detail)
    elif name == "windows":
        denied = [f"securityContext.{part}" for part in _LINUX_ONLY if part in context]
        denied += [part for part in _LINUX_ONLY_OF_POD if part in spec]
        yield from (causes.forbidden(f"{field}.{part}", "cannot be set for a windows pod") for part in denied)
