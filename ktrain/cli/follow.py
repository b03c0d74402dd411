"""What is going on with one TrainJob: from watches of it and all that was made for it, to a line a person reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ktrain.api.core import JOBS, PODS, Job, Pod
from ktrain.api.jobset import JOBSET_NAME, JOBSETS, REPLICATED_JOB_NAME, JobSet
from ktrain.api.meta import Object, Resource, Struct
from ktrain.api.trainer import (
    CONDITION_COMPLETE,
    CONDITION_FAILED,
    TRAIN_JOBS,
    TrainerStatus,
    TrainJob,
    TrainJobStatus,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.framework import Cache, Client, Informer

INDEX_KEY = "batch.kubernetes.io/job-completion-index"
JOB_INDEX_KEY = "jobset.sigs.k8s.io/job-index"
METRICS_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Progress:
    """One look at a TrainJob. `nodes` counts pods, as users do; `waiting` says why nothing runs yet."""

    phase: str = "Pending"
    nodes: int = 0
    running: int = 0
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    restarts: int = 0
    waiting: str = ""
    reported: str = ""
    """What the trainer says itself."""

    def __str__(self) -> str:
        parts = [f"{self.running}/{self.nodes} nodes running", f"{self.ready} ready", f"{self.succeeded} succeeded"]
        if self.failed:
            parts.append(f"{self.failed} failed")
        if self.restarts:
            parts.append(f"{self.restarts} restarts")
        text = f"{self.phase}: {', '.join(parts)}" if self.nodes else self.phase
        text = f"{text}; {self.reported}" if self.reported else text
        return f"{text} ({self.waiting})" if self.waiting else text


class FollowedStatus(TrainJobStatus, frozen=True):
    """What was observed of it."""

    trainer_status: TrainerStatus | None = None  # type: ignore[assignment]  # more of the same field


class FollowedJob(TrainJob, frozen=True):
    """A TrainJob with all that its trainer reported."""

    status: FollowedStatus = FollowedStatus()


def progress(
    job: FollowedJob | None, jobset: JobSet | None, jobs: Sequence[Job], pods: Sequence[Pod], *, warning: str = ""
) -> Progress:
    """Sum up what was observed. Pure. `warning` explains why nothing runs if nothing better does."""
    if job is None:
        return Progress()
    alive = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
    running = sum(pod.status.phase == "Running" for pod in alive)
    started = any(pod.status.phase not in ("", "Pending") for pod in pods)
    restarts = jobset.status.restarts if jobset and jobset.status else 0
    restarts += sum(status.restart_count for pod in alive for status in pod.status.container_statuses)
    return Progress(
        phase=_phase(job, jobset, started=started),
        nodes=sum(1 if item.spec.parallelism is None else item.spec.parallelism for item in jobs),
        running=running,
        ready=sum(_is_ready(pod) for pod in alive),
        succeeded=sum(pod.status.phase == "Succeeded" for pod in alive),
        failed=sum(pod.status.phase == "Failed" for pod in alive),
        restarts=restarts,
        reported=_reported(job.status.trainer_status),
        waiting="" if started or job.is_finished else _waiting(alive) or _diagnosis(job) or warning,
    )


def _phase(job: TrainJob, jobset: JobSet | None, *, started: bool) -> str:
    ended = [c.type for c in job.status.conditions if c.is_true and c.type in (CONDITION_COMPLETE, CONDITION_FAILED)]
    if ended:
        return ended[0]
    if job.metadata.deletion_timestamp is not None:
        return "Deleting"
    if job.spec.suspend:
        return "Suspended"
    if started:
        return "Running"
    return "Starting" if jobset is not None else "Pending"


def _is_ready(pod: Pod) -> bool:
    return any(c.type == "Ready" and c.is_true for c in pod.status.conditions)


def _waiting(pods: Sequence[Pod]) -> str:
    """The first reason found why a pod does not run: it cannot be scheduled, or a container waits for something."""
    for pod in pods:
        for condition in pod.status.conditions:
            if condition.type == "PodScheduled" and condition.status == "False" and condition.message:
                return f"{node_name(pod)}: {condition.message}"
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
            waiting = status.state.waiting
            if waiting and waiting.message:
                return f"{node_name(pod)}: {waiting.reason}: {waiting.message}"
    return ""


def _diagnosis(job: TrainJob) -> str:
    found = job.status.diagnosis
    return f"{found.reason}: {found.message}" if found else ""


def _reported(status: TrainerStatus | None) -> str:
    """Say in a few words what the trainer reported. Names and values are the program's, and may be anything."""
    if status is None:
        return ""
    percentage, left_s, metrics = status.progress_percentage, status.estimated_remaining_seconds, status.metrics or ()
    parts = [] if percentage is None else [f"{percentage} %"]
    if left_s:
        minutes, seconds = divmod(left_s, 60)
        parts.append(f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d} left")
    parts += [" ".join(f"{metric.name} {metric.value}".split()) for metric in metrics[:METRICS_SHOWN]]
    return ", ".join([*parts, "..."] if len(metrics) > METRICS_SHOWN else parts)


