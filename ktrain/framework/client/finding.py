"""
Which API server, and who we are: a kubeconfig that is named, `KUBECONFIG`, the pod's service account, `~/.kube/config`.

The order is controller-runtime's. A kubeconfig's fields become an `Endpoint`; where it gives one thing twice, client-go
decides: data stands above files, a token file above a token, and either above passwords, providers and plugins.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

import anyio.to_thread
import msgspec

from ktrain.framework.env import Env, system_env
from ktrain.framework.errors import ConfigError

from .credentials import BasicLogin, Credentials, Endpoint, StaticToken
from .exec_plugin import INTERACTIVE_MODES, VERSIONS, Cluster, ExecPlugin, Plugin
from .kubeconfig import ClusterFields, Kubeconfig, UserFields, kubeconfig_paths
from .oidc import OidcFields, OidcProvider
from .renewal import KubeconfigToken, TokenFile

if TYPE_CHECKING:
    from .credentials import Pem, PemPair
    from .kubeconfig import AuthProvider, Chosen, Entry, ExecFields

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
EXEC_EXTENSION: Final = "client.authentication.k8s.io/exec"
"""The extension of a cluster that is passed on to its exec plugins."""


async def find_endpoint(
    kubeconfig: str | None = None, context: str | None = None, *, env: Env | None = None
) -> Endpoint:
    """
    Find the API server: the kubeconfig named here, else `KUBECONFIG`, else the pod's own, else `~/.kube/config`.

    An exec plugin or identity provider is asked once, so that one that does not work is known at the start.

    Raises:
        ConfigError: There is none, or it cannot be used; the text names file, entry and field.
    """
    env = env or system_env()
    named = kubeconfig or os.environ.get("KUBECONFIG")
    if not named and not context and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return await anyio.to_thread.run_sync(in_cluster, SERVICE_ACCOUNT, env)
    endpoint = await anyio.to_thread.run_sync(read_endpoint, kubeconfig, context, env)
    try:
        await endpoint.credentials.headers()
    except BaseException:
        await endpoint.credentials.aclose()
        raise
    return endpoint


def in_cluster(mount: Path = SERVICE_ACCOUNT, env: Env | None = None) -> Endpoint:
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
        credentials=TokenFile(mount / "token", env),
        ca_file=str(mount / "ca.crt"),
        namespace=namespace,
    )


def read_endpoint(kubeconfig: str | None = None, context: str | None = None, env: Env | None = None) -> Endpoint:
    """
    Return the endpoint of a context of a kubeconfig. Reads files, runs nothing.

    Raises:
        ConfigError: It cannot be used.
    """
    chosen = Kubeconfig(kubeconfig_paths(kubeconfig)).choose(context)
    cluster = chosen.cluster.read(ClusterFields)
    url = cluster.server.rstrip("/")
    if urlsplit(url).scheme not in {"http", "https"}:
        raise chosen.cluster.error("server is no http or https URL")
    ca_file, ca_data = _authorities(chosen.cluster, cluster.certificate_authority, cluster.certificate_authority_data)
    user = chosen.user.read(UserFields) if chosen.user else UserFields()
    return Endpoint(
        url=url,
        credentials=_credentials(chosen, cluster, user, env or system_env()),
        ca_file=ca_file,
        ca_data=ca_data,
        client_cert=_client_cert(chosen.user, user),
        verify=not cluster.insecure_skip_tls_verify,
        server_name=cluster.tls_server_name,
        proxy=_proxy(chosen.cluster, cluster),
        namespace=chosen.namespace,
        headers=_impersonation(chosen.user, user),
    )


def _authorities(
    entry: Entry, path: str | None, data: str | None, field: str = "certificate-authority"
) -> tuple[str | None, str | None]:
    """Whom to trust: a file, or PEM text."""
    if data:
        try:
            return None, entry.pem(f"{field}-data", data).decode("ascii")
        except UnicodeDecodeError:
            raise entry.error(f"{field}-data is not PEM") from None
    return (entry.path(path) if path else None), None


def _client_cert(entry: Entry | None, user: UserFields) -> PemPair | None:
    if entry is None:
        return None
    certificate = _pem(entry, "client-certificate", user.client_certificate, user.client_certificate_data)
    key = _pem(entry, "client-key", user.client_key, user.client_key_data)
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        given, missing = ("client-key", "client-certificate") if key else ("client-certificate", "client-key")
        raise entry.error(f"{given} is given without {missing}")
    return certificate, key


def _pem(entry: Entry, field: str, path: str | None, data: str | None) -> Pem | None:
    if data:
        return entry.pem(f"{field}-data", data)
    return entry.path(path) if path else None


def _proxy(entry: Entry, cluster: ClusterFields) -> str | None:
    if not cluster.proxy_url:
        return None
    if (scheme := urlsplit(cluster.proxy_url).scheme) not in {"http", "https"}:
        raise entry.error(f"proxy-url: proxies of scheme {scheme!r} are not supported, only http and https")
    return cluster.proxy_url


def _impersonation(entry: Entry | None, user: UserFields) -> tuple[tuple[str, str], ...]:
    if entry is None:
        return ()
    headers = []
    if user.impersonate_uid:
        headers.append(("Impersonate-Uid", user.impersonate_uid))
    headers += [("Impersonate-Group", group) for group in user.impersonate_groups or ()]
    for name, values in (user.impersonate_extra or {}).items():
        # Names of headers have few characters; the API server decodes what is quoted.
        headers += [(f"Impersonate-Extra-{quote(name.lower(), safe='')}", value) for value in values]
    if user.impersonate:
        headers.insert(0, ("Impersonate-User", user.impersonate))
    elif headers:
        raise entry.error("as-uid, as-groups and as-user-extra need as")
    if any(character in value for _, value in headers for character in "\r\n\0"):
        raise entry.error("what is impersonated holds a line break")
    return tuple(headers)


def _credentials(chosen: Chosen, cluster: ClusterFields, user: UserFields, env: Env) -> Credentials:
    entry = chosen.user
    if entry is None:
        return StaticToken()
    if credentials := _plain(entry, user, env):
        return credentials
    if user.exec and user.auth_provider:
        raise entry.error("exec and auth-provider exclude each other")
    if user.auth_provider:
        return _oidc(entry, user.auth_provider, env)
    if user.exec:
        told = _told(chosen.cluster, cluster) if user.exec.provide_cluster_info else None
        return ExecPlugin(_plugin(entry, user.exec, told), env)
    return StaticToken()


def _plain(entry: Entry, user: UserFields, env: Env) -> Credentials | None:
    """What stands in the entry itself."""
    if user.token_file:
        return TokenFile(Path(entry.path(user.token_file)), env, token=user.token or "")
    if user.token:
        return KubeconfigToken(user.token, partial(_token_now, entry), env)
    if user.username:
        return BasicLogin(user.username, user.password or "")
    return None


def _token_now(entry: Entry) -> str:
    """The token of the same user in the same file; not of the current context, which may be another cluster's now."""
    now = Kubeconfig([entry.file]).find("users", entry.name)
    return (now.read(UserFields).token or "") if now else ""


