"""
What an operator answers when it is asked from outside: probes, scrapes, admission reviews, and people with a question.

Registered piece by piece while an operator is put together, and made into servers when it runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from ktrain.framework.serving.address import parse_address
from ktrain.framework.serving.authorization import Authorizer
from ktrain.framework.serving.debug import DebugServer
from ktrain.framework.serving.health import HealthServer, MetricsServer, Note, cache_check
from ktrain.framework.serving.self_signed import SelfSigned
from ktrain.framework.webhook.certificates import CertificateDirectory
from ktrain.framework.webhook.server import WebhookServer

if TYPE_CHECKING:
    from collections.abc import Callable

    from ktrain.framework.controller.controller import Controller
    from ktrain.framework.election.election import LeaderElection
    from ktrain.framework.env import Env
    from ktrain.framework.manager.groups import Runnable
    from ktrain.framework.metrics import Metrics
    from ktrain.framework.serving.health import Check, Route
    from ktrain.framework.webhook.admission import Handlers
    from ktrain.framework.webhook.certificates import CertificateSource
    from ktrain.framework.webhook.conversion import Conversion

    from .clusters import Cluster
    from .settings import Settings

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Servers:
    """The servers of a running operator; None for those that nobody asked for."""

    health: HealthServer | None = None
    debug: DebugServer | None = None
    metrics: MetricsServer | None = None
    webhooks: WebhookServer | None = None

    def started(self) -> list[Runnable]:
        """Those that the manager runs, in the order in which they start. Probes answer before there is a manager."""
        return [one for one in (self.debug, self.metrics, self.webhooks) if one is not None]


@dataclass(slots=True)
class Endpoints:
    """What was registered."""

    live: dict[str, Check] = field(default_factory=dict)
    ready: dict[str, Check] = field(default_factory=dict)
    routes: dict[str, Route] = field(default_factory=dict)
    admission: dict[str, Handlers] = field(default_factory=dict)
    conversions: list[Conversion] = field(default_factory=list)
    certificates: CertificateSource | None = None

    def probes(self, settings: Settings, election: LeaderElection | None, starting: Check) -> HealthServer | None:
        """Make the server of probes as it is during the start: live, and ready only when `starting` says so."""
        if (address := parse_address(settings.health_address)) is None:
            return None
        ready = {"startup": starting}
        return HealthServer(*address, live=self._live(election), ready=ready, aliases=settings.health_aliases)

    def serve(
        self,
        settings: Settings,
        env: Env,
        metrics: Metrics,
        clusters: list[Cluster],
        election: LeaderElection | None,
        controllers: Callable[[], list[Controller]],
        health: HealthServer | None,
    ) -> Servers:
        """
        Make the servers that the settings ask for, and have `health` ask all checks.

        The first cluster is the operator's own.
        """
        webhooks = self._webhooks(settings, env, metrics)
        if health is not None:
            health.use(live=self._live(election), ready=self._ready(clusters, election, webhooks))
        return Servers(
            health=health,
            debug=_debug(settings, clusters, controllers),
            metrics=self._metrics(settings, env, metrics, clusters[0]),
            webhooks=webhooks,
        )

    def _live(self, election: LeaderElection | None) -> dict[str, Check]:
        return {**({} if election is None else {"leader-election": election.check}), **self.live}

    def _ready(
        self, clusters: list[Cluster], election: LeaderElection | None, webhooks: WebhookServer | None
    ) -> dict[str, Check]:
        ready: dict[str, Check] = {_check_name(cluster): cache_check(cluster.cache) for cluster in clusters}
        if election is not None:
            # A standby is ready: it serves webhooks, and a rollout must not wait for it to lead.
            ready["leader-election"] = lambda: election.refusal() or Note(election.describe())
        if webhooks is not None:
            ready["webhooks"] = webhooks.check
        return {**ready, **self.ready}

    def _metrics(self, settings: Settings, env: Env, metrics: Metrics, main: Cluster) -> MetricsServer | None:
        if (address := parse_address(settings.metrics_address)) is None or metrics.registry is None:
            return None
        certificates: CertificateSource | None = None
        if settings.metrics_tls:
            directory = settings.metrics_cert_dir
            certificates = (
                SelfSigned(env) if directory is None else CertificateDirectory(directory, env, metrics=metrics)
            )
        authorizer = Authorizer(main.unguarded, env) if settings.metrics_auth else None
        return MetricsServer(
            *address,
            metrics.registry,
            certificates=certificates,
            tls_minimum=settings.tls_minimum,
            authorizer=authorizer,
            routes=self.routes,
        )

    def _webhooks(self, settings: Settings, env: Env, metrics: Metrics) -> WebhookServer | None:
        address = parse_address(settings.webhook_address)
        if address is None or not (self.admission or self.conversions):
            return None
        host, port = address
        certificates = self.certificates or settings.webhook_cert_dir
        server = WebhookServer(
            self.admission,
            certificates,
            env,
            host=host,
            port=port,
            tls_minimum=settings.tls_minimum,
            metrics=metrics,
        )
        for conversion in self.conversions:
            server.conversion(conversion)
        return server


def register(registered: dict[str, T], name: str, what: T) -> None:
    """Add something under a name. ValueError if the name is taken."""
    if name in registered:
        raise ValueError(f"there is something at {name!r} already")
    registered[name] = what


def _debug(
    settings: Settings, clusters: list[Cluster], controllers: Callable[[], list[Controller]]
) -> DebugServer | None:
    if (address := parse_address(settings.debug_address)) is None:
        return None
    caches = {cluster.name: cluster.cache for cluster in clusters}
    return DebugServer(*address, controllers=controllers, caches=caches)


def _check_name(cluster: Cluster) -> str:
    return f"informers-{cluster.name}" if cluster.name else "informers"
