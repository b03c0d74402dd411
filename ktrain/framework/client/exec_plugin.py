"""
Credentials from a program: `exec` in a kubeconfig (client.authentication.k8s.io, v1 and v1beta1).

The program learns what is asked of it from the variable KUBERNETES_EXEC_INFO and answers with an ExecCredential: a
token, a client certificate, or both, and until when they are good. The answer holds secrets, so no error repeats it;
what the program writes to stderr is for people, and its end is part of the error.
"""

from __future__ import annotations

import base64
import os
import shutil
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import anyio.to_thread
import msgspec

from ktrain.framework.errors import ConfigError

from .credentials import bearer
from .plugin_process import MAX_OUTPUT_BYTES, OutputTooLong, run
from .renewal import Grant, Renewed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ktrain.api.meta import Json
    from ktrain.framework.env import Env

TIMEOUT_S: Final = 120.0
"""For one run; some open a browser and wait for a person."""
MIN_LIFE_S: Final = 10.0
"""An answer is used at least so long, even if by our clock it is over: clocks differ, and plugins cost."""
RENEWED_AT: Final = (0.75, 0.85)
"""Part of its life at which an answer is renewed, between these at random."""
VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
INTERACTIVE_MODES: Final = ("Never", "IfAvailable", "Always")


@dataclass(frozen=True, slots=True)
class Cluster:
    """What a plugin is told of the API server if it asks (`provideClusterInfo`)."""

    server: str
    tls_server_name: str | None = None
    verify: bool = True
    ca_file: str | None = None
    ca_data: str | None = field(default=None, repr=False)
    proxy: str | None = field(default=None, repr=False)
    config: Any = None  # JSON edge: what the plugin wants

    def as_json(self) -> Json:
        """Return the `spec.cluster` of the plugin's input. Reads the file of authorities."""
        authorities = self.ca_data or (Path(self.ca_file).read_text() if self.ca_file else "")
        told: Json = {
            "server": self.server,
            "tls-server-name": self.tls_server_name,
            "insecure-skip-tls-verify": None if self.verify else True,
            "certificate-authority-data": base64.b64encode(authorities.encode()).decode(),
            "proxy-url": self.proxy,
            "config": self.config,
        }
        return {name: value for name, value in told.items() if value not in (None, "")}


@dataclass(frozen=True, slots=True)
class Plugin:
    """
    A program that knows who we are.

    Args:
        command: Its name, looked up in PATH, or its path.
        args: Its arguments.
        env: Added to our own variables.
        api_version: One of `VERSIONS`.
        interactive_mode: One of `INTERACTIVE_MODES`: whether it may ask a person at the terminal.
        install_hint: For people who do not have it.
        cluster: What it is told of the API server, if anything.
        named_by: Where it is written, for errors.
    """

    command: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    api_version: str = VERSIONS[0]
    interactive_mode: str = "IfAvailable"
    install_hint: str = ""
    cluster: Cluster | None = None
    named_by: str = "the kubeconfig"


class _Status(msgspec.Struct, rename="camel", gc=False):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, rename="camel", gc=False):
    api_version: str
    kind: str
    status: _Status | None = None


