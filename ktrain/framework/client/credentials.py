"""
Where the API server is, whom it trusts, and who we are.

Three sources: a plain URL with a token; the service account that Kubernetes mounts into pods; a kubeconfig. The first
two need nothing but the standard library. A kubeconfig (exec plugins, OIDC, client certificates, several files) is read
by kubernetes_asyncio, which is imported here only and then only: it costs 0.3 s and 60 MB.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import anyio.to_thread

from ktrain.framework.errors import ConfigError

if TYPE_CHECKING:
    from kubernetes_asyncio.client import Configuration

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN_AGE_S: Final = 60.0
"""The kubelet replaces a bound token at 80 % of its life of an hour: reading it once a minute is early enough."""

LOAD_TIMEOUT_S: Final = 120.0
"""For an exec plugin or an identity provider; some open a browser and wait for a person."""


class Credentials(Protocol):
    """Who we are, as headers."""

    @property
    def can_refresh(self) -> bool:
        """Whether `fresh` can give anything new."""

    async def headers(self, *, fresh: bool = False) -> dict[str, str]:
        """Headers for the next request; `fresh` after the server said 401."""


@dataclass(frozen=True, slots=True)
class StaticToken:
    """A token that does not change, or none."""

    token: str | None = field(default=None, repr=False)
    can_refresh: bool = field(default=False, init=False)

    async def headers(self, *, fresh: bool = False) -> dict[str, str]:  # noqa: ARG002 - the protocol's
        """Return the Authorization header."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


class TokenFile:
    """A token in a file that somebody else renews. If the file cannot be read, the last token is used on."""

    can_refresh = True

    def __init__(self, path: Path) -> None:
        self._path = path
        self._token = ""
        self._read_at_s = float("-inf")

    async def headers(self, *, fresh: bool = False) -> dict[str, str]:
        """Return the Authorization header; reads the file at most once a minute, or if `fresh`."""
        now = asyncio.get_running_loop().time()
        if fresh or now - self._read_at_s > TOKEN_AGE_S:
            self._read_at_s = now
            try:
                text = await anyio.to_thread.run_sync(self._path.read_text, abandon_on_cancel=True)
                self._token = text.strip() or self._token
            except OSError as error:
                if not self._token:
                    raise ConfigError(f"the token file {self._path} cannot be read: {error}") from error
        return {"Authorization": f"Bearer {self._token}"}


class KubeconfigUser:
    """The user of a kubeconfig's context. Its token file, exec plugin or OIDC provider is asked again after a 401."""

    can_refresh = True

    def __init__(self, token: str, kubeconfig: str | None, context: str | None) -> None:
        self._token = token
        self._kubeconfig = kubeconfig
        self._context = context
        self._refreshing: asyncio.Task[None] | None = None

    async def headers(self, *, fresh: bool = False) -> dict[str, str]:
        """Return the Authorization header; if `fresh`, after loading the kubeconfig again, once for all who wait."""
        if fresh:
            if self._refreshing is None or self._refreshing.done():
                self._refreshing = asyncio.create_task(self._refresh(), name="refresh credentials")
            # Shielded: a caller whose time is up must not end it for the others, nor leave a plugin behind per call.
            await asyncio.shield(self._refreshing)
        return {"Authorization": self._token} if self._token else {}

    async def _refresh(self) -> None:
        configuration, _ = await _load(self._kubeconfig, self._context)
        self._token = _token_of(configuration)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """
    One API server as one user.

    Args:
        url: `https://host:port`, without a path at the end.
        credentials: Who we are.
        ca_file: Whom to trust; the system's authorities if None.
        client_cert: Certificate and key files, for TLS client authentication.
        verify: False trusts anybody (`insecure-skip-tls-verify`).
        server_name: The name to expect in the certificate, if not that of the URL.
        proxy: URL of an HTTP proxy.
        namespace: Where objects go that do not say (the context's, or the pod's own).
    """

    url: str
    credentials: Credentials = field(default_factory=StaticToken)
    ca_file: str | None = None
    client_cert: tuple[str, str] | None = None
    verify: bool = True
    server_name: str | None = None
    proxy: str | None = None
    namespace: str = "default"

    @property
    def certificate_files(self) -> tuple[str, ...]:
        """The files that `ssl_context` is made from, which somebody may renew."""
        return (*((self.ca_file,) if self.ca_file else ()), *(self.client_cert or ()))

    def ssl_context(self) -> ssl.SSLContext:
        """Build the TLS settings. Reads the certificate files."""
        context = ssl.create_default_context(cafile=self.ca_file)
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        # Authorities made by older tools lack fields that Python 3.13 insists on.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if self.client_cert:
            context.load_cert_chain(*self.client_cert)
        return context


async def find_endpoint(kubeconfig: str | None = None, context: str | None = None) -> Endpoint:
    """
    Find the API server: the kubeconfig named here, else `KUBECONFIG`, else the pod's own, else `~/.kube/config`.

    Raises:
        ConfigError: There is none, or it cannot be read.
    """
    named = kubeconfig or os.environ.get("KUBECONFIG")
    if not named and not context and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return await anyio.to_thread.run_sync(in_cluster)
    configuration, namespace = await _load(named, context)
    return Endpoint(
        url=(configuration.host or "").rstrip("/"),
        credentials=KubeconfigUser(_token_of(configuration), named, context),
        ca_file=configuration.ssl_ca_cert,
        client_cert=(configuration.cert_file, configuration.key_file or "") if configuration.cert_file else None,
        verify=configuration.verify_ssl,
        server_name=configuration.tls_server_name,
        proxy=configuration.proxy,
        namespace=namespace,
    )


def in_cluster(mount: Path = SERVICE_ACCOUNT) -> Endpoint:
    """
    Return the endpoint that a pod's service account is for. Reads files.

    Raises:
        ConfigError: This process is in no pod, or the pod mounts no service account.
    """
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise ConfigError("KUBERNETES_SERVICE_HOST is not set: this is no pod of a cluster")
    try:
        namespace = (mount / "namespace").read_text().strip()
    except OSError as error:
        raise ConfigError(f"no service account is mounted into this pod ({error})") from error
    return Endpoint(
        url=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        credentials=TokenFile(mount / "token"),
        ca_file=str(mount / "ca.crt"),
        namespace=namespace,
    )


async def _load(kubeconfig: str | None, context: str | None) -> tuple[Configuration, str]:
    """Load a kubeconfig: what to connect to, and the context's namespace."""
    from kubernetes_asyncio.client import Configuration
    from kubernetes_asyncio.config import load_kube_config

    # The library has read KUBECONFIG when it was imported; the path is passed so that this does not matter.
    path = kubeconfig or _home_kubeconfig()
    configuration = Configuration()
    try:
        async with asyncio.timeout(LOAD_TIMEOUT_S):
            loader = await load_kube_config(path, context, configuration, persist_config=False)
    except TimeoutError as error:
        raise ConfigError(
            f"the kubeconfig {path} cannot be used: its exec plugin or identity provider gave no answer within "
            f"{LOAD_TIMEOUT_S:g} s"
        ) from error
    except Exception as error:  # on a malformed file the library raises whatever it trips over
        raise ConfigError(f"the kubeconfig {path} cannot be used: {error}") from error
    current = loader.current_context or {}
    return configuration, current.get("context", {}).get("namespace") or "default"


def _home_kubeconfig() -> str:
    return str(Path("~/.kube/config").expanduser())


def _token_of(configuration: Configuration) -> str:
    token: str = configuration.api_key.get("BearerToken", "")
    return token