def node_name(pod: Pod) -> str:
    """Short name of a pod for people: `node-0`; with several Jobs of one replicated job, `node-1-0`."""
    labels = pod.metadata.labels
    job = labels.get(REPLICATED_JOB_NAME)
    index = labels.get(INDEX_KEY)
    if job is None or index is None:
        return pod.metadata.name
    job_index = labels.get(JOB_INDEX_KEY, "0")
    replicas = labels.get("jobset.sigs.k8s.io/replicatedjob-replicas", "1")
    return f"{job}-{index}" if replicas == "1" else f"{job}-{job_index}-{index}"


class ObjectReference(Struct, frozen=True):
    """What an event is about."""

    uid: str = ""


class Event(Object, frozen=True):
    """An event (events.k8s.io/v1), as far as it explains something."""

    regarding: ObjectReference = ObjectReference()
    reason: str = ""
    note: str = ""


_TRAIN_JOBS: Final = Resource(
    TRAIN_JOBS.group, TRAIN_JOBS.version, TRAIN_JOBS.kind, TRAIN_JOBS.plural, namespaced=True, type=FollowedJob
)
EVENTS: Final = Resource("events.k8s.io", "v1", "Event", "events", namespaced=True, type=Event)


class Follower:
    """Watches of one TrainJob, the one just created, and all that was made for it. Their cache must be running."""

    def __init__(self, cache: Cache, created: TrainJob) -> None:
        self.key = key = created.key
        self.uid = created.metadata.uid
        self._since = int(created.metadata.resource_version)
        by_name = f"metadata.name={key.name}"
        by_label = f"{JOBSET_NAME}={key.name}"
        namespace = key.namespace
        self._train_jobs: Informer[FollowedJob] = cache.informer(
            _TRAIN_JOBS, field_selector=by_name, namespace=namespace
        )
        self._job_sets: Informer[JobSet] = cache.informer(JOBSETS, field_selector=by_name, namespace=namespace)
        self._jobs: Informer[Job] = cache.informer(JOBS, label_selector=by_label, namespace=namespace)
        self._pods: Informer[Pod] = cache.informer(PODS, label_selector=by_label, namespace=namespace)
        # Not every user of a cluster may read events; without them the job is followed just the same.
        self._warnings = cache.informer(EVENTS, field_selector="type=Warning", namespace=namespace)
        self._last_pods: dict[str, Pod] = {}

    @property
    def is_gone(self) -> bool:
        """Whether the TrainJob was deleted, as opposed to not seen yet."""
        return self.job is None and self._train_jobs.version >= self._since

    @property
    def informers(
        self,
    ) -> tuple[Informer[FollowedJob], Informer[JobSet], Informer[Job], Informer[Pod], Informer[Event]]:
        """The informers whose changes matter."""
        return self._train_jobs, self._job_sets, self._jobs, self._pods, self._warnings

    @property
    def job(self) -> FollowedJob | None:
        """The TrainJob, unless another took its name."""
        found = self._train_jobs.get(self.key)
        return found if found is not None and found.metadata.uid == self.uid else None

    @property
    def pods(self) -> list[Pod]:
        """The job's pods."""
        return self._own(self._pods.list())

    @property
    def all_pods(self) -> list[Pod]:
        """The job's pods as last seen, those that are gone included: the cause of a failure may be among them."""
        for pod in self.pods:
            known = self._last_pods.get(pod.metadata.uid)
            if known is None or int(known.metadata.resource_version) < int(pod.metadata.resource_version):
                self._last_pods[pod.metadata.uid] = pod
        return list(self._last_pods.values())

    async def catch_up(self, client: Client) -> None:
        """
        Read the pods once more, for the end: the watch of TrainJobs may be ahead of the one of pods.

        Raises:
            FrameworkError: The API server did not answer.
        """
        selector = f"{JOBSET_NAME}={self.key.name}"
        found = await client.list(PODS, self.key.namespace, label_selector=selector)
        self._last_pods.update({pod.metadata.uid: pod for pod in self._own(found.items)})

    def _own(self, pods: Sequence[Pod]) -> list[Pod]:
        jobs = {item.metadata.uid for item in self._own_jobs()}
        return [pod for pod in pods if (owner := pod.metadata.controller) is not None and owner.uid in jobs]

    def _own_jobs(self) -> list[Job]:
        jobset = self._own_jobset()
        if jobset is None:
            return []
        return [item for item in self._jobs.list() if item.metadata.is_controlled_by(jobset.metadata.uid)]

    def _own_jobset(self) -> JobSet | None:
        found = self._job_sets.get(self.key)
        return found if found is not None and found.metadata.is_controlled_by(self.uid) else None

    def progress(self) -> Progress:
        """Look once."""
        return progress(self.job, self._own_jobset(), self._own_jobs(), self.pods, warning=self._last_warning())

    def _last_warning(self) -> str:
        """What the newest Warning about any of the job's objects says."""
        jobset = self._own_jobset()
        objects = [*self._own_jobs(), *self.pods, *([jobset] if jobset else [])]
        uids = {self.uid, *(item.metadata.uid for item in objects)}
        found = [event for event in self._warnings.list() if event.regarding.uid in uids]
        if not found:
            return ""
        newest = max(found, key=lambda event: int(event.metadata.resource_version))
        return f"{newest.reason}: {newest.note}"
