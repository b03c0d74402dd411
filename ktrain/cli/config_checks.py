"""What cannot work of an operator's configuration, by the path of the field."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ktrain.framework.cache.scope import namespaces_problem
from ktrain.framework.serving.address import parse_address
from ktrain.plugins.jobset import JobSet

from .config import API_VERSION, FEATURE_GATES, RECONCILED_KINDS, ConfigError, msgspec_name
from .durations import parse_duration

if TYPE_CHECKING:
    from .config import Configuration, Health, JobSets, Metrics

_ENDPOINT: Final = re.compile(r"/?[A-Za-z0-9._~-]{1,63}")


def check(configuration: Configuration, source: str) -> None:
    """Refuse values that cannot work, naming their path."""
    if (configuration.api_version, configuration.kind) != (API_VERSION, "Configuration"):
        raise ConfigError(f"{source}: expected apiVersion {API_VERSION} and kind Configuration")
    election = configuration.leader_election
    durations = {}
    for name in ("lease_duration", "renew_deadline", "retry_period"):
        try:
            durations[name] = parse_duration(getattr(election, name))
        except ValueError as error:
            raise ConfigError(f"{source}: leaderElection.{msgspec_name(name)}: {error}") from error
    if not durations["lease_duration"] > durations["renew_deadline"] > durations["retry_period"] * 1.2:
        raise ConfigError(f"{source}: leaderElection: leaseDuration > renewDeadline > 1.2 x retryPeriod is needed")
    for path, address in (
        ("metrics.bindAddress", configuration.metrics.bind_address),
        ("health.healthProbeBindAddress", configuration.health.health_probe_bind_address),
    ):
        try:
            parse_address(address)
        except ValueError as error:
            raise ConfigError(f"{source}: {path}: {error}") from error
    if not 1 <= configuration.webhook.port <= 65535:
        raise ConfigError(f"{source}: webhook.port: must be between 1 and 65535")
    if problem := namespaces_problem(configuration.watch_namespaces):
        raise ConfigError(f"{source}: watchNamespaces: {problem}")
    _check_endpoints(configuration.health, source)
    _check_metrics(configuration.metrics, source)
    _check_jobset(configuration.jobset, source)
    _check_status_server(configuration, source)
    if JobSet.name in configuration.plugins.disabled:
        raise ConfigError(f"{source}: plugins.disabled: without {JobSet.name} no TrainJob could run")
    if configuration.cert_management.enable and not configuration.webhook.enable:
        raise ConfigError(f"{source}: certManagement.enable: it has no effect unless webhook.enable is true")
    _check_limits(configuration, source)


def _check_limits(configuration: Configuration, source: str) -> None:
    connection = configuration.client_connection
    for name, limit in (("qps", connection.qps), ("burst", connection.burst)):
        if limit is not None and limit < 0:
            raise ConfigError(f"{source}: clientConnection.{name}: must be greater than or equal to 0")
    for kind, number in configuration.controller.group_kind_concurrency.items():
        if kind not in RECONCILED_KINDS:
            known = ", ".join(RECONCILED_KINDS)
            raise ConfigError(f"{source}: controller.groupKindConcurrency: no kind {kind!r}; there are {known}")
        if number < 1:
            raise ConfigError(f"{source}: controller.groupKindConcurrency[{kind}]: must be greater than 0")


def _check_endpoints(health: Health, source: str) -> None:
    names = {
        "livenessEndpointName": health.liveness_endpoint_name,
        "readinessEndpointName": health.readiness_endpoint_name,
    }
    for field, name in names.items():
        if not _ENDPOINT.fullmatch(name):
            raise ConfigError(f"{source}: health.{field}: {name!r} is not one segment of a path")
    if len({name.removeprefix("/") for name in names.values()}) == 1:
        raise ConfigError(f"{source}: health.readinessEndpointName: it is that of liveness")


def _check_metrics(metrics: Metrics, source: str) -> None:
    if metrics.cert_dir and not metrics.secure_serving:
        raise ConfigError(f"{source}: metrics.certDir: it has no effect unless metrics.secureServing is true")
    if metrics.authorized and not metrics.secure_serving:
        name = "authorize" if metrics.authorize else "auth.enabled"
        why = "tokens would cross the network in the clear"
        raise ConfigError(f"{source}: metrics.{name}: needs metrics.secureServing, or {why}")


def _check_jobset(jobset: JobSets, source: str) -> None:
    from ktrain.controllers.jobset import Gates

    try:
        Gates.of(jobset.feature_gates)
    except ValueError as error:
        raise ConfigError(f"{source}: jobset.featureGates: {error}") from error
    if any(jobset.feature_gates.values()) and not jobset.enable:
        raise ConfigError(f"{source}: jobset.featureGates: they have no effect unless jobset.enable is true")


def _check_status_server(configuration: Configuration, source: str) -> None:
    for gate in configuration.feature_gates:
        if gate not in FEATURE_GATES:
            raise ConfigError(f"{source}: featureGates: no feature gate {gate!r}; there is {', '.join(FEATURE_GATES)}")
    server = configuration.status_server
    if not 1 <= server.port <= 65535:
        raise ConfigError(f"{source}: statusServer.port: must be between 1 and 65535")
    for name, limit in (("qps", server.qps), ("burst", server.burst)):
        if limit < 0:
            raise ConfigError(f"{source}: statusServer.{name}: must be greater than or equal to 0")
