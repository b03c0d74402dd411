"""
The `host` executor: pods share the network and the file system of this machine, where namespaces are not to be had.

What differs from a cluster is rewritten (`rewrite`): names of peers, ports, mount paths. A mount is a symbolic link
where one can be made and nobody else needs that path; else its path is rewritten in arguments and environment; if it
does not occur there, the program would not find its files, and the start fails and says so. `read_only`, `uid` and
`gid` cannot be honoured. Hostnames stay the machine's. Killing works by walking the process tree (`helper.tree`).
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from typing import TYPE_CHECKING, Final

import structlog

from ktrain.local.sandbox.channel import Refused
from ktrain.local.sandbox.executor import SandboxError, StartError
from ktrain.local.sandbox.rewrite import LOOPBACK, Ports, Rewriter, replace_path
from ktrain.local.sandbox.supervised import SupervisedExecutor, SupervisedSandbox

if TYPE_CHECKING:
    from pathlib import Path

    from ktrain.local.sandbox.executor import Mount, ProcessSpec, SandboxSpec
    from ktrain.local.sandbox.helper_client import Helper
    from ktrain.local.sandbox.wire import Frame

log = structlog.get_logger(__name__)

_LO: Final = "lo" if sys.platform.startswith("linux") else "lo0"
# Gloo and its like bind to the address of the hostname, which on a shared host is not where peers look: 127.0.0.1.
_INTERFACES: Final = {"GLOO_SOCKET_IFNAME": _LO, "TP_SOCKET_IFNAME": _LO, "NCCL_SOCKET_IFNAME": _LO}
# What the machine has there does as well.
_SHARED_WITH_HOST: Final = frozenset({"/dev/shm"})  # noqa: S108 - not a temporary file, a mount point


class HostSandbox(SupervisedSandbox):
    """A pod on the shared host."""

    def __init__(self, spec: SandboxSpec, helper: Helper, key: int, links: _Links, attempt: _Attempt) -> None:
        super().__init__(spec, helper, key, LOOPBACK)
        self._links = links
        self._attempt = attempt
        self._rewriter = Rewriter(spec.namespace, spec.subdomain if spec.rewrites_names else "", attempt.ports.port_of)

    def rewrite(self, text: str) -> str:
        """Peer names become 127.0.0.1, ports beside them this attempt's."""
        return self._rewriter.text(text)

    async def prepare(self, process: ProcessSpec) -> Frame:
        """Rewrite what the program is given, and link its mounts."""
        argv, env, cwd = self._rewriter.argv(process.argv), self._rewriter.env(process.env), process.cwd
        env = _INTERFACES | env
        paths = await self._unlinkable(process)
        for target, (source, why) in paths.items():
            before = (argv, env, cwd)
            argv = tuple(replace_path(argument, target, source) for argument in argv)
            env = {name: replace_path(value, target, source) for name, value in env.items()}
            cwd = replace_path(cwd, target, source)
            if before == (argv, env, cwd) and why:
                raise StartError(
                    f"cannot mount {target} on the shared host: {why}, and neither command nor environment mention it, "
                    "so it cannot be rewritten; run with network namespaces (--pods ns) or use another mountPath"
                )
        return {
            "argv": argv,
            "env": env,
            "cwd": cwd,
            "uid": None,
            "gid": None,
            "groups": (),
            "mounts": [],
            "memory_limit": process.memory_limit,
            "terminal": process.stdio is not None and process.stdio.terminal,
            "stage": "",
        }

    async def release(self) -> None:
        """Give links and ports back."""
        try:
            await self._links.release(self._key)
        finally:
            self._attempt.leave(self._key)

    async def _unlinkable(self, process: ProcessSpec) -> dict[str, tuple[str, str]]:
        """Return target -> (source, why not) of what must be rewritten, longest path first; link the rest."""
        paths: dict[str, tuple[str, str]] = {}
        if process.termination_log is not None:
            # Programs that do not know their path write nothing; the kubelet then falls back to the log.
            paths[process.termination_path] = (str(process.termination_log), "")
        for mount in sorted((*self.spec.mounts, *process.mounts), key=lambda mount: mount.target):
            if mount.target not in _SHARED_WITH_HOST and (why := await self._links.make(self._key, mount)):
                paths[mount.target] = (str(mount.source), "" if mount.optional else why)
        return dict(sorted(paths.items(), key=lambda item: -len(item[0])))


class _Links:
    """The symbolic links of this runner. The helper makes them, so that they go with it whatever happens."""

    def __init__(self, helper: Helper) -> None:
        self._helper = helper
        self._users: defaultdict[str, set[int]] = defaultdict(set)
        self._sources: dict[str, Path] = {}

    async def make(self, user: int, mount: Mount) -> str:
        """Link a mount for a sandbox; returns why that is impossible, or nothing."""
        target = mount.target.rstrip("/")
        if _is_shown(mount.source, target):
            self._users[target].add(user)
            return ""
        if target in self._sources:
            return "another pod has mounted something else there"
        try:
            await self._helper.channel.request({"op": "link", "source": str(mount.source), "target": target})
        except Refused as refused:
            return str(refused)
        self._sources[target] = mount.source
        self._users[target].add(user)
        return ""

    async def release(self, user: int) -> None:
        """Take away the links that only this sandbox used."""
        for target in [target for target, users in self._users.items() if user in users]:
            self._users[target].discard(user)
            if self._users[target]:
                continue
            del self._users[target]
            if self._sources.pop(target, None) is not None:
                try:
                    await self._helper.channel.request({"op": "unlink", "target": target})
                except Refused as refused:
                    log.warning("sandbox.link_not_removed", target=target, error=str(refused))
                except SandboxError:
                    pass  # The helper has taken all links away at its end.


def _is_shown(source: Path, target: str) -> bool:
    if not source.exists():
        raise StartError(f"{source}: nothing there to mount at {target}")
    return os.path.realpath(target) == os.path.realpath(source)


class _Attempt:
    """The ports that the pods of one attempt of a job share, until the last of them is gone."""

    def __init__(self, taken: set[int]) -> None:
        self.ports = Ports(taken)
        self.members: set[int] = set()

    def leave(self, member: int) -> None:
        self.members.discard(member)
        if not self.members:
            self.ports.release()


class HostExecutor(SupervisedExecutor):
    """Pods on the shared host."""

    name = "host"

    def __init__(self, helper: Helper, directory: Path) -> None:
        super().__init__(helper, directory)
        self._links = _Links(helper)
        self._ports_taken: set[int] = set()
        self._attempts: dict[str, _Attempt] = {}

    async def create_sandbox(self, spec: SandboxSpec) -> HostSandbox:
        """Fork the pod; see `executor.Executor.create_sandbox`."""
        key = next(self._keys)
        self._attempts = {name: attempt for name, attempt in self._attempts.items() if attempt.members}
        attempt = self._attempts.setdefault(spec.attempt or spec.uid, _Attempt(self._ports_taken))
        attempt.members.add(key)
        sandbox = HostSandbox(spec, self._helper, key, self._links, attempt)
        await self._open(sandbox, dict)
        return sandbox
