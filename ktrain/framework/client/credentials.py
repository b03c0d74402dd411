"""
Where the API server is, whom it trusts, and who we are.

Which of these apply is found out by `finding.py`. Certificates and keys are paths of files, which somebody may renew,
or PEM text, as kubeconfigs and exec plugins carry it. OpenSSL reads keys from files only: PEM text is given to it
through a file in memory, or, where the system has none, a private file that exists while it is being read. So no key
of ours is ever left on a disk.
"""

from __future__ import annotations

import base64
import ssl
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ktrain.framework.errors import ConfigError
from ktrain.framework.private_file import private_file
from ktrain.framework.trust import trusting

if TYPE_CHECKING:
    from collections.abc import Mapping

Pem = str | bytes
"""The path of a file, or (bytes) PEM text itself."""
PemPair = tuple[Pem, Pem]
"""A certificate, with those between it and its authority, and its key."""


def bearer(token: str) -> dict[str, str]:
    """
    Return the header for a token.

    Raises:
        ConfigError: It is empty, or holds characters that no token has; a line break would begin a header of its own.
    """
    if not token:
        raise ConfigError("the token is empty")
    if not token.isprintable() or not token.isascii():
        raise ConfigError("the token holds a line break or another character that no token has")
    return {"Authorization": f"Bearer {token}"}


class Credentials(ABC):
    """Who we are: headers, or a certificate, or both. Its `repr` shows no secret."""

    __slots__ = ()

    @property
    def can_refresh(self) -> bool:
        """Whether anything new can come after a 401."""
        return False

    @property
    def client_cert(self) -> PemPair | None:
        """Certificate and key that came with the last headers, if these credentials bring their own."""
        return None

    def ready(self) -> Mapping[str, str] | None:
        """Headers for the next request if there are any without waiting; almost every request goes this way."""
        return None

    @abstractmethod
    async def headers(self, *, refused: Mapping[str, str] | None = None) -> Mapping[str, str]:
        """
        Headers for the next request; the same object as long as nothing has changed.

        Args:
            refused: What the server answered with 401. If that is what we would give, something newer is asked for.
        """

    def hold(self) -> None:
        """Note one more transport that uses these credentials; it gives them back by `release`, once."""
        return

    async def release(self) -> None:
        """Give them back. With their last user ends what runs on their behalf."""
        await self.aclose()

    async def aclose(self) -> None:
        """End what runs on behalf of these credentials, for all users. Idempotent; they can be used on."""
        return


@dataclass(frozen=True, slots=True)
class StaticToken(Credentials):
    """A token that does not change, or none."""

    token: str | None = field(default=None, repr=False)
    _headers: Mapping[str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_headers", bearer(self.token) if self.token else {})

    def ready(self) -> Mapping[str, str]:
        """Return the Authorization header."""
        return self._headers

    async def headers(self, *, refused: Mapping[str, str] | None = None) -> Mapping[str, str]:
        """Return the Authorization header."""
        return self._headers


@dataclass(frozen=True, slots=True)
class BasicLogin(Credentials):
    """A user name and a password, for proxies in front of API servers: those themselves know no passwords any more."""

    username: str
    password: str = field(repr=False)

    async def headers(self, *, refused: Mapping[str, str] | None = None) -> Mapping[str, str]:
        """Return the Authorization header."""
        login = base64.b64encode(f"{self.username}:{self.password}".encode()).decode()
        return refused or {"Authorization": f"Basic {login}"}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """
    One API server as one user.

    Args:
        url: `https://host:port`, perhaps with a path, without a slash at the end.
        credentials: Who we are.
        ca_file: Whom to trust; the system's authorities if this is None and there is no `ca_data`.
        ca_data: Whom to trust, as PEM text; stands above `ca_file`.
        client_cert: Certificate and key for TLS client authentication. Stands above what the credentials bring.
        verify: False trusts anybody (`insecure-skip-tls-verify`).
        server_name: The name to expect in the certificate, if not that of the URL.
        proxy: URL of an HTTP proxy (http or https).
        namespace: Where objects go that do not say (the context's, or the pod's own).
        headers: Sent with every request besides the credentials (impersonation); names may repeat.
    """

    url: str
    credentials: Credentials = field(default_factory=StaticToken)
    ca_file: str | None = None
    client_cert: PemPair | None = field(default=None, repr=False)
    verify: bool = True
    server_name: str | None = None
    proxy: str | None = field(default=None, repr=False)  # may hold a password
    namespace: str = "default"
    ca_data: str | None = field(default=None, repr=False)
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def identity(self) -> PemPair | None:
        """The certificate and key to use now."""
        return self.client_cert or self.credentials.client_cert

    @property
    def certificate_files(self) -> tuple[str, ...]:
        """The files that `ssl_context` is made from, which somebody may renew."""
        files = (self.ca_file, *(self.identity or ()))
        return tuple(file for file in files if isinstance(file, str))

    def ssl_context(self) -> ssl.SSLContext:
        """
        Build the TLS settings. Reads the certificate files.

        Raises:
            OSError: They cannot be read, or are no certificates (`ssl.SSLError`).
        """
        context = trusting(file=None if self.ca_data else self.ca_file, data=self.ca_data)
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.identity:
            _load_pair(context, self.identity)
        return context


def _load_pair(context: ssl.SSLContext, pair: PemPair) -> None:
    certificate, key = pair
    if isinstance(certificate, str) and isinstance(key, str):
        context.load_cert_chain(certificate, key, _no_password)
        return
    text = b"\n".join(part if isinstance(part, bytes) else Path(part).read_bytes() for part in pair)
    with private_file(text) as file:
        context.load_cert_chain(file, password=_no_password)


def _no_password() -> str:
    # Without this OpenSSL asks the terminal for the password, and the event loop waits for the answer.
    raise ConfigError("the client's key is encrypted: it must be one without a password")
