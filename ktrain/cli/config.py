"""
The operator's configuration file (`config.trainer.kubeflow.org/v1alpha1 Configuration`): Kubeflow Trainer's, and more.

Decoding is strict: a field that is not known here is an error that names it, because a knob that is silently ignored is
worse than none. What Kubeflow Trainer 2.3 knows and has no effect here is taken, and said at the start
(`kubeflow.unheeded`). Command line options win over the file.
"""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import msgspec
import yaml

from ktrain.framework.cache.scope import namespaces_problem
from ktrain.framework.serving.address import parse_address

from .durations import parse_duration

if TYPE_CHECKING:
    from ssl import TLSVersion

    from ktrain.api.meta import JsonValue

API_VERSION: Final = "config.trainer.kubeflow.org/v1alpha1"
MAX_BYTES: Final = 1 << 20
RECONCILED_KINDS: Final = (
    "TrainJob.trainer.kubeflow.org",
    "TrainingRuntime.trainer.kubeflow.org",
    "ClusterTrainingRuntime.trainer.kubeflow.org",
    "JobSet.jobset.x-k8s.io",
)
TRAIN_JOB_STATUS: Final = "TrainJobStatus"
ALL_ALPHA: Final = "AllAlpha"
GENERIC_WORKLOAD: Final = "GenericWorkload"
TRAIN_JOB_STATE: Final = "TrainJobState"
ALL_BETA: Final = "AllBeta"
FEATURE_GATES: Final = (TRAIN_JOB_STATUS, GENERIC_WORKLOAD, TRAIN_JOB_STATE, ALL_ALPHA, ALL_BETA)
"""TrainJobStatus is alpha, GenericWorkload and TrainJobState are beta; the others stand for all of their stage."""
_ENDPOINT: Final = re.compile(r"/?[A-Za-z0-9._~-]{1,63}")


