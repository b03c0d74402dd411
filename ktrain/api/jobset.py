"""JobSet (`jobset.x-k8s.io/v1alpha2`) as ktrain reads it, its keys, and its condition types."""

from __future__ import annotations

from typing import Final

import msgspec

from .core import JobStatus
from .meta import Alike, Condition, Json, Object, Resource, Struct

GROUP: Final = "jobset.x-k8s.io"
VERSION: Final = "v1alpha2"

JOBSET_NAME: Final = "jobset.sigs.k8s.io/jobset-name"
"""Label and annotation on child Jobs and their pods: the JobSet's name. The other keys have the same prefix."""
REPLICATED_JOB_NAME: Final = "jobset.sigs.k8s.io/replicatedjob-name"
JOB_INDEX: Final = "jobset.sigs.k8s.io/job-index"
RESTART_ATTEMPT: Final = "jobset.sigs.k8s.io/restart-attempt"
"""Label and annotation on child Jobs: `status.restarts` when the Job was made. A lower one: the Job is outdated."""
JOB_RESTART_ATTEMPT: Final = "jobset.sigs.k8s.io/job-restart-attempt"
"""Beside the previous one, with the gate RestartJob: how often this one Job was made anew."""
IN_PLACE_RESTART_ATTEMPT: Final = "jobset.sigs.k8s.io/in-place-restart-attempt"
"""Annotation of a pod, written by the agent in it: the attempt it is at."""
MANAGED_BY: Final = "jobset.sigs.k8s.io/jobset-controller"
EXCLUSIVE_TOPOLOGY: Final = "alpha.jobset.sigs.k8s.io/exclusive-topology"
"""Annotation of a JobSet or of a Job template: the node label whose domains hold one child Job each."""
NODE_SELECTOR_STRATEGY: Final = "alpha.jobset.sigs.k8s.io/node-selector"
"""Annotation beside the previous one: nodes were labelled by hand, so a node selector does the placement."""

JOB_KEY: Final = "jobset.sigs.k8s.io/job-key"
"""Label of child Jobs and pods: a digest of namespace and name of the Job."""
PRIORITY: Final = "jobset.sigs.k8s.io/priority"
"""Label of pods: pods of other priorities do not keep a Job out of a domain."""
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
"""Annotation of pods, by the Job controller."""

CONDITION_COMPLETED: Final = "Completed"
CONDITION_FAILED: Final = "Failed"
CONDITION_SUSPENDED: Final = "Suspended"
CONDITION_RESTARTING: Final = "RestartingJobSet"
CONDITION_STARTUP_IN_PROGRESS: Final = "StartupPolicyInProgress"
CONDITION_STARTUP_COMPLETED: Final = "StartupPolicyCompleted"


class DependsOn(Struct, frozen=True):
    """Start only when the named, earlier replicated job is `Ready` or `Complete`."""

    name: str = ""
    status: str = ""


class JobSize(Struct, frozen=True):
    """How many pods a Job has at a time, and how many must succeed."""

    parallelism: int | None = None
    completions: int | None = None


class _SizedTemplate(Struct, frozen=True):
    spec: JobSize = JobSize()


class ReplicatedJob(Struct, frozen=True):
    """One entry of `spec.replicatedJobs`. The Job template passes through whole."""

    name: str
    template: msgspec.Raw = msgspec.Raw(b"{}")
    replicas: int = 1
    group_name: str = "default"
    depends_on: tuple[DependsOn, ...] = ()

    @property
    def size(self) -> JobSize:
        """What the template says of the size of its Jobs. Decoded anew each time."""
        return msgspec.json.decode(self.template, type=_SizedTemplate).spec


class Network(Struct, frozen=True):
    """How the pods find each other."""

    enable_dns_hostnames: bool | None = msgspec.field(default=None, name="enableDNSHostnames")
    subdomain: str = ""
    publish_not_ready_addresses: bool | None = None


class SuccessPolicy(Struct, frozen=True):
    """When the JobSet is complete. No targets: all replicated jobs."""

    operator: str = "All"
    target_replicated_jobs: tuple[str, ...] = ()


class FailurePolicyRule(Struct, frozen=True):
    """What to do when a matching Job failed."""

    name: str = ""
    action: str = ""
    on_job_failure_reasons: tuple[str, ...] = ()
    on_job_failure_message_patterns: tuple[str, ...] = ()
    target_replicated_jobs: tuple[str, ...] = ()


class FailurePolicy(Struct, frozen=True):
    """How failed Jobs are answered. Absent and empty differ: without one, the first failure is final."""

    max_restarts: int = 0
    restart_strategy: str = "Recreate"
    rules: tuple[FailurePolicyRule, ...] = ()


