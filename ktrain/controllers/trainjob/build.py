"""
Which components a TrainJob needs written, or why they cannot be built. Pure, like all of `decide`.

`build` first makes sure that the name is ours, then finds the runtime the job runs on, then runs the pipeline and
leaves out what is written already.
"""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from ktrain import pipeline
from ktrain.api import trainer as api
from ktrain.api.meta import Key, is_condition_true
from ktrain.pipeline.errors import PipelineError, PlanError
from ktrain.plugins.jobset import JOB_SET_STATES

from ..admission import without_effect
from ..scope import no_cluster_runtimes
from . import elastic, gangs, held
from . import snapshot as snapshots
from .decision import Decision
from .observe import HINDRANCES, NAME_TAKEN, RUNTIME_UNUSABLE, RUNTIMES, SNAPSHOT_METADATA, Check, Failure
from .stopping import to_stop
from .writing import Apply, Writing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ktrain.api.meta import Object
    from ktrain.pipeline import Address, Component, Registry, Size
    from ktrain.plugins.jobset import JobSetState

    from .observe import Observed
    from .snapshot import Snapshot


_MORE_PATCHES: Final = timedelta(seconds=2)
"""
For one to two seconds (times of patches are whole ones) a suspended JobSet waits for more than a new patch.

Kueue patches a job and resumes it in the next request; that is one write of the JobSet instead of two.
"""


class _Ask(Exception):
    """Only the API server itself can tell."""

    def __init__(self, check: Check, built: tuple[Apply, ...] = (), size: Size | None = None) -> None:
        super().__init__(str(check))
        self.decision = Decision(check=check, built=built, size=size)


