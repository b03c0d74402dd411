"""
A whole operator in one object: what every operator needs, connected as it has to be.

    async with Operator("website", Settings(leader_election="website", metrics_address=":8080")) as op:
        websites = op.cache.informer(WEBSITES)
        controller = op.controller("website", reconcile)
        controller.watches(websites)
        await op.run()

There is nothing here that cannot be put together by hand from the parts (`Manager`, `Client`, `Cache`,
`LeaderElection`, ...); what it saves is knowing how they belong together:

- the election has a connection of its own, which nothing else can fill, and no guard
- clients for controllers have the election's guard: no write leaves once another could lead
- events, and what runs in every replica, have no guard: they are not the leader's
- probes answer before anything is asked of the API server, metrics before caches fill, webhooks before what they
  convert is listed
- signals ask for the end of the manager, never cancel it: the lease is given up in order

Who wants a part to be different takes this file as the recipe.
"""

from __future__ import annotations

import gc
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Self, Unpack

import anyio
import structlog

from ktrain.api.meta import Key
from ktrain.framework.client.finding import find_endpoint
from ktrain.framework.client.http import HttpTransport
from ktrain.framework.controller.controller import Controller
from ktrain.framework.controller.stuck import LoopWatchdog
from ktrain.framework.election.lease import own_namespace
from ktrain.framework.env import Env, system_env
from ktrain.framework.manager.manager import Manager
from ktrain.framework.manager.signals import until_signal
from ktrain.framework.metrics import Metrics
from ktrain.framework.metrics.exposition import process_registry
from ktrain.framework.serving.address import parse_address
from ktrain.framework.telemetry import foreign
from ktrain.framework.telemetry.logging import AS_JSON, configure
from ktrain.framework.telemetry.tracing import Tracing
from ktrain.framework.webhook.injection import REGISTRATIONS_CHECK, WebhookAddress
from ktrain.framework.webhook.selfmanaged import SelfManagedCertificates

from .clusters import Cluster, ClusterMaker
from .endpoints import Endpoints, Servers, register
from .settings import ControllerOptions, Settings
from .startup import Startup, running

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from anyio.abc import TaskStatus
    from prometheus_client import CollectorRegistry
    from structlog.typing import FilteringBoundLogger

    from ktrain.framework.cache.cache import Cache
    from ktrain.framework.client.client import Client
    from ktrain.framework.client.transport import Transport
    from ktrain.framework.controller.controller import Reconcile
    from ktrain.framework.election.election import LeaderElection
    from ktrain.framework.events import EventRecorder
    from ktrain.framework.manager.groups import Runnable
    from ktrain.framework.serving.health import Check, HealthServer, Route
    from ktrain.framework.webhook.admission import Handlers
    from ktrain.framework.webhook.certificates import CertificateSource
    from ktrain.framework.webhook.conversion import Conversion
    from ktrain.framework.webhook.injection import Registrations

log: FilteringBoundLogger = structlog.get_logger("ktrain.framework.operator")


