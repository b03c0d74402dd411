"""
The operator's configuration file (`config.trainer.kubeflow.org/v1alpha1 Configuration`): the part that has an effect.

Decoding is strict: a field that is not known here is an error that names it, because a knob that is silently ignored is
worse than none. Command line options win over the file.
"""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import yaml

from ktrain.framework.serving.address import parse_address

from .durations import parse_duration

API_VERSION: Final = "config.trainer.kubeflow.org/v1alpha1"
MAX_BYTES: Final = 1 << 20
RECONCILED_KINDS: Final = (
    "TrainJob.trainer.kubeflow.org",
    "TrainingRuntime.trainer.kubeflow.org",
    "ClusterTrainingRuntime.trainer.kubeflow.org",
    "JobSet.jobset.x-k8s.io",
)
FEATURE_GATES: Final = ("TrainJobStatus",)


class Section(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Base of all sections."""


class Webhook(Section, frozen=True):
    """The admission webhook server. `tls.crt` and `tls.key` are read from `cert_dir`, again when they change."""

    enable: bool = False
    host: str = ""
    """Address to listen on; empty: all."""
    port: int = 9443
    cert_dir: str = "/tmp/k8s-webhook-server/serving-certs"  # noqa: S108 -- upstream's path; the chart mounts a Secret there


class LeaderElection(Section, frozen=True):
    """Election of the one active replica, by a Lease. Durations as `15s`."""

    leader_elect: bool = False
    lease_duration: str = "15s"
    renew_deadline: str = "10s"
    retry_period: str = "2s"
    resource_name: str = "trainer.kubeflow.org"
    resource_namespace: str = ""
    """Namespace of the Lease; empty: the operator's own."""


class Metrics(Section, frozen=True):
    """The metrics endpoint."""

    bind_address: str = ":8080"
    """`host:port`; `0` switches it off."""
    secure_serving: bool = False
    """By TLS."""
    cert_dir: str = ""
    """`tls.crt` and `tls.key` are read from here, again when they change; empty: a certificate that the process signs
    for itself, which encrypts and proves nothing."""
    authorize: bool = False
    """Only those read metrics whose bearer token may `get` the path (TokenReview, SubjectAccessReview)."""


class Health(Section, frozen=True):
    """`/healthz` and `/readyz`."""

    health_probe_bind_address: str = ":8081"
    """`host:port`; `0` switches it off."""


class ControllerSection(Section, frozen=True):
    """How many objects of a kind are reconciled at a time, by `Kind.group`."""

    group_kind_concurrency: dict[str, int] = {}


class JobSets(Section, frozen=True):
    """The JobSet controller, for clusters where the JobSet operator does not run."""

    enable: bool = False
    feature_gates: dict[str, bool] = {}
    """RestartJob, ElasticJobSet, InPlaceRestart: off unless set here."""


class CertManagement(Section, frozen=True):
    """How others know the operator."""

    enable: bool = False
    """Make and renew the webhooks' certificate, and have API servers trust it; else `webhook.certDir` has one."""
    webhook_service_name: str = "kubeflow-trainer-controller-manager"
    """The Service in front of the operator: what the certificate is for, and by which pods reach the status server."""


class StatusServer(Section, frozen=True):
    """Where pods report their progress, with the feature gate TrainJobStatus. Its certificate is the webhooks'."""

    port: int = 10443
    qps: float = 180.0
    """Reports stored a second, by one replica; a report waits for its turn, and the newest of a job is stored."""
    burst: int = 20
    """Reports stored at once, after a while without any."""


class Configuration(Section, frozen=True):
    """The whole file."""

    api_version: str = API_VERSION
    kind: str = "Configuration"
    webhook: Webhook = Webhook()
    leader_election: LeaderElection = LeaderElection()
    metrics: Metrics = Metrics()
    health: Health = Health()
    controller: ControllerSection = ControllerSection()
    jobset: JobSets = JobSets()
    snapshots: Literal["perJob", "shared"] = "perJob"
    """What a new TrainJob's runtime is copied to: a ConfigMap of its own, or one for all jobs of its namespace."""
    cert_management: CertManagement = CertManagement()
    status_server: StatusServer = StatusServer()
    feature_gates: dict[str, bool] = {}
    """TrainJobStatus: off unless set here."""


class ConfigError(Exception):
    """The file cannot be used; the message names the file, the field and what was expected."""


def load(path: str) -> Configuration:
    """
    Read the file.

    Raises:
        ConfigError: Missing, too large, not YAML, an unknown field, a wrong type or a value out of range.
    """
    file = Path(path)
    try:
        if file.stat().st_size > MAX_BYTES:
            raise ConfigError(f"{path}: larger than {MAX_BYTES} bytes; that is no operator configuration")
        document: Any = yaml.safe_load(file.read_text())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not YAML: {error}") from error
    try:
        configuration = msgspec.convert(document or {}, Configuration)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {error}{_suggestion(str(error))}") from error
    check(configuration, path)
    return configuration


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
    _check_metrics(configuration.metrics, source)
    _check_jobset(configuration.jobset, source)
    _check_status_server(configuration, source)
    _check_certificates(configuration, source)
    for kind, number in configuration.controller.group_kind_concurrency.items():
        if kind not in RECONCILED_KINDS:
            known = ", ".join(RECONCILED_KINDS)
            raise ConfigError(f"{source}: controller.groupKindConcurrency: no kind {kind!r}; there are {known}")
        if number < 1:
            raise ConfigError(f"{source}: controller.groupKindConcurrency[{kind}]: must be greater than 0")


def _check_metrics(metrics: Metrics, source: str) -> None:
    if metrics.cert_dir and not metrics.secure_serving:
        raise ConfigError(f"{source}: metrics.certDir: it has no effect unless metrics.secureServing is true")
    if metrics.authorize and not metrics.secure_serving:
        why = "tokens would cross the network in the clear"
        raise ConfigError(f"{source}: metrics.authorize: needs metrics.secureServing, or {why}")


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
    if server.qps <= 0:
        raise ConfigError(f"{source}: statusServer.qps: must be greater than 0")
    if server.burst < 0:
        raise ConfigError(f"{source}: statusServer.burst: must be greater than or equal to 0")


def _check_certificates(configuration: Configuration, source: str) -> None:
    if not configuration.cert_management.enable:
        return
    if not configuration.webhook.enable:
        raise ConfigError(f"{source}: certManagement.enable: it has no effect unless webhook.enable is true")
    if configuration.feature_gates.get("TrainJobStatus"):
        why = "the status server takes its certificate from webhook.certDir, where it has to be mounted"
        raise ConfigError(f"{source}: certManagement.enable: {why}")


def msgspec_name(name: str) -> str:
    """The field's name in the file: camelCase."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


_SECTIONS: Final = (
    *(Configuration, Webhook, LeaderElection, Metrics, Health, ControllerSection, JobSets, CertManagement),
    StatusServer,
)


_KUBEFLOWS: Final = {
    "readinessEndpointName": "the path is /readyz, as Kubeflow Trainer's is whatever is set",
    "livenessEndpointName": "the path is /healthz, as Kubeflow Trainer's is whatever is set",
    "webhookSecretName": "with certManagement.enable it has the name of the Service; else mount it at webhook.certDir",
    "clientConnection": "requests are not limited by a rate; leave it out",
    "resourceLock": "it is always a Lease; leave it out",
    "auth": "set metrics.authorize",
    "tls": "leave it out",
}
"""Fields of Kubeflow Trainer's file that have no effect here, and what there is instead."""


def _suggestion(message: str) -> str:
    unknown = re.search(r"unknown field `([^`]+)`", message)
    if unknown is None:
        return ""
    name = unknown.group(1)
    if name in _KUBEFLOWS:
        return f"; Kubeflow Trainer's: {_KUBEFLOWS[name]}"
    names = [field.encode_name for section in _SECTIONS for field in msgspec.structs.fields(section)]
    close = difflib.get_close_matches(name, names, n=1)
    return f'; did you mean "{close[0]}"?' if close else ""
