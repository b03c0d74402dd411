"""
The operator's configuration file (`config.trainer.kubeflow.org/v1alpha1 Configuration`): Kubeflow Trainer's, and more.

What Kubeflow Trainer 2.3 knows and has no effect here is taken, and said at the start (`kubeflow.unheeded`). Options of
the command line win over the file. `config_file` reads it, `config_checks` refuses what cannot work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

if TYPE_CHECKING:
    from ssl import TLSVersion

API_VERSION: Final = "config.trainer.kubeflow.org/v1alpha1"
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


class Plugins(Section, frozen=True):
    """Which of the installed plugins are used, and what they are told."""

    disabled: tuple[str, ...] = ()
    """Names of plugins that are not used, and not even imported."""
    allowed: tuple[str, ...] | None = None
    """Names of the plugins of other packages that may be used. Unset: all that are installed."""
    config: dict[str, dict[str, Any]] = {}
    """What hooks of a plugin find as `ctx.config[NAME]`, by the name of the plugin."""


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
    plugins: Plugins = Plugins()

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


def msgspec_name(name: str) -> str:
    """The field's name in the file: camelCase."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