class Operator:
    """
    An operator, from its connections to its end. An async context manager; inside, register what it does, then `run`.

    Args:
        name: In events, logs, audit logs, and as owner of fields.
        settings: How it runs.
        transport: To the API server, instead of the one that the settings lead to. In tests: the embedded server's, so
            that a whole operator runs in virtual time. Stays open afterwards.
        env: Time and randomness.
        registry: Where metrics are registered. Default: one of its own, if metrics are served.
        tracing: Default: none. `Tracing.from_environment(name)` for what the OTEL_* variables ask for; ended with this.

    Attributes:
        name: As given.
        settings: As given.
        env: For whatever waits or draws lots.
        metrics: For instruments of your own.
        tracing: For spans of your own.
        servers: Those there are, once `run` has been called, with the `port` that each has.
        startup: How far the start is; `setup` may say what it waits for.
    """

    def __init__(
        self,
        name: str,
        settings: Settings | None = None,
        *,
        transport: Transport | None = None,
        env: Env | None = None,
        registry: CollectorRegistry | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        self.name = name
        self.settings: Settings = settings or Settings()
        self.env: Env = env or system_env()
        if registry is None and parse_address(self.settings.metrics_address) is not None:
            registry = process_registry()
        self.metrics: Metrics = Metrics(registry)
        self.tracing: Tracing = tracing or Tracing()
        self._maker = ClusterMaker(name, self.settings, self.env, self.metrics, self.tracing)
        self.servers: Servers = Servers()
        self._transport = transport
        self._clusters: list[Cluster] = []
        self._runnables: list[Runnable] = []
        self._endpoints = Endpoints()
        self.startup: Startup = Startup()
        self._manager: Manager | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """
        Find the API server. Nothing is sent yet.

        Raises:
            ConfigError: No API server is configured.
            RuntimeError: It was entered before.
            ValueError: An election without a namespace for its Lease.
        """
        if self._clusters:
            raise RuntimeError(f"the operator {self.name} was connected before: make another one")
        if self.settings.owns_process:
            configure(level=self.settings.log_level, json=AS_JSON[self.settings.log_format])
        async with AsyncExitStack() as stack:
            if self.settings.owns_process:
                stack.enter_context(foreign.adopted(self.settings.log_level))
            transport = for_election = self._transport
            if transport is None or for_election is None:
                endpoint = await find_endpoint(self.settings.kubeconfig, self.settings.context)
                transport = await self._open(stack, HttpTransport(endpoint, user_agent=self._maker.user_agent()))
                if self.settings.leader_election:
                    agent = self._maker.user_agent("/leader-election")
                    for_election = await self._open(stack, HttpTransport(endpoint, user_agent=agent))
            self._clusters.append(self._maker.cluster("", transport, for_election=for_election))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections, and send what is left of the traces."""
        await self._stack.aclose()
        await self.tracing.aclose()

    # The parts

    @property
    def main(self) -> Cluster:
        """The operator's own cluster. RuntimeError outside of `async with`."""
        if not self._clusters:
            raise RuntimeError(f"the operator {self.name} is not connected: use `async with Operator(...) as op:`")
        return self._clusters[0]

    @property
    def election(self) -> LeaderElection | None:
        """None without one."""
        return self._maker.election

    @property
    def client(self) -> Client:
        """For controllers: writes only while this process leads."""
        return self.main.client

    @property
    def cache(self) -> Cache:
        """Where informers come from."""
        return self.main.cache

    @property
    def recorder(self) -> EventRecorder:
        """For events."""
        return self.main.recorder

    async def cluster(
        self,
        name: str,
        *,
        kubeconfig: str | None = None,
        context: str | None = None,
        transport: Transport | None = None,
    ) -> Cluster:
        """
        Join a further cluster, before `run`: its cache fills before any controller works. One lease, in the operator's
        own cluster, is for all of them.

        Args:
            name: In readiness; unique.
            kubeconfig: See `Settings`.
            context: See `Settings`.
            transport: Instead of both; stays open afterwards.

        Raises:
            ConfigError: There is no such cluster.
        """
        self._must_not_run("a cluster")
        if any(cluster.name == name for cluster in self._clusters):
            raise ValueError(f"there is a cluster named {name!r} already")
        if transport is None:
            endpoint = await find_endpoint(kubeconfig, context)
            transport = await self._open(self._stack, HttpTransport(endpoint, user_agent=self._maker.user_agent()))
        cluster = self._maker.cluster(name, transport)
        self._clusters.append(cluster)
        return cluster

    # What it does

    def controller(
        self, name: str, reconcile: Reconcile, *, cluster: Cluster | None = None, **options: Unpack[ControllerOptions]
    ) -> Controller:
        """
        Make a controller and have it run. Say afterwards what it watches.

        Args:
            name: In logs and metrics; unique.
            reconcile: See `Controller`.
            cluster: Whose cache shows the controller's own writes. Default: the operator's own.
            options: See `Controller`.

        Raises:
            ValueError: There is a controller of this name, whose metrics it would take over.
        """
        if any(controller.name == name for controller in self._controllers()):
            raise ValueError(f"there is a controller named {name!r} already")
        options.setdefault("sync_timeout_s", self.settings.sync_timeout_s)
        cache = (cluster or self.main).cache
        controller = Controller(
            name, reconcile, env=self.env, cache=cache, metrics=self.metrics, tracing=self.tracing, **options
        )
        self.add(controller)
        return controller

    def add(self, runnable: Runnable) -> None:
        """Have something run: a controller made elsewhere, or whatever else. Also during `run`; see `Manager.add`."""
        if self._manager is not None:
            self._manager.add(runnable)
        self._runnables.append(runnable)

    def admission(self, path: str, handlers: Handlers) -> None:
        """
        Answer admission reviews at a path, such as `/validate-website`, from every replica. Before `run`.

        Raises:
            ValueError: The path is taken, or is none.
        """
        self._must_not_run("a webhook")
        if not path.startswith("/"):
            raise ValueError(f"{path!r} is no path: it must start with /")
        register(self._endpoints.admission, path, handlers)

    def conversion(self, conversion: Conversion) -> None:
        """Convert objects of a kind between its versions, from every replica. Before `run`."""
        self._must_not_run("a webhook")
        self._endpoints.conversions.append(conversion)

    def certificates(self, source: CertificateSource) -> None:
        """
        Serve webhooks with certificates from here, not from `Settings.webhook_cert_dir`. Before `run`.

        For `SelfManagedCertificates`, which want `main.unguarded` as their client.
        """
        self._must_not_run("certificates")
        self._endpoints.certificates = source

    def manage_certificates(self, *, service: str, registrations: Registrations) -> None:
        """
        Serve webhooks with certificates that all replicas make, share and renew themselves. Before `run`.

        They are kept in a Secret with the Service's name, in the operator's namespace; `SelfManagedCertificates` says
        which rights that takes, and has more to choose from.

        Args:
            service: Through which the API server reaches the webhooks.
            registrations: Which configurations and definitions get their CA.

        Raises:
            ValueError: The operator's namespace is not known.
        """
        key = Key(self.settings.namespace or own_namespace("the Secret with its certificates"), service)
        source = SelfManagedCertificates(
            self.main.unguarded,
            self.env,
            secret=key,
            address=WebhookAddress.of_service(*key),
            registrations=registrations,
            metrics=self.metrics,
        )
        self.certificates(source)
        self.ready_check(REGISTRATIONS_CHECK, source.check)

    def metrics_route(self, path: str, route: Route) -> None:
        """Serve something of your own beside `/metrics`, on the same terms. Before `run`. ValueError if it is taken."""
        self._must_not_run("a route")
        register(self._endpoints.routes, path, route)

    def live_check(self, name: str, check: Check) -> None:
        """Have `/healthz` ask this: a failure asks for a restart. Before `run`. ValueError if the name is taken."""
        self._must_not_run("a check")
        register(self._endpoints.live, name, check)

    def ready_check(self, name: str, check: Check) -> None:
        """Have `/readyz` ask this: a failure keeps requests away from webhooks. Before `run`; ValueError as above."""
        self._must_not_run("a check")
        register(self._endpoints.ready, name, check)

    # Life

    async def run(
        self,
        *,
        setup: Callable[[], Awaitable[None]] | None = None,
        task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """
        Run until a signal, `stop` or cancellation; each way in order. Once.

        Args:
            setup: Registers what depends on what the cluster has. `/healthz` answers while it runs, and `/readyz` fails
                with what it waits for; so it may wait for an API server that is down. Cancelled by the wish to stop.
            task_status: Reports when everything has started.

        Raises:
            Exception: As `setup` and `Manager.run`.
        """
        if self.startup.began:
            raise RuntimeError(f"the operator {self.name} ran before: make another one")
        health = self._endpoints.probes(self.settings, self.election, self.startup.check)
        self.servers = Servers(health=health)
        async with AsyncExitStack() as stack:
            if self.settings.owns_process:
                await stack.enter_async_context(until_signal(self._on_signal))
            if health is not None:
                await stack.enter_async_context(running(health))
            if await self.startup.run(setup):
                await self._manage(health, task_status)

    def stop(self) -> None:
        """Ask for the end: `run` returns when everything has stopped in order."""
        self.startup.stop()
        if self._manager is not None:
            self._manager.stop()

    def _on_signal(self) -> None:
        log.info("operator.stopping", operator=self.name)
        self.stop()

    async def _manage(self, health: HealthServer | None, task_status: TaskStatus[None]) -> None:
        main, others = self.main, self._clusters[1:]
        self.servers = self._endpoints.serve(
            self.settings, self.env, self.metrics, self._clusters, self.election, self._controllers, health
        )
        self._manager = manager = Manager(
            cache=main.cache,
            caches=[cluster.cache for cluster in others],
            services=[*self._watchdog(), *self.servers.started(), *(cluster.recorder for cluster in others)],
            runnables=self._runnables,
            recorder=main.recorder,
            leader_election=self.election,
            sync_timeout_s=self.settings.sync_timeout_s,
            grace_s=self.settings.grace_s,
        )
        if self.settings.owns_process:
            # What was loaded to start lives as long as the process; a full collection would stop all else for 70 ms.
            gc.collect()
            gc.freeze()
        await manager.run(task_status=task_status)

    # How the parts belong together

    def _watchdog(self) -> list[Runnable]:
        return [LoopWatchdog(metrics=self.metrics)] if self.settings.owns_process else []

    def _controllers(self) -> list[Controller]:
        return [one for one in self._runnables if isinstance(one, Controller)]

    async def _open(self, stack: AsyncExitStack, transport: HttpTransport) -> HttpTransport:
        stack.push_async_callback(transport.aclose)
        return transport

    def _must_not_run(self, what: str) -> None:
        if self._manager is not None:
            raise RuntimeError(f"the operator {self.name} runs: it is too late for {what}")
