"""
TrainJob, TrainingRuntime, ClusterTrainingRuntime (`trainer.kubeflow.org/v1alpha1`) as ktrain reads them.

What only passes through (env, resources, patches, runtime templates) stays raw JSON and is decoded while a pipeline runs.
"""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 -- msgspec resolves annotations at run time
from typing import Final

import msgspec

from .meta import Condition, Object, Resource, Struct

GROUP: Final = "trainer.kubeflow.org"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

ANCESTOR_LABEL: Final = "trainer.kubeflow.org/trainjob-ancestor-step"
"""On a replicated job's *Job template* metadata: which step of a TrainJob it is."""
ANCESTOR_TRAINER: Final = "trainer"
ANCESTOR_DATASET_INITIALIZER: Final = "dataset-initializer"
ANCESTOR_MODEL_INITIALIZER: Final = "model-initializer"
SUPPORT_LABEL: Final = "trainer.kubeflow.org/support"
IN_USE_FINALIZER: Final = "trainer.kubeflow.org/resource-in-use"

MANAGED_BY: Final = "trainer.kubeflow.org/trainjob-controller"
FIELD_MANAGER: Final = "trainer"
TRAINER_CONTAINER: Final = "node"
TRAINER_PORT: Final = 29500

CONDITION_SUSPENDED: Final = "Suspended"
CONDITION_COMPLETE: Final = "Complete"
CONDITION_FAILED: Final = "Failed"


class RuntimeRef(Struct, frozen=True):
    """Which runtime a TrainJob runs on. The API server fills the defaults when a field is absent, not when it is empty."""

    name: str = ""
    api_group: str = GROUP
    kind: str = "ClusterTrainingRuntime"


class Trainer(Struct, frozen=True):
    """`spec.trainer`. None means absent; an empty command or args is a value and clears the runtime's."""

    image: str | None = None
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None
    env: tuple[msgspec.Raw, ...] = ()
    num_nodes: int | None = None
    resources_per_node: msgspec.Raw | None = None
    num_proc_per_node: int | None = None


class AssetInitializer(Struct, frozen=True):
    """`spec.initializer.dataset` or `.model`."""

    storage_uri: str | None = None
    env: tuple[msgspec.Raw, ...] = ()
    secret_ref: msgspec.Raw | None = None


class Initializer(Struct, frozen=True):
    """`spec.initializer`."""

    dataset: AssetInitializer | None = None
    model: AssetInitializer | None = None


class RuntimePatch(Struct, frozen=True):
    """One manager's patch of the runtime; `training_runtime_spec` passes through whole."""

    manager: str = ""
    time: datetime | None = None
    training_runtime_spec: msgspec.Raw | None = None


class TrainJobSpec(Struct, frozen=True):
    """The specification of a TrainJob."""

    runtime_ref: RuntimeRef = RuntimeRef()
    initializer: Initializer | None = None
    trainer: Trainer | None = None
    runtime_patches: tuple[RuntimePatch, ...] = ()
    suspend: bool | None = None
    active_deadline_seconds: int | None = None
    managed_by: str | None = None


class JobStatus(Struct, frozen=True, omit_defaults=False):
    """Counters of child Jobs of one replicated job; the CRD requires all five."""

    name: str
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    active: int = 0
    suspended: int = 0


class TrainJobStatus(Struct, frozen=True):
    """What was observed of a TrainJob. `trainerStatus` is another writer's and is not read."""

    conditions: tuple[Condition, ...] = ()
    jobs_status: tuple[JobStatus, ...] = ()


class TrainJob(Object, frozen=True):
    """A TrainJob."""

    spec: TrainJobSpec = TrainJobSpec()
    status: TrainJobStatus = TrainJobStatus()

    @property
    def is_finished(self) -> bool:
        """Whether it is Complete or Failed; both are final."""
        return any(c.is_true and c.type in (CONDITION_COMPLETE, CONDITION_FAILED) for c in self.status.conditions)


class Runtime(Object, frozen=True):
    """A TrainingRuntime or ClusterTrainingRuntime. The spec passes through whole: it is snapshotted and built from."""

    spec: msgspec.Raw = msgspec.Raw(b"{}")


TRAIN_JOBS: Final = Resource(GROUP, VERSION, "TrainJob", "trainjobs", namespaced=True, type=TrainJob)
TRAINING_RUNTIMES: Final = Resource(
    GROUP, VERSION, "TrainingRuntime", "trainingruntimes", namespaced=True, type=Runtime
)
CLUSTER_TRAINING_RUNTIMES: Final = Resource(
    GROUP, VERSION, "ClusterTrainingRuntime", "clustertrainingruntimes", namespaced=False, type=Runtime
)
