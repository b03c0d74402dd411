"""Core and batch kinds as ktrain's controllers and its displays read them. The kubelet decodes pod specs on its own."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec

from .meta import Condition, Json, Object, Resource, Struct


class ContainerStateTerminated(Struct, frozen=True):
    """How a container ended. Death by signal n is exit code 128+n."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class ContainerStateWaiting(Struct, frozen=True):
    """Why a container does not run yet, or not again."""

    reason: str = ""
    message: str = ""


class ContainerStateRunning(Struct, frozen=True):
    """Since when a container runs."""

    started_at: datetime | None = None


class ContainerState(Struct, frozen=True):
    """Exactly one of the three is set."""

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(Struct, frozen=True):
    """One entry of containerStatuses or initContainerStatuses."""

    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class ContainerName(Struct, frozen=True):
    """A container of a pod spec, by what displays and the Job controller need of it."""

    name: str = ""
    restart_policy: str = ""
    """Of an init container: `Always` makes it a sidecar."""


class PodSpec(Struct, frozen=True):
    """The part of a pod's spec that controllers and displays read."""

    node_name: str = ""
    restart_policy: str = "Always"
    hostname: str = ""
    subdomain: str = ""
    containers: tuple[ContainerName, ...] = ()
    init_containers: tuple[ContainerName, ...] = ()


class PodStatus(Struct, frozen=True):
    """The part of a pod's status that controllers and displays read."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    start_time: datetime | None = None
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(Object, frozen=True):
    """A pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class ConfigMap(Object, frozen=True):
    """A ConfigMap; binaryData is not read."""

    data: dict[str, str] = {}


class LeaseSpec(Struct, frozen=True):
    """Who holds a lease, and for how long (coordination.k8s.io/v1)."""

    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: datetime | None = None
    renew_time: datetime | None = None
    lease_transitions: int = 0


class Lease(Object, frozen=True):
    """A lease."""

    spec: LeaseSpec = LeaseSpec()


class JobSpec(Struct, frozen=True):
    """The part of a Job's spec that the JobSet controller and displays read; the Job controller decodes its own."""

    parallelism: int | None = None
    completions: int | None = None
    suspend: bool = False


class JobStatus(Struct, frozen=True):
    """Counters and conditions of a Job."""

    active: int = 0
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    start_time: datetime | None = None
    completion_time: datetime | None = None
    conditions: tuple[Condition, ...] = ()


class Job(Object, frozen=True):
    """A batch/v1 Job."""

    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class LimitRangeItem(Struct, frozen=True):
    """One limit of a LimitRange: for containers, pods or claims; amounts are quantities by resource."""

    type: str = ""
    min: dict[str, str] = {}
    max: dict[str, str] = {}
    default: dict[str, str] = {}
    default_request: dict[str, str] = {}


class LimitRangeSpec(Struct, frozen=True):
    """The items of a LimitRange, at most one of each type; null where there are none."""

    limits: tuple[LimitRangeItem, ...] | None = None


class LimitRange(Object, frozen=True):
    """The limits and default requests of a namespace."""

    spec: LimitRangeSpec = LimitRangeSpec()


class Overhead(Struct, frozen=True):
    """The resources that a pod needs besides its containers: quantities by resource."""

    pod_fixed: dict[str, str] = {}


class RuntimeClass(Object, frozen=True):
    """How pods are run that name it, as far as it says what that costs."""

    overhead: Overhead | None = None


PODS: Final = Resource("", "v1", "Pod", "pods", namespaced=True, type=Pod)
SERVICES: Final = Resource("", "v1", "Service", "services", namespaced=True, type=Object)
CONFIG_MAPS: Final = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True, type=ConfigMap)
CONFIG_MAP_METADATA: Final = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True, type=Object)
SECRETS: Final = Resource("", "v1", "Secret", "secrets", namespaced=True, type=Object)
NAMESPACES: Final = Resource("", "v1", "Namespace", "namespaces", namespaced=False, type=Object)
NODES: Final = Resource("", "v1", "Node", "nodes", namespaced=False, type=Object)
PERSISTENT_VOLUME_CLAIMS: Final = Resource(
    "", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", namespaced=True, type=Object
)
JOBS: Final = Resource("batch", "v1", "Job", "jobs", namespaced=True, type=Job)
LEASES: Final = Resource("coordination.k8s.io", "v1", "Lease", "leases", namespaced=True, type=Lease)
EVENTS: Final = Resource("events.k8s.io", "v1", "Event", "events", namespaced=True, type=Object)
CORE_EVENTS: Final = Resource("", "v1", "Event", "events", namespaced=True, type=Object)
LIMIT_RANGES: Final = Resource("", "v1", "LimitRange", "limitranges", namespaced=True, type=LimitRange)
RUNTIME_CLASSES: Final = Resource(
    "node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", namespaced=False, type=RuntimeClass
)
PRIORITY_CLASSES: Final = Resource(
    "scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False, type=Object
)
CUSTOM_RESOURCE_DEFINITIONS: Final = Resource(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False, type=Object
)


def untyped(resource: Resource[Any]) -> Resource[Json]:
    """The same resource decoded to plain dicts, for the places where everything must pass through."""
    return Resource(resource.group, resource.version, resource.kind, resource.plural, resource.namespaced, dict)