class ExecPlugin(Renewed):
    """
    Credentials of a plugin. It is run on first use, before its answer's end, and after a 401, once at a time.

    Args:
        plugin: What to run.
        env: Time, and randomness for the moment of renewal.
        timeout_s: For one run.
    """

    refused_every_s: ClassVar[float] = 5.0

    def __init__(self, plugin: Plugin, env: Env | None = None, *, timeout_s: float = TIMEOUT_S) -> None:
        super().__init__(env)
        self._plugin = plugin
        self._timeout_s = timeout_s

    async def obtain(self, last: Grant | None, *, refused: bool) -> Grant:  # newer versions take no response
        """Run the plugin and read its answer."""
        return self._grant_of(self._read(await self._answer()))

    async def _answer(self) -> bytes:
        plugin = self._plugin
        interactive = self._is_interactive()
        env = {**os.environ, **plugin.env, "KUBERNETES_EXEC_INFO": await self._info(interactive=interactive)}
        program = await anyio.to_thread.run_sync(shutil.which, plugin.command, os.X_OK, env.get("PATH"))
        if program is None:
            raise self._error("is not there, or cannot be executed" + _hint(plugin.install_hint))
        try:
            ended = await run((program, *plugin.args), env, timeout_s=self._timeout_s, interactive=interactive)
        except TimeoutError:
            raise self._error(f"gave no answer within {self._timeout_s:g} s and was killed") from None
        except OutputTooLong:
            raise self._error(f"wrote more than {MAX_OUTPUT_BYTES >> 20} MiB to stdout and was killed") from None
        except OSError as error:
            raise self._error(f"cannot be started: {error.strerror}{_hint(plugin.install_hint)}") from error
        if ended.code:
            how = f"ended with code {ended.code}" if ended.code > 0 else f"was killed by signal {-ended.code}"
            said = ended.errors.strip()
            raise self._error(f"{how}; the end of its stderr: {said}" if said else f"{how} without a word on stderr")
        return ended.output

    def _is_interactive(self) -> bool:
        mode = self._plugin.interactive_mode
        has_terminal = sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
        if mode == "Always" and not has_terminal:
            raise self._error("wants to ask somebody (interactiveMode: Always), but stdin is no terminal")
        return mode != "Never" and has_terminal

    async def _info(self, *, interactive: bool) -> str:
        spec: Json = {"interactive": interactive}
        if self._plugin.cluster:
            try:
                spec["cluster"] = await anyio.to_thread.run_sync(self._plugin.cluster.as_json)
            except (OSError, UnicodeDecodeError) as error:
                raise self._error(f"cannot be told the cluster's certificate authority: {error}") from error
        info = {"apiVersion": self._plugin.api_version, "kind": "ExecCredential", "spec": spec}
        return msgspec.json.encode(info).decode()

    def _read(self, answer: bytes) -> _Status:
        try:
            credential = msgspec.json.decode(answer, type=_ExecCredential)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            # The answer itself may hold a token; the decoder's errors name positions and fields only.
            raise self._error(f"gave an answer that is no ExecCredential: {error}") from None
        expected = ("ExecCredential", self._plugin.api_version)
        if (credential.kind, credential.api_version) != expected:
            raise self._error(
                f"answered with {credential.kind[:80]} of {credential.api_version[:80]}, "
                f"not with {' of '.join(expected)}"
            )
        status = credential.status
        if status is None or not (status.token or status.client_certificate_data):
            raise self._error("gave neither a token nor a client certificate")
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise self._error("gave only one of clientCertificateData and clientKeyData")
        return status

    def _grant_of(self, status: _Status) -> Grant:
        try:
            headers = bearer(status.token) if status.token else {}
        except ConfigError as error:
            raise self._error(f"gave no usable answer: {error}") from None
        pair = None
        if status.client_certificate_data and status.client_key_data:
            pair = (status.client_certificate_data.encode(), status.client_key_data.encode())
        if status.expiration_timestamp is None:
            return Grant(headers, pair)
        end = status.expiration_timestamp
        end = end if end.tzinfo else end.replace(tzinfo=UTC)
        # Measured from here on by the monotonic clock: a step of the wall clock must not end it, nor prolong it.
        life_s = max((end - self._env.clock.now()).total_seconds(), MIN_LIFE_S)
        return Grant(headers, pair, renew_after_s=life_s * self._env.random.uniform(*RENEWED_AT), lasts_s=life_s)

    def _error(self, what: str) -> ConfigError:
        return ConfigError(f"the exec plugin {self._plugin.command} of {self._plugin.named_by} {what}")


def _hint(text: str) -> str:
    return f"; {text.strip()}" if text.strip() else ""