class _Stuck(Exception):
    """Nothing can be written."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def build(observed: Observed, registry: Registry) -> Decision:
    """Decide what to write for an unfinished job: `check`, or any of the others but `status`."""
    try:
        decision = _build(observed, registry)
    except _Ask as ask:
        decision = ask.decision
    except _Stuck as stuck:
        decision = Decision(is_built=False, failure=stuck.failure)
    return replace(decision, stops=to_stop(observed))


def _build(observed: Observed, registry: Registry) -> Decision:
    job_set = _own(observed)
    running = job_set is not None and not (job_set.spec.suspend or observed.job.is_suspended)
    vanished = observed.memory.had_children or bool(observed.job.status.jobs_status)
    lost = job_set is None or (observed.snapshot is None and observed.shared is None)
    if vanished and lost and Check.JOB not in observed.checked:
        raise _Ask(Check.JOB)
    try:
        base = _base(observed)
    except PlanError as error:
        if running:
            return Decision(is_built=False)  # it needs its runtime no more
        is_unread = _is_runtime_unread(observed)
        is_final = is_unread or _waits_for_runtime(observed)
        raise _Stuck(Failure(RUNTIME_UNUSABLE, str(error), at_once=is_unread, is_final=is_final)) from error
    try:
        size = pipeline.size(registry, observed.job, base.snapshot.spec, observed.context)
    except PipelineError as error:
        raise _Stuck(Failure.of(error)) from error
    decision = Decision(snapshot=None if base.exists else base.snapshot, shared=base.is_shared, size=size)
    if job_set is not None and (running or job_set.metadata.deletion_timestamp):
        return _beside(_resized(decision, observed, job_set), observed, registry, base) if running else decision
    if job_set is not None and (wait_s := _patched_for_s(observed, job_set)):
        return replace(decision, requeue_after_s=wait_s)
    decision = replace(decision, unused=_unused(observed, registry, base))
    return _written(decision, observed, lambda: _components(observed, registry, base, size))


def _waits_for_runtime(observed: Observed) -> bool:
    """Whether an event of the runtime is all that can help, and leads to a reconcile (`waking.py`)."""
    return observed.snapshot is None and observed.shared is None and not observed.job.status.jobs_status


def _unused(observed: Observed, registry: Registry, base: _Base) -> tuple[str, ...]:
    """Return what to report of fields without effect: once, and of a job that has not begun."""
    if observed.job_set is not None or observed.job.status.jobs_status or observed.memory.warned:
        return ()
    return without_effect(registry, observed.job, base.snapshot.spec, observed.context)


def _patched_for_s(observed: Observed, job_set: JobSetState) -> float | None:
    """Return how long a suspended JobSet waits for more, if the patches of its suspended job have just changed."""
    if not (observed.job.is_suspended and job_set.spec.suspend):
        return None
    ages = [observed.context.now - patch.time for patch in observed.job.spec.runtime_patches if patch.time]
    left = [_MORE_PATCHES - age for age in ages if timedelta() <= age < _MORE_PATCHES]
    return max(left).total_seconds() if left else None


def _written(decision: Decision, observed: Observed, components: Callable[[], Writing]) -> Decision:
    """Have components written, or say why they cannot be built."""
    try:
        writing = components()
    except PipelineError as error:
        # The snapshot stays: the job runs on the runtime it was created with, also when it is mended later.
        return replace(decision, is_built=False, failure=Failure.of(error))
    applies, removals = tuple(writing.applies), tuple(writing.removals)
    decision = replace(decision, applies=applies, removals=removals, is_held=writing.is_held)
    return held.told(decision, writing, observed.context.now)


def _beside(decision: Decision, observed: Observed, registry: Registry, base: _Base) -> Decision:
    """Decide about what a running JobSet is placed by, beside its size."""
    found = gangs.look(observed, registry, base.snapshot.spec)
    decision = replace(decision, requeue_after_s=found.requeue_after_s, failure=decision.failure or found.failure)
    left = _left(observed)
    if left is _Left.NOTHING and not found.missing:
        return decision
    restored = _written(decision, observed, lambda: _restored(observed, registry, base, found.missing, left))
    if (restored.applies or restored.removals or not restored.is_built) and Check.JOB not in observed.checked:
        raise _Ask(Check.JOB)
    return restored


class _Left(Enum):
    """What may not have been written when the JobSet was."""

    NOTHING = auto()
    NEW = auto()
    """What is not there."""
    ALL = auto()
    """Also what changed."""


def _left(observed: Observed) -> _Left:
    """
    Say what was refused, could not be built, or was cut short. How far an earlier process came, the job's status tells.

    Its first counters, and that it is resumed, are written when all else is, or with the reason why it is not.
    """
    known, status = observed.memory.is_incomplete, observed.job.status
    is_hindered = status.diagnosis is not None and status.diagnosis.reason in HINDRANCES
    if known or (known is None and (is_hindered or is_condition_true(status.conditions, api.CONDITION_SUSPENDED))):
        return _Left.ALL
    return _Left.NEW if known is None and not status.jobs_status else _Left.NOTHING


def _resized(decision: Decision, observed: Observed, job_set: JobSetState) -> Decision:
    if decision.size is None or job_set.metadata.deletion_timestamp:
        return decision
    change = elastic.resize(observed.job, job_set, decision.size, observed.memory)
    if isinstance(change, Failure):
        return replace(decision, failure=change)
    return replace(decision, resize=change)


def _own(observed: Observed) -> JobSetState | None:
    job, job_set = observed.job, observed.job_set
    if job_set is None or job_set.metadata.is_controlled_by(job.metadata.uid):
        return job_set
    owner = job_set.metadata.controller
    if owner and owner.kind == "TrainJob" and owner.name == job.metadata.name:
        message = f'JobSet "{job.key}" still belongs to a deleted TrainJob of this name; waiting until it is gone'
    else:
        holder = f"belongs to {owner.kind} {owner.name}" if owner else "has no controller"
        message = f'JobSet "{job.key}" exists and {holder}, so it is left alone; delete it or rename the TrainJob'
    raise _Stuck(Failure(NAME_TAKEN, message))


def runtime_key(job: api.TrainJob) -> Key | None:
    """Where the runtime of a TrainJob lives; None if it refers to a kind that is not supported."""
    ref = job.spec.runtime_ref
    resource = RUNTIMES.get((ref.api_group, ref.kind))
    return Key(job.metadata.namespace if resource.namespaced else "", ref.name) if resource else None


_PREFIXES: Final = {
    api.TRAINING_RUNTIMES.kind: (
        "TrainingRuntime specified in TrainJob is not found: ",
        "unable to get runtime snapshot: ",
    ),
    api.CLUSTER_TRAINING_RUNTIMES.kind: (
        "not found ClusterTrainingRuntime specified in TrainJob: ",
        "getting runtime snapshot: ",
    ),
}
"""Go's words for a runtime that is missing, and for a snapshot that is unusable."""


class _Base(NamedTuple):
    """What a job is built from."""

    snapshot: Snapshot
    exists: bool
    is_shared: bool


def _base(observed: Observed) -> _Base:
    """
    Return the runtime this job runs on: the snapshot that it has, or what shall become that.

    Raises:
        PlanError: There is no usable one.
        _Ask: The content of the snapshot is not in memory.
    """
    job, found, shared = observed.job, observed.snapshot, observed.shared
    missing, unusable = _PREFIXES[job.spec.runtime_ref.kind]
    is_own = found is not None and found.metadata.is_controlled_by(job.metadata.uid)
    if shared is None and (found is None or (observed.shares and not is_own)):
        return _Base(_taken(observed, missing), exists=False, is_shared=observed.shares)
    exists = found is not None if shared is None else observed.context.lookup(SNAPSHOT_METADATA, shared) is not None
    try:
        snapshot = _shared_content(observed, shared, exists=exists) if shared else _content(observed, found)
        snapshots.check(snapshot, job.spec.runtime_ref)
    except PlanError as error:
        raise PlanError(f"{unusable}{error}") from error
    return _Base(snapshot, exists, is_shared=shared is not None)


