"""The operator, put together: what `ktrain operator` was asked for, in the terms of the framework."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import structlog

from ktrain.api.trainer import FIELD_MANAGER
from ktrain.controllers import runtimes, trainjob, webhooks
from ktrain.controllers.build_info import expose_build
from ktrain.controllers.served_jobsets import StartupRulesCheck
from ktrain.framework.election.election import Timing
from ktrain.framework.errors import FrameworkError
from ktrain.framework.operator.operator import Operator
from ktrain.framework.operator.settings import Settings
from ktrain.framework.parallel import first_cause
from ktrain.framework.telemetry import foreign
from ktrain.framework.telemetry.logging import AS_JSON, configure
from ktrain.framework.telemetry.tracing import Tracing
from ktrain.pipeline import PipelineError

from . import kubeflow, namespaces
from .certificates import manage_certificates
from .definition_fields import warn_of_missing_fields
from .durations import parse_duration
from .jobsets import add_jobsets
from .kubeflow import fail
from .plugin_choice import registry_of
from .readiness import kinds_check
from .startup import announce, connected
from .statuses import add_status_server

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from .config import Configuration

log: FilteringBoundLogger = structlog.get_logger("ktrain.operator")

TRAIN_JOB_KIND: Final = "TrainJob.trainer.kubeflow.org"
TRAIN_JOB_CONCURRENCY: Final = 16
EXIT_ERROR: Final = 1
SERVICE_NAME: Final = "ktrain-operator"
"""In traces, unless the environment has another (OTEL_SERVICE_NAME)."""


def operate(configuration: Configuration, kubeconfig: str | None, logs: kubeflow.Logs) -> int:
    """Run until SIGTERM or SIGINT; returns the exit code."""
    configure(level=logs.level, json=AS_JSON[logs.format])
    with foreign.adopted(logs.level):
        try:
            anyio.run(_operate, configuration, kubeconfig, logs)
        except Exception as error:  # the boundary of the process
            cause = first_cause(error)
            if isinstance(cause, FrameworkError | PipelineError | OSError | ValueError):
                return fail(_in_words(cause), logs, EXIT_ERROR)
            log.exception("operator.crashed")
            return EXIT_ERROR
    return 0


def _in_words(error: BaseException) -> str:
    """Write an error without the number that Python puts before those of the operating system."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) or repr(error)


async def _operate(configuration: Configuration, kubeconfig: str | None, logs: kubeflow.Logs) -> None:
    announce(configuration)
    kubeflow.warn(configuration, logs)
    namespaces.warn(configuration)
    tracing = Tracing.from_environment(SERVICE_NAME)
    async with Operator(trainjob.COMPONENT, settings_of(configuration, kubeconfig, logs), tracing=tracing) as operator:
        await operator.run(setup=partial(set_up, operator, configuration))


async def set_up(operator: Operator, configuration: Configuration) -> None:
    """Register all parts, once the API server says which kinds there are."""
    await connected(operator)
    client, cache, env = operator.client, operator.cache, operator.env
    metrics, tracing = operator.metrics, operator.tracing
    controls_jobsets = configuration.jobset.enable
    operator.ready_check("kinds", kinds_check(cache, operator.main.unguarded, with_jobset_controller=controls_jobsets))
    await warn_of_missing_fields(operator.main.unguarded, with_jobset_controller=controls_jobsets)
    managed = manage_certificates(operator, configuration) if configuration.cert_management.enable else None
    registry = await trainjob.without_unserved(registry_of(configuration), client, configuration.watch_namespaces)
    registry.calls.expose(metrics)
    expose_build(metrics, registry)
    concurrency = configuration.controller.group_kind_concurrency
    shared = trainjob.SharedSnapshots(client, cache, for_new_jobs=configuration.snapshots == "shared", metrics=metrics)
    job_metrics = trainjob.make_job_metrics(metrics, cache, env)
    if job_metrics is not None:
        operator.add(job_metrics)
    operator.add(trainjob.make_collector(shared, cache, env, metrics=metrics, tracing=tracing))
    sections = add_status_server(operator, configuration, managed)
    operator.add(
        trainjob.make_controller(
            client,
            cache,
            env,
            operator.recorder,
            registry,
            shared=shared,
            config=sections,
            shows_state=configuration.shows_state,
            max_concurrent_reconciles=concurrency.get(TRAIN_JOB_KIND, TRAIN_JOB_CONCURRENCY),
            metrics=metrics,
            job_metrics=job_metrics,
            tracing=tracing,
        )
    )
    for controller in runtimes.make_controllers(
        client, cache, env, concurrency=concurrency, metrics=metrics, tracing=tracing
    ):
        operator.add(controller)
    if controls_jobsets:
        await add_jobsets(operator, configuration)
    if configuration.webhook.enable:
        rules = StartupRulesCheck(client, cache, env, controls_jobsets=controls_jobsets)
        for path, handler in webhooks.make_handlers(cache, env, registry, sections).items():
            operator.admission(path, (handler, rules) if path == webhooks.VALIDATE_TRAIN_JOB else handler)


def settings_of(configuration: Configuration, kubeconfig: str | None, logs: kubeflow.Logs) -> Settings:
    """Return a configuration in the terms of the framework."""
    election, webhook, metrics = configuration.leader_election, configuration.webhook, configuration.metrics
    health = configuration.health
    return Settings(
        kubeconfig=kubeconfig,
        field_manager=FIELD_MANAGER,
        watch_namespaces=configuration.watch_namespaces,
        leader_election=election.resource_name if election.leader_elect else "",
        namespace=election.resource_namespace,
        timing=Timing(
            parse_duration(election.lease_duration),
            parse_duration(election.renew_deadline),
            parse_duration(election.retry_period),
        ),
        metrics_address=metrics.bind_address,
        metrics_tls=metrics.secure_serving,
        metrics_cert_dir=Path(metrics.cert_dir) if metrics.cert_dir else None,
        metrics_auth=metrics.authorized,
        health_address=health.health_probe_bind_address,
        health_aliases={
            health.liveness_endpoint_name.removeprefix("/"): "healthz",
            health.readiness_endpoint_name.removeprefix("/"): "readyz",
        },
        webhook_address=f"[{webhook.host}]:{webhook.port}" if ":" in webhook.host else f"{webhook.host}:{webhook.port}",
        webhook_cert_dir=Path(webhook.cert_dir),
        tls_minimum=configuration.tls.minimum,
        log_level=logs.level,
        log_format=logs.format,
    )