def _plugin(entry: Entry, fields: ExecFields, cluster: Cluster | None) -> Plugin:
    if fields.api_version not in VERSIONS:
        raise entry.error(f"exec.apiVersion is {fields.api_version!r}; known are {' and '.join(VERSIONS)}")
    mode = fields.interactive_mode or "IfAvailable"
    if mode not in INTERACTIVE_MODES:
        raise entry.error(f"exec.interactiveMode is {mode!r}; known are {', '.join(INTERACTIVE_MODES)}")
    if not fields.command:
        raise entry.error("exec.command is empty")
    return Plugin(
        # A bare name is looked up in PATH; anything with a separator is a path, which may be relative to the file.
        command=entry.path(fields.command) if os.sep in fields.command else fields.command,
        args=tuple(fields.args or ()),
        env={variable.name: variable.value for variable in fields.env or ()},
        api_version=fields.api_version,
        interactive_mode=mode,
        install_hint=fields.install_hint or "",
        cluster=cluster,
        named_by=repr(entry),
    )


def _oidc(entry: Entry, provider: AuthProvider, env: Env) -> OidcProvider:
    if provider.name != "oidc":
        raise entry.error(
            f"auth-provider {provider.name!r} is not known, only oidc is: what kubectl once had built in are exec "
            "plugins now (for example gke-gcloud-auth-plugin, kubelogin)"
        )
    try:
        fields = msgspec.convert(provider.config, OidcFields)
    except msgspec.ValidationError as error:
        raise entry.error(f"auth-provider.config: {error}") from None
    ca_file, ca_data = _authorities(
        entry, fields.idp_certificate_authority, fields.idp_certificate_authority_data, "idp-certificate-authority"
    )
    return OidcProvider(fields, repr(entry), ca_file=ca_file, ca_data=ca_data, env=env)


def _told(entry: Entry, cluster: ClusterFields) -> Cluster:
    ca_file, ca_data = _authorities(entry, cluster.certificate_authority, cluster.certificate_authority_data)
    extensions = {extension.name: extension.extension for extension in cluster.extensions or ()}
    return Cluster(
        server=cluster.server,
        tls_server_name=cluster.tls_server_name,
        verify=not cluster.insecure_skip_tls_verify,
        ca_file=ca_file,
        ca_data=ca_data,
        proxy=cluster.proxy_url,
        config=extensions.get(EXEC_EXTENSION),
    )