class StartupRule(Struct, frozen=True):
    """Replicated jobs that start together (KEP-672); the next rule's wait until all are `Ready` or `Succeeded`."""

    target_replicated_jobs: tuple[str, ...] = ()
    wait_for_replicated_jobs_status: str = "Ready"


class StartupPolicy(Struct, frozen=True):
    """`InOrder` starts replicated jobs one after the other, or as its rules group them."""

    startup_policy_order: str = "AnyOrder"
    rules: tuple[StartupRule, ...] = ()


class Coordinator(Struct, frozen=True):
    """The pod whose address every pod gets as label and annotation."""

    replicated_job: str = ""
    job_index: int = 0
    pod_index: int = 0


class RetentionPolicy(Struct, frozen=True):
    """Whether claims go with the JobSet."""

    when_deleted: str = "Delete"


class VolumeClaimPolicy(Struct, frozen=True):
    """Claims that the JobSet creates; the templates pass through whole."""

    templates: tuple[msgspec.Raw, ...] = ()
    retention_policy: RetentionPolicy | None = None


class JobSetSpec(Struct, frozen=True):
    """The specification of a JobSet."""

    replicated_jobs: tuple[ReplicatedJob, ...] = ()
    network: Network | None = None
    success_policy: SuccessPolicy | None = None
    failure_policy: FailurePolicy | None = None
    startup_policy: StartupPolicy | None = None
    suspend: bool = False
    coordinator: Coordinator | None = None
    managed_by: str | None = None
    ttl_seconds_after_finished: int | None = None
    volume_claim_policies: tuple[VolumeClaimPolicy, ...] = ()


class ReplicatedJobStatus(Struct, frozen=True, omit_defaults=False):
    """Counters of child Jobs, not of pods."""

    name: str
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    active: int = 0
    suspended: int = 0
    job_restarts: tuple[int, ...] = ()
    """How often each Job was restarted alone, by index; empty until one was."""
    job_restarts_count_towards_max: tuple[int, ...] = ()


class JobSetStatus(Struct, frozen=True):
    """What was observed of a JobSet."""

    conditions: tuple[Condition, ...] = ()
    restarts: int = 0
    restarts_count_towards_max: int = 0
    terminal_state: str = ""
    replicated_jobs_status: Alike[tuple[ReplicatedJobStatus, ...]] = ()
    previous_in_place_restart_attempt: int | None = None
    """Attempts up to this one are over: agents in it restart their containers."""
    current_in_place_restart_attempt: int | None = None
    """The attempt that all pods are at, so that their barrier may lift."""


class JobSet(Object, frozen=True):
    """A JobSet. `status` is None until the controller has written one."""

    spec: JobSetSpec = JobSetSpec()
    status: JobSetStatus | None = None


class ChildPodSpec(Struct, frozen=True):
    """The lists of a child's pod template that a resume extends; a merge patch can only replace them whole."""

    tolerations: tuple[Json, ...] = ()
    scheduling_gates: tuple[Json, ...] = ()


class ChildPodTemplate(Struct, frozen=True):
    """The pod template of a child Job, by what a resume needs of it."""

    spec: ChildPodSpec = ChildPodSpec()


class ChildJobSpec(Struct, frozen=True):
    """The part of a Job's spec that the JobSet controller reads."""

    parallelism: int | None = None
    completions: int | None = None
    suspend: bool = False
    template: ChildPodTemplate = ChildPodTemplate()


class ChildJob(Object, frozen=True):
    """A batch/v1 Job as the JobSet controller reads it."""

    spec: ChildJobSpec = ChildJobSpec()
    status: JobStatus = JobStatus()


class JobSetPodSpec(Struct, frozen=True):
    """Where a pod is, and where it may be."""

    node_name: str = ""
    node_selector: dict[str, str] = {}


class ContainerRestarts(Struct, frozen=True):
    """How often a container restarted in its pod."""

    restart_count: int = 0


class JobSetPodStatus(Struct, frozen=True):
    """Whether a pod is over, and how often its containers restarted."""

    phase: str = ""
    container_statuses: tuple[ContainerRestarts, ...] = ()
    init_container_statuses: tuple[ContainerRestarts, ...] = ()


class JobSetPod(Object, frozen=True):
    """A pod as the JobSet controller reads it."""

    spec: JobSetPodSpec = JobSetPodSpec()
    status: JobSetPodStatus = JobSetPodStatus()


JOBSETS: Final = Resource(GROUP, VERSION, "JobSet", "jobsets", namespaced=True, type=JobSet)
CHILD_JOBS: Final = Resource("batch", "v1", "Job", "jobs", namespaced=True, type=ChildJob)
JOBSET_PODS: Final = Resource("", "v1", "Pod", "pods", namespaced=True, type=JobSetPod)
