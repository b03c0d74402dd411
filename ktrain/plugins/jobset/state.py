"""
The part of a JobSet that the operator keeps: its suspension, sizes, steps and status. The templates never reach memory.
"""

from __future__ import annotations

from typing import Final

import msgspec

from ktrain.api import jobset as api
from ktrain.api.meta import Alike, Object, Resource, Struct, is_condition_true
from ktrain.api.trainer import ANCESTOR_DATASET_INITIALIZER, ANCESTOR_LABEL, ANCESTOR_MODEL_INITIALIZER

_INITIALIZERS: Final = (ANCESTOR_DATASET_INITIALIZER, ANCESTOR_MODEL_INITIALIZER)


class StepLabel(Struct, frozen=True):
    """The one label of a template that says which step of a TrainJob it is."""

    step: Alike[str] = msgspec.field(default="", name=ANCESTOR_LABEL)


class LabelledMeta(Struct, frozen=True):
    """The metadata of a template, by that label."""

    labels: StepLabel = StepLabel()


class PodTemplateState(Struct, frozen=True):
    """A pod template by its step: KEP-2170 has the label there."""

    metadata: LabelledMeta = LabelledMeta()


class JobSpecState(api.JobSize, frozen=True):
    """The size in a Job template, and the step that its pods say they are."""

    template: PodTemplateState = PodTemplateState()


class JobTemplateState(Struct, frozen=True):
    """A Job template by its step and size."""

    metadata: LabelledMeta = LabelledMeta()
    spec: JobSpecState = JobSpecState()


class ReplicatedJobState(Struct, frozen=True):
    """A replicated job by its name, its Jobs' size and number, and what it waits for."""

    name: str = ""
    template: JobTemplateState = JobTemplateState()
    replicas: int = 1
    depends_on: tuple[api.DependsOn, ...] = ()

    @property
    def pods(self) -> int:
        """How many pods each of its Jobs has at a time. A Job without a size has one."""
        size = self.template.spec
        high = 1 if size.parallelism is None else size.parallelism
        return high if size.completions is None else min(high, size.completions)

    @property
    def initializes(self) -> bool:
        """Whether it is the step of an initializer, so that its pods do not train."""
        step = self.template.metadata.labels.step or self.template.spec.template.metadata.labels.step
        return step in _INITIALIZERS


class JobSetStateSpec(Struct, frozen=True):
    """Whether the JobSet may be written, and what may change even if not."""

    suspend: bool = False
    replicated_jobs: tuple[ReplicatedJobState, ...] = ()


class JobSetState(Object, frozen=True):
    """A JobSet by its suspension, its sizes and steps, and its status."""

    spec: Alike[JobSetStateSpec] = JobSetStateSpec()
    status: api.JobSetStatus | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it is completed or has failed, by its conditions or by its `terminalState`."""
        status = self.status or api.JobSetStatus()
        ends = (api.CONDITION_COMPLETED, api.CONDITION_FAILED)
        return status.terminal_state in ends or any(is_condition_true(status.conditions, end) for end in ends)


JOB_SET_STATES: Final = Resource(api.GROUP, api.VERSION, "JobSet", "jobsets", namespaced=True, type=JobSetState)
