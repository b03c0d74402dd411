"""Job as the Job controller reads it: everything it decides by. The pod template passes through whole."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from ktrain.api.meta import Condition, Object, Resource, Struct

from . import indexes

MANAGED_BY: Final = "kubernetes.io/job-controller"
TRACKING_FINALIZER: Final = "batch.kubernetes.io/job-tracking"
INDEX_KEY: Final = "batch.kubernetes.io/job-completion-index"
INDEX_FAILURE_COUNT: Final = "batch.kubernetes.io/job-index-failure-count"
INDEX_IGNORED_COUNT: Final = "batch.kubernetes.io/job-index-ignored-failure-count"


class OnExitCodes(Struct, frozen=True):
    """Matches the exit code of a terminated container."""

    operator: str = "In"
    values: tuple[int, ...] = ()
    container_name: str | None = None


class OnPodCondition(Struct, frozen=True):
    """Matches a condition of the failed pod."""

    type: str = ""
    status: str = "True"


class PodFailureRule(Struct, frozen=True):
    """One rule of `podFailurePolicy`; the first that matches decides."""

    action: str = "Count"
    on_exit_codes: OnExitCodes | None = None
    on_pod_conditions: tuple[OnPodCondition, ...] = ()


class PodFailurePolicy(Struct, frozen=True):
    """What a failed pod means for the Job."""

    rules: tuple[PodFailureRule, ...] = ()


class SuccessRule(Struct, frozen=True):
    """One rule of `successPolicy`."""

    succeeded_indexes: str | None = None
    succeeded_count: int | None = None


class SuccessPolicy(Struct, frozen=True):
    """When an Indexed Job is done before all of its indexes are."""

    rules: tuple[SuccessRule, ...] = ()


class JobSpec(Struct, frozen=True):
    """The specification of a Job, with the API server's defaults where a field is absent."""

    parallelism: int = 1
    completions: int | None = None
    active_deadline_seconds: int | None = None
    backoff_limit: int = 6
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    completion_mode: str = "NonIndexed"
    suspend: bool = False
    pod_replacement_policy: str = "TerminatingOrFailed"
    pod_failure_policy: PodFailurePolicy | None = None
    success_policy: SuccessPolicy | None = None
    ttl_seconds_after_finished: int | None = None
    managed_by: str | None = None
    selector: msgspec.Raw = msgspec.Raw(b"{}")
    template: msgspec.Raw = msgspec.Raw(b"{}")


class UncountedPods(Struct, frozen=True):
    """UIDs of finished pods that are recorded but not yet in the counters."""

    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class JobStatus(Struct, frozen=True):
    """What was observed of a Job."""

    active: int = 0
    ready: int | None = None
    terminating: int | None = None
    succeeded: int = 0
    failed: int = 0
    completed_indexes: str = ""
    failed_indexes: str | None = None
    start_time: datetime | None = None
    completion_time: datetime | None = None
    uncounted_terminated_pods: UncountedPods | None = None
    conditions: tuple[Condition, ...] = ()


class Job(Object, frozen=True):
    """A Job."""

    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

    @property
    def is_indexed(self) -> bool:
        """Whether each pod has a completion index of its own."""
        return self.spec.completion_mode == "Indexed"

    @property
    def is_ours(self) -> bool:
        """Whether no other controller was named for it (`managedBy`)."""
        return self.spec.managed_by in (None, MANAGED_BY)

    @property
    def replaces_only_failed(self) -> bool:
        """Whether a pod that is being stopped is waited for before it is replaced."""
        return self.spec.pod_replacement_policy == "Failed" or self.spec.pod_failure_policy is not None

    @property
    def completed_indexes(self) -> frozenset[int]:
        """The indexes that its status says have succeeded, those that were scaled away left out."""
        return indexes.parse(self.status.completed_indexes, self.spec.completions or 0)

    @property
    def is_finished(self) -> bool:
        """Whether it is Complete or Failed; nothing touches it after that."""
        return any(c.is_true and c.type in ("Complete", "Failed") for c in self.status.conditions)


JOBS: Final = Resource("batch", "v1", "Job", "jobs", namespaced=True, type=Job)
