from __future__ import annotations

import subprocess
import sys

import pytest

from ktrain.local.sandbox.probe import Machine, advise, choose

# Gives up, for itself and what it starts, what namespaces need; then asks for an executor.
REFUSED = """
import asyncio, ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
uid, gid = os.getuid(), os.getgid()
if uid == 0:
    assert libc.prctl(24, 21, 0, 0, 0) == 0  # PR_CAPBSET_DROP, CAP_SYS_ADMIN
else:
    assert libc.unshare(0x10000000) == 0  # CLONE_NEWUSER, in which no further one is allowed
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        open(f"/proc/self/{name}", "w").write(text)
    open("/proc/sys/user/max_user_namespaces", "w").write("0")
os.execv(sys.executable, [sys.executable, "-c", '''
import asyncio
from ktrain.local.sandbox.probe import choose

async def main():
    for mode in ("auto", "ns"):
        choice = await choose(mode)
        print(choice.executor.name, choice.reason, flush=True)
        await choice.executor.aclose()

asyncio.run(main())
'''])
"""


@pytest.mark.ns
async def test_auto_prefers_namespaces() -> None:
    choice = await choose("auto")
    try:
        if choice.executor.name != "ns":
            pytest.skip(choice.reason)
        assert choice.reason == "each pod has a network of its own"
        assert list(choice.executor.directory.glob("*probe*")) == []
    finally:
        await choice.executor.aclose()


async def test_host_is_taken_when_asked_for() -> None:
    choice = await choose("host")
    await choice.executor.aclose()

    assert (choice.executor.name, choice.executor.gateway) == ("host", "127.0.0.1")


@pytest.mark.ns
def test_where_namespaces_are_refused_auto_falls_back_and_says_why_and_ns_fails() -> None:
    done = subprocess.run([sys.executable, "-c", REFUSED], capture_output=True, text=True, check=False)
    if "AssertionError" in done.stderr:
        pytest.skip("this machine refuses to refuse")

    assert done.stdout.startswith(
        "host pods share this machine's network: network namespaces are refused here (unshare"
    )
    assert "SandboxError: network namespaces are refused here (unshare" in done.stderr


@pytest.mark.parametrize(
    ("refusal", "machine", "expected"),
    [
        ("veth pair veth1: Operation not supported", Machine(), "modprobe"),
        ("unshare: No space left on device", Machine(none_allowed=True), "user.max_user_namespaces"),
        ("unshare: Operation not permitted", Machine(clone_disabled=True), "kernel.unprivileged_userns_clone"),
        ("/proc/self/setgroups: Permission denied", Machine(apparmor_restricts=True), "AppArmor"),
        ("unshare: Operation not permitted", Machine(seccomp_filter=True), "seccomp=unconfined"),
        ("unshare: Operation not permitted", Machine(), "need Linux"),
    ],
)
def test_the_advice_fits_what_refused(refusal, machine, expected) -> None:
    assert expected in advise(refusal, machine)


def test_this_machine_can_be_read() -> None:
    assert isinstance(Machine.read(), Machine)
