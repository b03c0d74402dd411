"""
A pod as the kubelet reads it: narrow, but whole for everything that is honoured.

These structs are the kubelet's own view of `v1.Pod`; controllers use the smaller one in `ktrain.api.core`. A field that
is not declared here is not honoured (images, capabilities, affinity: processes have none of it). Defaults are those the
API server fills in, so a pod that skipped defaulting reads the same.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from ktrain.api.core import ContainerStatus
from ktrain.api.meta import Condition, Object, Resource, Struct

from .volume_spec import FieldSelector, KeySelector, ResourceSelector, Volume


class EnvVarSource(Struct, frozen=True):
    """Where a variable's value comes from; exactly one is set."""

    field_ref: FieldSelector | None = None
    resource_field_ref: ResourceSelector | None = None
    config_map_key_ref: KeySelector | None = None
    secret_key_ref: KeySelector | None = None


class EnvVar(Struct, frozen=True):
    """One entry of `env`."""

    name: str
    value: str = ""
    value_from: EnvVarSource | None = None


class EnvFromRef(Struct, frozen=True):
    """A whole ConfigMap or Secret."""

    name: str = ""
    optional: bool = False


class EnvFromSource(Struct, frozen=True):
    """One entry of `envFrom`."""

    prefix: str = ""
    config_map_ref: EnvFromRef | None = None
    secret_ref: EnvFromRef | None = None


class VolumeMount(Struct, frozen=True):
    """Where a container sees a volume."""

    name: str
    mount_path: str
    read_only: bool = False
    sub_path: str = ""
    sub_path_expr: str = ""


class ExecAction(Struct, frozen=True):
    """Run a command in the container; exit 0 is success."""

    command: tuple[str, ...] = ()


class HttpHeader(Struct, frozen=True):
    """One header of an HTTP probe."""

    name: str
    value: str = ""


class HttpGetAction(Struct, frozen=True):
    """GET a URL; 200 to 399 is success. `port` is a number or the name of a container port."""

    port: int | str
    path: str = "/"
    host: str = ""
    scheme: str = "HTTP"
    http_headers: tuple[HttpHeader, ...] = ()


class TcpSocketAction(Struct, frozen=True):
    """Connect; a connection is success."""

    port: int | str
    host: str = ""


class SleepAction(Struct, frozen=True):
    """Wait; only for lifecycle hooks (KEP-3960)."""

    seconds: int = 0


class GrpcAction(Struct, frozen=True):
    """Ask by the gRPC health protocol; SERVING is success. Without a service: the server as a whole."""

    port: int = 0
    service: str = ""


class Handler(Struct, frozen=True):
    """What a lifecycle hook or a probe does; exactly one is set."""

    exec: ExecAction | None = None
    http_get: HttpGetAction | None = None
    tcp_socket: TcpSocketAction | None = None
    sleep: SleepAction | None = None
    grpc: GrpcAction | None = None


class Probe(Handler, frozen=True):
    """A handler that is asked again and again. All times in seconds."""

    initial_delay_seconds: int = 0
    period_seconds: int = 10
    timeout_seconds: int = 1
    success_threshold: int = 1
    failure_threshold: int = 3
    termination_grace_period_seconds: int | None = None


class Lifecycle(Struct, frozen=True):
    """Hooks after start and before stop."""

    post_start: Handler | None = None
    pre_stop: Handler | None = None


class ContainerPort(Struct, frozen=True):
    """A port; only its name matters, to probes."""

    container_port: int = 0
    name: str = ""


class ResourceRequirements(Struct, frozen=True):
    """Quantities by resource name."""

    requests: dict[str, str | int] = msgspec.field(default_factory=dict)
    limits: dict[str, str | int] = msgspec.field(default_factory=dict)


class ContainerSecurity(Struct, frozen=True):
    """The part of a container's securityContext that a process can honour."""

    run_as_user: int | None = None
    run_as_group: int | None = None


class PodSecurity(ContainerSecurity, frozen=True):
    """The part of a pod's securityContext that processes can honour."""

    fs_group: int | None = None
    supplemental_groups: tuple[int, ...] = ()


class RestartExitCodes(Struct, frozen=True):
    """Exit codes that are, or are not, among these."""

    operator: str = "In"
    values: tuple[int, ...] = ()


