"""
Where a server's certificate comes from, and how it is exchanged while the server serves.

A source hands over a pair at once and then each new one. New connections get it; those that are open go on. A pair
that does not fit (half-written files, a key of another certificate) is refused before it can touch what is served.

Python can load a pair into a TLS context only in two steps, between which a handshake would fail. So each pair gets a
context of its own, and a new connection is moved to the latest when it says hello.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

import anyio
import anyio.to_thread
import structlog

from ktrain.framework.metrics import Metrics
from ktrain.framework.metrics.webhook import CertificateMetrics
from ktrain.framework.private_file import private_file
from ktrain.framework.trust import trusting

if TYPE_CHECKING:
    from pathlib import Path

    from anyio.abc import TaskStatus
    from structlog.typing import FilteringBoundLogger

    from ktrain.framework.env import Env

log: FilteringBoundLogger = structlog.get_logger("ktrain.framework.webhook")

RELOAD_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate (its chain too, if it has one) and its key, both PEM. The key is in no repr."""

    certificate: bytes
    key: bytes = field(repr=False)


Use = Callable[[KeyPair], Awaitable[None]]
"""Serve this pair from now on. Raises OSError (ssl.SSLError is one) if it does not fit; then nothing has changed."""


class CertificateSource(Protocol):
    """Hands over pairs to serve with."""

    async def run(self, use: Use, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Call `use` with the first pair, report started, then call it with each new one until cancelled."""


class CertificateDirectory:
    """
    A pair in a directory, as Secrets are mounted and cert-manager writes it: `tls.crt` and `tls.key`.

    Both files are read every 10 seconds and compared with what is served: a mounted Secret changes by swapping a
    symlink, which leaves no trace in the times of the files.

    Args:
        directory: Holds the files.
        env: Time.
        metrics: For readings and those that failed.
    """

    def __init__(self, directory: Path, env: Env, *, metrics: Metrics | None = None) -> None:
        self._directory = directory
        self._env = env
        self._metrics = CertificateMetrics.of(metrics or Metrics())

    async def run(self, use: Use, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Follow the directory until cancelled. OSError if there is no usable pair at the start."""
        self._metrics.reads()
        try:
            served = await anyio.to_thread.run_sync(self._read)
        except OSError as error:
            what = (
                "tls.crt and tls.key must be there: mount a Secret, or have certificates made (SelfManagedCertificates)"
            )
            raise OSError(error.errno, f"{error.strerror}; {what}", error.filename) from error
        await self._exchange(use, served)
        task_status.started()
        while True:
            await self._env.clock.sleep(RELOAD_S)
            self._metrics.reads()
            try:
                pair = await anyio.to_thread.run_sync(self._read)
                if pair == served:
                    continue
                await self._exchange(use, pair)
            except OSError as error:
                self._metrics.read_errors()
                log.warning("webhook.certificate_unreadable", directory=str(self._directory), error=str(error))
            else:
                served = pair
                log.info("webhook.certificate_reloaded", directory=str(self._directory))

    async def _exchange(self, use: Use, pair: KeyPair) -> None:
        """Serve a pair. OSError that names the file which is wrong."""
        try:
            await use(pair)
        except OSError as error:
            from . import authority

            found = await anyio.to_thread.run_sync(authority.problem, pair)
            file, what = found or ("tls.crt", f"it cannot be served: {error}")
            raise OSError(f"{self._directory / file}: {what}") from error

    def _read(self) -> KeyPair:
        return KeyPair((self._directory / "tls.crt").read_bytes(), (self._directory / "tls.key").read_bytes())


class SharedCertificates:
    """
    One source for several servers: the first runs the source, and what it serves the others serve, too.

    Args:
        source: Run by whoever runs this.
    """

    def __init__(self, source: CertificateSource) -> None:
        self._source = source
        self._served: KeyPair | None = None
        self._changed = anyio.Event()

    async def run(self, use: Use, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Run the source, and tell the others."""

        async def use_and_tell(pair: KeyPair) -> None:
            await use(pair)
            self._served = pair
            self._changed.set()
            self._changed = anyio.Event()

        await self._source.run(use_and_tell, task_status=task_status)

    def follower(self) -> CertificateSource:
        """Return a source for another server of this process. It waits for the first pair."""
        return _Follower(self)

    async def newer_than(self, pair: KeyPair | None) -> KeyPair:
        """Wait until another pair than this one is served."""
        while self._served is None or self._served == pair:
            await self._changed.wait()
        return self._served


class _Follower:
    def __init__(self, shared: SharedCertificates) -> None:
        self._shared = shared

    async def run(self, use: Use, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        pair: KeyPair | None = None
        while True:
            pair = await self._shared.newer_than(pair)
            await use(pair)
            task_status.started()
            task_status = anyio.TASK_STATUS_IGNORED


class ServingContext:
    """
    The TLS context of a server whose certificate changes: give `context` to the listener, and pairs to `use`.

    Args:
        client_ca: Whoever connects must present a certificate of one of these CAs (a PEM file); without it, anybody
            may. It is read again with each new pair.
        tls_minimum: The oldest version of TLS that is spoken.
    """

    def __init__(self, client_ca: Path | None = None, *, tls_minimum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2) -> None:
        self._client_ca = client_ca
        self._tls_minimum = tls_minimum
        self._latest: ssl.SSLContext | None = None
        self.certificate: bytes = b""
        """What is served now, PEM."""
        self.context: ssl.SSLContext = self._new()
        self.context.sni_callback = self._greet

    async def use(self, pair: KeyPair) -> None:
        """Serve new connections with this pair. OSError if it does not fit, or the CA cannot be read."""
        self._latest = await anyio.to_thread.run_sync(self._load, pair)
        self.certificate = pair.certificate

    def _load(self, pair: KeyPair) -> ssl.SSLContext:
        context = self._new()
        with private_file(pair.key.rstrip() + b"\n" + pair.certificate) as file:
            context.load_cert_chain(file, password=_no_password)
        return context

    def _new(self) -> ssl.SSLContext:
        context = trusting(ssl.Purpose.CLIENT_AUTH, file=self._client_ca)
        context.minimum_version = self._tls_minimum
        if self._client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _greet(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        if self._latest is not None:
            connection.context = self._latest


def _no_password() -> bytes:
    """Keep OpenSSL from asking a terminal for the password of an encrypted key."""
    raise ssl.SSLError("the key is encrypted")
