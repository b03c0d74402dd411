"""
Which executor this machine allows: try namespaces for real, in a helper that is thrown away if they are refused.

Trying beats asking: seccomp, AppArmor, sysctls and missing modules all refuse at different steps (some let `unshare`
succeed and refuse the first mount), and only a pod that was made proves that pods can be made. What the kernel said is
then matched with what is known of this machine, to tell people what to change.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ktrain.local.sandbox.executor import SandboxError, SandboxSpec

if TYPE_CHECKING:
    from ktrain.local.sandbox.executor import Executor

Mode = Literal["auto", "ns", "host"]


@dataclass(frozen=True, slots=True)
class Choice:
    """An executor that works here, running already, and why it is this one: a sentence for people."""

    executor: Executor
    reason: str


async def choose(mode: Mode) -> Choice:
    """
    Start the executor that was asked for; `auto` takes namespaces where they work, else the shared host.

    The caller closes the executor. About 60 ms.

    Raises:
        SandboxError: `ns` was asked for and is refused; or the helper cannot run at all.
    """
    from ktrain.local.sandbox.host import HostExecutor

    if mode == "host":
        return Choice(await HostExecutor.start(), "pods share this machine's network, as asked for")
    try:
        executor = await _start_with_namespaces()
    except SandboxError as error:
        explanation = f"network namespaces are refused here ({error}). {advise(str(error), Machine.read())}"
        if mode == "ns":
            raise SandboxError(explanation) from None
        return Choice(await HostExecutor.start(), f"pods share this machine's network: {explanation}")
    return Choice(executor, "each pod has a network of its own")


async def _start_with_namespaces() -> Executor:
    if not sys.platform.startswith("linux"):
        raise SandboxError(f"{sys.platform} has none")
    from ktrain.local.sandbox.ns import NamespaceExecutor

    executor = await NamespaceExecutor.start()
    root = executor.directory / "probe"
    try:
        root.mkdir()
        sandbox = await executor.create_sandbox(
            SandboxSpec(uid="probe", namespace="probe", name="probe", hostname="probe", root=root)
        )
        await sandbox.kill()
        root.rmdir()
    except BaseException:
        await executor.aclose()
        raise
    return executor


@dataclass(frozen=True, slots=True)
class Machine:
    """What is known to refuse namespaces, as this machine has it set."""

    apparmor_restricts: bool = False
    clone_disabled: bool = False
    none_allowed: bool = False
    seccomp_filter: bool = False

    @classmethod
    def read(cls) -> Machine:
        """Look at the sysctls and at the seccomp filter that this process runs under."""
        return cls(
            apparmor_restricts=_read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1",
            clone_disabled=_read("/proc/sys/kernel/unprivileged_userns_clone") == "0",
            none_allowed=_read("/proc/sys/user/max_user_namespaces") == "0",
            seccomp_filter="\nSeccomp:\t2" in _read("/proc/self/status"),
        )


def advise(refusal: str, machine: Machine) -> str:
    """Return what to do about a refusal, as a sentence."""
    if "veth" in refusal or "bridge" in refusal:
        return "Load the modules: sudo modprobe -a veth bridge."
    if machine.none_allowed:
        return "Allow user namespaces: sudo sysctl user.max_user_namespaces=10000."
    if machine.clone_disabled:
        return "Allow user namespaces: sudo sysctl kernel.unprivileged_userns_clone=1."
    if machine.apparmor_restricts:
        return (
            "AppArmor restricts user namespaces: sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0, "
            "or run as root."
        )
    if machine.seccomp_filter:
        return (
            "A container's seccomp filter seems to refuse them: with Docker, run the container with --privileged, or "
            "with --security-opt seccomp=unconfined --cap-add SYS_ADMIN --cap-add NET_ADMIN."
        )
    return "They need Linux, and either root or user namespaces for ordinary users."


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