class Section(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Base of all sections."""


class Webhook(Section, frozen=True):
    """The admission webhook server. `tls.crt` and `tls.key` are read from `cert_dir`, again when they change."""

    enable: bool = False
    """In a file that has this section, or `certManagement.enable`, it is true unless it is set."""
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
    resource_lock: str = "leases"


class MetricsAuth(Section, frozen=True):
    """Kubeflow Trainer's way to say `metrics.authorize`."""

    enabled: bool = False


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
    auth: MetricsAuth = MetricsAuth()

    @property
    def authorized(self) -> bool:
        """Whether tokens are asked for, by either name."""
        return self.authorize or self.auth.enabled


class Health(Section, frozen=True):
    """`/healthz` and `/readyz`."""

    health_probe_bind_address: str = ":8081"
    """`host:port`; `0` switches it off."""
    liveness_endpoint_name: str = "healthz"
    """Answered beside `/healthz`, where Kubeflow Trainer's probes are whatever is set."""
    readiness_endpoint_name: str = "readyz"
    """Answered beside `/readyz`."""


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
    webhook_service_name: str = ""
    """The Service in front of the operator: what the certificate is for, and by which pods reach the status server.
    Empty: Kubeflow Trainer's."""
    webhook_secret_name: str = ""
    """The Secret that keeps it, which may be Kubeflow Trainer's; empty: one with the Service's name."""

    @property
    def service(self) -> str:
        """Name of the Service."""
        return self.webhook_service_name or "kubeflow-trainer-controller-manager"


class ClientConnection(Section, frozen=True):
    """Kubeflow Trainer's limits of requests; see `kubeflow.unheeded`."""

    qps: float | None = None
    burst: int | None = None


class Tls(Section, frozen=True):
    """How our servers speak TLS. For what has no effect see `kubeflow.unheeded`."""

    min_version: str | None = None
    """`1.2` or `1.3`, or as the JobSet operator spells it: `VersionTLS13`. Default: 1.2."""
    cipher_suites: list[str] | None = None
    next_protos: list[str] | None = None

    @property
    def minimum(self) -> TLSVersion:
        """The oldest version that is spoken: 1.2, unless 1.3 is asked for."""
        from ssl import TLSVersion

        newest = self.min_version in ("1.3", "VersionTLS13")
        return TLSVersion.TLSv1_3 if newest else TLSVersion.TLSv1_2


class StatusServer(Section, frozen=True):
    """Where pods report their progress, with the feature gate TrainJobStatus. Its certificate is the webhooks'."""

    port: int = 10443
    qps: float = 0
    """Reports stored a second, by one replica; a report waits for its turn, and the newest of a job is stored."""
    burst: int = 0
    """Reports stored at once, after a while without any. As for client-go, 0 stands for the default."""


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
    watch_namespaces: tuple[str, ...] = ()
    """Namespaces whose TrainJobs the operator runs. Empty: all. With names it needs Roles in these namespaces only, and
    reads nothing that is in no namespace: ClusterTrainingRuntimes, RuntimeClasses, nodes."""
    snapshots: Literal["perJob", "shared"] = "perJob"
    """What a new TrainJob's runtime is copied to: a ConfigMap of its own, or one for all jobs of its namespace."""
    cert_management: CertManagement = CertManagement()
    status_server: StatusServer = StatusServer()
    feature_gates: dict[str, bool] = {}
    """TrainJobStatus is off unless set here, by its name or by AllAlpha. The others are on unless set here."""
    client_connection: ClientConnection = ClientConnection()
    tls: Tls = Tls()

    @property
    def takes_reports(self) -> bool:
        """Whether there is a status server."""
        return self.feature_gates.get(TRAIN_JOB_STATUS, self.feature_gates.get(ALL_ALPHA, False))

    @property
    def has_native_gangs(self) -> bool:
        """Whether `podGroupPolicy.workload` works."""
        return self.feature_gates.get(GENERIC_WORKLOAD, self.feature_gates.get(ALL_BETA, True))

    @property
    def shows_state(self) -> bool:
        """Whether TrainJobs have `status.state`, `nodes` and `restarts`."""
        return self.feature_gates.get(TRAIN_JOB_STATE, self.feature_gates.get(ALL_BETA, True))


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
        text = file.read_text()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not YAML: {error}") from error
    return parse(text, path)


def parse(text: str, source: str) -> Configuration:
    """
    Read a file's content; `source` names it in errors.

    Raises:
        ConfigError: As `load` does.
    """
    try:
        document: JsonValue = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{source}: not YAML: {error}") from error
    document = _without_nulls(document or {})
    try:
        configuration = msgspec.convert(document, Configuration)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{source}: {error}{_suggestion(str(error))}") from error
    if "webhook" in document or configuration.cert_management.enable:
        # Kubeflow's files cannot say it: its webhooks are always on.
        enable = document.get("webhook", {}).get("enable", True)
        webhook = msgspec.structs.replace(configuration.webhook, enable=enable)
        configuration = msgspec.structs.replace(configuration, webhook=webhook)
    check(configuration, source)
    return configuration


def _without_nulls(value: JsonValue) -> JsonValue:
    """Leave out what is null: in Kubernetes that is as if it were not there."""
    if not isinstance(value, dict):
        return value
    return {name: _without_nulls(one) for name, one in value.items() if one is not None}


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


def msgspec_name(name: str) -> str:
    """The field's name in the file: camelCase."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


_SECTIONS: Final = (
    *(Configuration, Webhook, LeaderElection, MetricsAuth, Metrics, Health, ControllerSection, JobSets, CertManagement),
    *(StatusServer, ClientConnection, Tls),
)


def _suggestion(message: str) -> str:
    """Name the field of the same section that was meant, else one of another."""
    unknown = re.search(r"unknown field `([^`]+)`(?: - at `\$\.([^`]+)`)?", message)
    if unknown is None:
        return ""
    name, path = unknown.groups()
    section: type[Section] = Configuration
    for step in (path or "").split("."):
        section = next((one.type for one in msgspec.structs.fields(section) if one.encode_name == step), section)
    for sections in ((section,), _SECTIONS):
        names = [field.encode_name for one in sections for field in msgspec.structs.fields(one)]
        if close := difflib.get_close_matches(name, [one for one in names if one != name], n=1):
            return f'; did you mean "{close[0]}"?'
    return ""
