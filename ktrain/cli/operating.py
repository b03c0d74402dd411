"""The operator, put together: controllers, election, probes, metrics and webhooks in one manager."""

from __future__ import annotations

import gc
import os
import secrets
import signal
import socket
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import click
import structlog

from ktrain.api.trainer import FIELD_MANAGER
from ktrain.controllers import runtimes, trainjob, webhooks
from ktrain.framework.cache.cache import Cache
from ktrain.framework.client.client import Client
from ktrain.framework.client.http import HttpTransport, connect
from ktrain.framework.election import LeaderElection, Timing
from ktrain.framework.env import Env, system_env
from ktrain.framework.errors import FrameworkError
from ktrain.framework.events import EventRecorder
from ktrain.framework.health import HealthServer, MetricsServer, cache_check
from ktrain.framework.logging import configure
from ktrain.framework.manager import Manager, Service
from ktrain.framework.metrics import Metrics
from ktrain.framework.parallel import first_cause
from ktrain.framework.webhook import WebhookServer
from ktrain.pipeline import Registry

from .config import parse_address
from .durations import parse_duration

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from .config import Configuration

NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
TRAIN_JOB_KIND: Final = "TrainJob.trainer.kubeflow.org"
TRAIN_JOB_CONCURRENCY: Final = 16
EXIT_ERROR: Final = 1

log = structlog.get_logger(__name__)


def operate(configuration: Configuration, kubeconfig: str | None) -> int:
    """Run until SIGTERM or SIGINT; returns the exit code."""
    configure()
    try:
        anyio.run(_operate, configuration, kubeconfig)
    except Exception as error:
        cause = first_cause(error)
        if not isinstance(cause, FrameworkError | OSError | ValueError):
            raise
        click.echo(f"ktrain: {cause}", err=True)
        return EXIT_ERROR
    return 0


async def _operate(configuration: Configuration, kubeconfig: str | None) -> None:
    async with AsyncExitStack() as stack:
        transport = await connect(kubeconfig)
        stack.push_async_callback(transport.aclose)
        manager = await _build(configuration, kubeconfig, transport, stack)
        # What was loaded to start lives as long as the process. A full collection that walks over it takes 70 ms, in
        # which nothing else runs.
        gc.collect()
        gc.freeze()
        async with anyio.create_task_group() as group:
            group.start_soon(manager.run)
            with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
                async for signum in signals:
                    log.info("operator.stopping", signal=signum.name)
                    break
            group.cancel_scope.cancel()


async def _build(
    configuration: Configuration, kubeconfig: str | None, transport: HttpTransport, stack: AsyncExitStack
) -> Manager:
    env = system_env()
    prometheus = _prometheus(configuration)
    metrics = Metrics(prometheus)
    election = await _election(configuration, kubeconfig, env, metrics, stack)
    client = Client(
        transport, env, field_manager=FIELD_MANAGER, guard=election.guard if election else None, metrics=metrics
    )
    cache = Cache(client, env)
    # Without the guard: events are sent to the end, also when the lease has been given up.
    recorder = EventRecorder(Client(transport, env, field_manager=FIELD_MANAGER), env, component=trainjob.COMPONENT)
    registry = await trainjob.without_unserved(Registry.load(), client)
    concurrency = configuration.controller.group_kind_concurrency
    controllers = [
        trainjob.make_controller(
            client,
            cache,
            env,
            recorder,
            registry,
            max_concurrent_reconciles=concurrency.get(TRAIN_JOB_KIND, TRAIN_JOB_CONCURRENCY),
            metrics=metrics,
        ),
        *runtimes.make_controllers(client, cache, env, concurrency=concurrency, metrics=metrics),
    ]
    services: list[Service] = []
    if (address := parse_address(configuration.health.health_probe_bind_address)) is not None:
        services.append(HealthServer(*address, ready={"informers": cache_check(cache)}))
    if prometheus is not None and (address := parse_address(configuration.metrics.bind_address)) is not None:
        services.append(MetricsServer(*address, prometheus))
    if configuration.webhook.enable:
        services.append(_webhooks(configuration, cache, env, registry, metrics))
    return Manager(cache=cache, controllers=controllers, services=services, recorder=recorder, leader_election=election)


def _prometheus(configuration: Configuration) -> CollectorRegistry | None:
    if configuration.metrics.bind_address == "0":
        return None
    from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector

    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    return registry


async def _election(
    configuration: Configuration, kubeconfig: str | None, env: Env, metrics: Metrics, stack: AsyncExitStack
) -> LeaderElection | None:
    settings = configuration.leader_election
    if not settings.leader_elect:
        return None
    # Its own connection: renewals that queue behind other calls are how leases are lost.
    transport = await connect(kubeconfig)
    stack.push_async_callback(transport.aclose)
    return LeaderElection(
        Client(transport, env, field_manager=FIELD_MANAGER),
        env,
        name=settings.resource_name,
        namespace=settings.resource_namespace or _own_namespace(),
        identity=f"{socket.gethostname()}_{secrets.token_hex(8)}",
        timing=Timing(
            parse_duration(settings.lease_duration),
            parse_duration(settings.renew_deadline),
            parse_duration(settings.retry_period),
        ),
        metrics=metrics,
    )


def _own_namespace() -> str:
    """
    The namespace this pod runs in.

    Raises:
        ValueError: Not in a pod; the Lease's namespace must be configured.
    """
    if namespace := os.environ.get("POD_NAMESPACE"):
        return namespace
    try:
        return NAMESPACE_FILE.read_text().strip()
    except OSError:
        raise ValueError(
            "leader election outside of a cluster needs to know where its Lease lives: set "
            "leaderElection.resourceNamespace in --config, or the variable POD_NAMESPACE"
        ) from None


def _webhooks(
    configuration: Configuration, cache: Cache, env: Env, registry: Registry, metrics: Metrics
) -> WebhookServer:
    settings = configuration.webhook
    handlers = webhooks.make_handlers(cache, env, registry)
    return WebhookServer(
        handlers, Path(settings.cert_dir), env, host=settings.host, port=settings.port, metrics=metrics
    )
