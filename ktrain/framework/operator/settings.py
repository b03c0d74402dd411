"""
What an operator is told when it starts: one frozen object, checked as a whole before anything runs.

Nothing is taken from the environment in secret: what is not said here has the default that is written here. Nothing
listens on a port unless asked to. Durations are seconds.
"""

from __future__ import annotations

import ipaddress
import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypedDict, get_args

from ktrain.framework.cache.scope import namespaces_problem
from ktrain.framework.election.election import Timing
from ktrain.framework.serving.address import parse_address

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ktrain.api.meta import Key
    from ktrain.framework.workqueue.limiters import Limiter

LogFormat = Literal["auto", "json", "text"]

OFF: Final = "0"
_NAME: Final = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
"""A DNS subdomain (RFC 1123): what the API server takes as the name of an object."""
CERT_DIR: Final = Path("/tmp/k8s-webhook-server/serving-certs")  # noqa: S108 - where charts of other runtimes mount it
_LEVELS: Final = ("debug", "info", "warning", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """
    How an `Operator` runs.

    Raises:
        ValueError: A value cannot work; the text names the setting and says what is expected.
    """

    kubeconfig: str | None = None
    """Path of a kubeconfig. Default: `$KUBECONFIG`, else the cluster this pod runs in, else `~/.kube/config`."""
    context: str | None = None
    """Context in the kubeconfig. Default: its current one."""
    field_manager: str = ""
    """Owner of the fields that the operator writes. Default: the operator's name."""

    watch_namespaces: tuple[str, ...] = ()
    """The namespaces to which informers of namespaced kinds are limited, each by a list and a watch of its own: Roles
    in these namespaces are enough. Default: all namespaces. See `Cache`."""

    leader_election: str = ""
    """Name of the Lease by which one of several replicas works. Default: none; then every replica works, so leave it
    so only where there is never a second one (a rolling update makes one)."""
    namespace: str = ""
    """Where the operator lives: of its Lease, and of the Secret with its certificates. Default: `$POD_NAMESPACE`, else
    that of the pod's service account, else an error for those who need it."""
    leader_election_labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Labels that the Lease gets, for whoever looks for it. Default: none."""
    identity: str = ""
    """Who holds the Lease. Default: host name and a random part. No two processes may share one."""
    timing: Timing = field(default_factory=Timing)
    """Lease duration, renew deadline, retry period. Default: 15, 10 and 2 s, as everywhere in Kubernetes."""

    metrics_address: str = OFF
    """`HOST:PORT` or `:PORT` of `/metrics`. Default: `0`, off; `:8080` is usual."""
    metrics_tls: bool = False
    """Serve metrics by TLS. Default: False, as most scrapers are set up for a cluster's own network."""
    metrics_cert_dir: Path | None = None
    """Directory with `tls.crt` and `tls.key` for metrics, read again when they change. Default: a certificate that
    this process signs for itself, which encrypts and proves nothing."""
    metrics_auth: bool = False
    """Let only those read metrics whose bearer token may `get` the path (TokenReview, SubjectAccessReview). Needs
    `metrics_tls`: tokens are passwords. Default: False."""
    health_address: str = OFF
    """`HOST:PORT` or `:PORT` of `/healthz` and `/readyz`. Default: `0`, off; `:8081` is usual."""
    health_aliases: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """More names of `healthz` and `readyz`, each one segment of a path. Default: none."""
    debug_address: str = OFF
    """`HOST:PORT` for a look inside: tasks with their stacks, queues, informers. Loopback only, as it asks nobody who
    they are. Default: `0`, off."""
    webhook_address: str = ":9443"
    """`HOST:PORT` or `:PORT` of the webhooks; opened only if there are any."""
    webhook_cert_dir: Path = CERT_DIR
    """Directory with `tls.crt` and `tls.key` for webhooks, read again when they change."""

    tls_minimum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    """The oldest version of TLS that webhooks and metrics are served by. Default: 1.2."""

    sync_timeout_s: float = 120.0
    """How long caches may take for their first content before the operator gives up. Long enough for 100,000 objects
    and a slow API server; a kind that is not installed is waited for without limit."""
    grace_s: float = 30.0
    """How long passes under way may take after the request to stop; 0: no time, negative: all they want. Kubernetes
    kills a pod after 30 s unless told otherwise (`terminationGracePeriodSeconds`): give it a few more."""

    owns_process: bool = True
    """Whether the process is the operator's: then it sets up logging, stops on SIGTERM and SIGINT (a second one exits
    with 1), and keeps the garbage collector off what was loaded at the start. False in tests and inside of programs."""
    log_level: str = "info"
    """debug, info, warning or error."""
    log_format: LogFormat = "auto"
    """`json`, `text`, or `auto`: text on a terminal, JSON elsewhere."""

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        for name in ("metrics_address", "health_address", "debug_address", "webhook_address"):
            try:
                address = parse_address(getattr(self, name))
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
            if name == "debug_address" and address is not None and not _is_loopback(address[0]):
                raise ValueError(f"debug_address: {self.debug_address!r} is not loopback (127.0.0.1:PORT, [::1]:PORT)")
        if problem := namespaces_problem(self.watch_namespaces):
            raise ValueError(f"watch_namespaces: {problem}")
        if self.leader_election and not _NAME.fullmatch(self.leader_election):
            raise ValueError(
                f"leader_election: no Lease can be named {self.leader_election!r}; lower case, digits, - and . are fine"
            )
        if self.metrics_auth and not self.metrics_tls:
            raise ValueError("metrics_auth: needs metrics_tls, or tokens would cross the network in the clear")
        if self.metrics_cert_dir is not None and not self.metrics_tls:
            raise ValueError("metrics_cert_dir: has no effect without metrics_tls")
        if self.sync_timeout_s <= 0:
            raise ValueError(f"sync_timeout_s: must be more than 0 s, not {self.sync_timeout_s:g}")
        if self.log_level not in _LEVELS:
            raise ValueError(f"log_level: {self.log_level!r} is not one of {', '.join(_LEVELS)}")
        if self.log_format not in get_args(LogFormat):
            raise ValueError(f"log_format: {self.log_format!r} is not one of {', '.join(get_args(LogFormat))}")


class ControllerOptions(TypedDict, total=False):
    """What `Operator.controller` passes on to `Controller`."""

    max_concurrent_reconciles: int
    reconcile_timeout_s: float | None
    sync_timeout_s: float
    limiter: Limiter[Key] | None
    ageing_s: float | None
    stuck_after_s: float | None
    needs_leader: bool


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