class RestartRule(Struct, frozen=True):
    """What to do when the container ended like this: `Restart` it, or `RestartAllContainers` (KEP-5307, KEP-5532)."""

    action: str = ""
    exit_codes: RestartExitCodes = RestartExitCodes()

    def matches(self, exit_code: int) -> bool:
        """Whether the rule speaks of this exit code."""
        return (exit_code in self.exit_codes.values) is (self.exit_codes.operator == "In")


class Container(Struct, frozen=True):
    """A main or init container. An init container with `restartPolicy: Always` is a sidecar (KEP-753)."""

    name: str
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    image: str = ""
    env: tuple[EnvVar, ...] = ()
    env_from: tuple[EnvFromSource, ...] = ()
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    volume_mounts: tuple[VolumeMount, ...] = ()
    readiness_probe: Probe | None = None
    liveness_probe: Probe | None = None
    startup_probe: Probe | None = None
    lifecycle: Lifecycle = Lifecycle()
    security_context: ContainerSecurity = ContainerSecurity()
    termination_message_path: str = "/dev/termination-log"
    termination_message_policy: str = "File"
    restart_policy: str = ""
    restart_policy_rules: tuple[RestartRule, ...] = ()
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False

    @property
    def is_sidecar(self) -> bool:
        """Whether this container, if it is an init container, is a sidecar."""
        return self.restart_policy == "Always"


class EphemeralContainer(Container, frozen=True):
    """A container that somebody added to a running pod to look into it (`kubectl debug`, KEP-277)."""

    target_container_name: str = ""
    """Whose processes it sees."""


class ReadinessGate(Struct, frozen=True):
    """A condition that must be True for the pod to be Ready."""

    condition_type: str


class HostAlias(Struct, frozen=True):
    """Names that a pod has for an address."""

    ip: str = ""
    hostnames: tuple[str, ...] = ()


class PodSpec(Struct, frozen=True):
    """What a pod asks of the kubelet."""

    node_name: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    ephemeral_containers: tuple[EphemeralContainer, ...] = ()
    volumes: tuple[Volume, ...] = ()
    restart_policy: str = "Always"
    hostname: str = ""
    subdomain: str = ""
    service_account_name: str = ""
    host_network: bool = False
    host_aliases: tuple[HostAlias, ...] = ()
    termination_grace_period_seconds: int = 30
    active_deadline_seconds: int | None = None
    security_context: PodSecurity = PodSecurity()
    readiness_gates: tuple[ReadinessGate, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()


class PodStatus(Struct, frozen=True):
    """What the pod's status says already; the kubelet is its writer, others only add conditions."""

    phase: str = ""
    start_time: datetime | None = None
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(Object, frozen=True):
    """A pod, as the kubelet reads it."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def uid(self) -> str:
        """The pod's UID; names are reused."""
        return self.metadata.uid

    @property
    def hostname(self) -> str:
        """The host name processes see: `spec.hostname`, else the pod's name (63 characters at most)."""
        return (self.spec.hostname or self.metadata.name)[:63].rstrip("-.")

    @property
    def is_terminal(self) -> bool:
        """Whether the pod has ended; this never changes back."""
        return self.status.phase in TERMINAL_PHASES

    @property
    def grace_s(self) -> int:
        """Seconds between SIGTERM and SIGKILL: what the deletion asks for, else what the spec says."""
        grace = self.metadata.deletion_grace_period_seconds
        return self.spec.termination_grace_period_seconds if grace is None else grace


class ConfigMap(Object, frozen=True):
    """A ConfigMap with its binary data (base64 on the wire, decoded here)."""

    data: dict[str, str] = msgspec.field(default_factory=dict)
    binary_data: dict[str, bytes] = msgspec.field(default_factory=dict)


class Secret(Object, frozen=True):
    """A Secret (base64 on the wire, decoded here)."""

    data: dict[str, bytes] = msgspec.field(default_factory=dict)


TERMINAL_PHASES: Final = frozenset({"Succeeded", "Failed"})

PODS: Final = Resource("", "v1", "Pod", "pods", namespaced=True, type=Pod)
CONFIG_MAPS: Final = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True, type=ConfigMap)
SECRETS: Final = Resource("", "v1", "Secret", "secrets", namespaced=True, type=Secret)