def _taken(observed: Observed, missing: str) -> Snapshot:
    ref = observed.job.spec.runtime_ref
    if observed.taken is not None:
        return observed.taken
    if _is_runtime_unread(observed):
        raise PlanError(no_cluster_runtimes(ref.name, observed.job.metadata.namespace))
    if observed.runtime is None:
        raise PlanError(f'{missing}{ref.kind}.{ref.api_group} "{ref.name}" not found')
    return snapshots.take(observed.runtime, shared=observed.shares)


def _is_runtime_unread(observed: Observed) -> bool:
    """Whether the operator does not read runtimes of this kind, since they are in no namespace."""
    ref = observed.job.spec.runtime_ref
    resource = RUNTIMES[ref.api_group, ref.kind]
    return observed.runtime is None and not resource.namespaced and resource not in observed.kinds


def _content(observed: Observed, found: Object | None) -> Snapshot:
    memory = observed.memory
    if found is None or not found.metadata.is_controlled_by(observed.job.metadata.uid):
        raise PlanError(f"invalid runtime snapshot: {snapshots.FOREIGN}")
    current = memory.snapshot_version == found.metadata.resource_version or Check.SNAPSHOT in observed.checked
    if memory.snapshot is None or not current:
        raise _Ask(Check.SNAPSHOT)
    if isinstance(memory.snapshot, PlanError):
        raise memory.snapshot
    return memory.snapshot


def _shared_content(observed: Observed, key: Key, *, exists: bool) -> Snapshot:
    """Return what a shared snapshot holds: from memory, where its name proves it, or else as asked of the server."""
    memory, name = observed.memory.snapshot, key.name
    if memory is not None and not isinstance(memory, PlanError) and memory.shared_name == name:
        return memory
    if exists and Check.SNAPSHOT not in observed.checked:
        raise _Ask(Check.SNAPSHOT)
    if exists and isinstance(memory, PlanError):
        raise memory
    live = snapshots.take(observed.runtime, shared=True) if observed.runtime else None
    if live is not None and live.shared_name == name:
        return live
    raise PlanError(
        f'invalid runtime snapshot: the shared snapshot ConfigMap "{name}" is gone, and the runtime has changed since; '
        "restore it, or delete the JobSet to go on with the runtime as it is now"
    )


def _components(observed: Observed, registry: Registry, base: _Base, size: Size | None) -> Writing:
    """
    Build all components and return what is to be done about them.

    Raises:
        PipelineError: They cannot be built.
        _Ask: Only a comparison can tell whether they are written already.
    """
    job, ctx, snapshot = observed.job, observed.context, base.snapshot
    if observed.job_set is None:
        # The same rules as at admission, for clusters where the webhook is off or was down.
        if snapshot.refusal:
            ref = job.spec.runtime_ref
            raise PlanError(f'{ref.kind} "{ref.name}" is invalid: {snapshot.refusal}')
        findings = pipeline.validate(registry, job, None, snapshot.spec, ctx)
        if findings.errors:
            raise PlanError(findings.message)
    writing = Writing(observed)
    plan = pipeline.plan(registry, job, snapshot.spec, ctx)
    patches = tuple(patched.patch for patched in plan.journal.patches)
    for component in plan.components:
        sized = elastic.with_present_size(component, observed.job_set, size, observed.memory)
        writing.add(dataclasses.replace(Apply.of(_marked(sized, base)), patches=patches))
    if writing.unknown and Check.COMPONENTS not in observed.checked:
        raise _Ask(Check.COMPONENTS, tuple(writing.unknown), size)
    return writing


def _restored(observed: Observed, registry: Registry, base: _Base, missing: Sequence[Address], left: _Left) -> Writing:
    """
    Build anew what is *missing* beside the JobSet of a running job, and what may be left over.

    Raises:
        PipelineError: It cannot be built.
        _Ask: Only a comparison can tell whether it is written already.
    """
    writing = Writing(observed)
    is_after = False
    for component in pipeline.plan(registry, observed.job, base.snapshot.spec, observed.context).components:
        apply = Apply.of(component)
        where = (component.resource, apply.key)
        is_new = left is not _Left.NOTHING and observed.context.lookup(*where) is None
        if where in missing or is_new or (is_after and left is _Left.ALL):
            writing.add(apply)
        is_after |= component.resource == JOB_SET_STATES
    if writing.unknown and Check.COMPONENTS not in observed.checked:
        raise _Ask(Check.COMPONENTS, tuple(writing.unknown))
    return writing


def _marked(component: Component, base: _Base) -> Component:
    """Have the JobSet say which shared snapshot it runs on, and nothing if on none, whatever templates say."""
    if component.resource != JOB_SET_STATES:
        return component
    metadata = component.body["metadata"]
    annotations = {key: value for key, value in metadata.get("annotations", {}).items() if key != snapshots.SHARED}
    if base.is_shared:
        annotations[snapshots.SHARED] = base.snapshot.shared_name
    marked = {key: value for key, value in metadata.items() if key != "annotations"}
    if annotations:
        marked["annotations"] = annotations
    return dataclasses.replace(component, body=component.body | {"metadata": marked})
