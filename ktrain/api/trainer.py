"""
TrainJob, TrainingRuntime, ClusterTrainingRuntime (`trainer.kubeflow.org/v1alpha1`) as ktrain reads them.

What only passes through (env, resources, patches, runtime templates) stays raw JSON and is decoded while a pipeline
runs. A list as one text: a text per variable would take more memory in the cache than the rest of a TrainJob.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from .meta import Alike, Condition, Key, Object, Resource, Struct

GROUP: Final = "trainer.kubeflow.org"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

ANCESTOR_LABEL: Final = "trainer.kubeflow.org/trainjob-ancestor-step"
"""On a replicated job's *Job template* metadata: which step of a TrainJob it is."""
ANCESTOR_TRAINER: Final = "trainer"
ANCESTOR_DATASET_INITIALIZER: Final = "dataset-initializer"
ANCESTOR_MODEL_INITIALIZER: Final = "model-initializer"
ELASTIC_LABEL: Final = "trainer.kubeflow.org/elastic"
"""On the JobSet of an elastic TrainJob and on the Job of its nodes: the TrainJob's name."""
SUPPORT_LABEL: Final = "trainer.kubeflow.org/support"
IN_USE_FINALIZER: Final = "trainer.kubeflow.org/resource-in-use"

ABSENT: Final = msgspec.Raw(b"")
"""A raw field that is not there; false, where JSON never is. (msgspec cannot decode `Raw | None`.)"""

MANAGED_BY: Final = "trainer.kubeflow.org/trainjob-controller"
FIELD_MANAGER: Final = "trainer"
TRAINER_CONTAINER: Final = "node"
TRAINER_PORT: Final = 29500

CONDITION_SUSPENDED: Final = "Suspended"
CONDITION_COMPLETE: Final = "Complete"
CONDITION_FAILED: Final = "Failed"
CONDITIONS: Final = (CONDITION_SUSPENDED, CONDITION_COMPLETE, CONDITION_FAILED)
"""Kubeflow's own types. Every other condition of a TrainJob is a plugin's, or another controller's."""
MAX_CONDITIONS: Final = 8
"""How many conditions the CRD allows."""


class RuntimeRef(Struct, frozen=True):
    """Which runtime a TrainJob runs on. The API server fills in absent fields, not empty ones."""

    name: str = ""
    api_group: str = GROUP
    kind: str = "ClusterTrainingRuntime"


class Trainer(Struct, frozen=True):
    """`spec.trainer`. None means absent; an empty command or args is a value and clears the runtime's."""

    image: Alike[str] | None = None
    command: tuple[Alike[str], ...] | None = None
    args: tuple[str, ...] | None = None
    env: msgspec.Raw = ABSENT
    num_nodes: int | None = None
    resources_per_node: msgspec.Raw = ABSENT
    num_proc_per_node: int | None = None
    processes_per_node: str = ""
    """
    `auto`, `cpu` or `gpu`, where the user says so in `numProcPerNode`, as Trainer 2.1 and KEP-2170 let him. A field of
    ktrain's own: later typed clients fail to read a text in that one.
    """


class AssetInitializer(Struct, frozen=True):
    """`spec.initializer.dataset` or `.model`."""

    storage_uri: str | None = None
    env: msgspec.Raw = ABSENT
    secret_ref: msgspec.Raw = ABSENT


class Initializer(Struct, frozen=True):
    """`spec.initializer`."""

    dataset: AssetInitializer | None = None
    model: AssetInitializer | None = None


class RuntimePatch(Struct, frozen=True):
    """One manager's patch of the runtime; `training_runtime_spec` passes through whole."""

    manager: str = ""
    time: datetime | None = None
    training_runtime_spec: msgspec.Raw = ABSENT


class TrainJobSpec(Struct, frozen=True):
    """The specification of a TrainJob."""

    runtime_ref: Alike[RuntimeRef] = RuntimeRef()
    initializer: Initializer | None = None
    trainer: Trainer | None = None
    elastic_nodes: int | None = None
    """
    How many nodes there should be now. ktrain's own, and only for elastic jobs: `trainer.num_nodes` is fixed, as all
    of `trainer` is.
    """
    runtime_patches: tuple[RuntimePatch, ...] = ()
    suspend: bool | None = None
    active_deadline_seconds: int | None = None
    managed_by: Alike[str] | None = None
    # What 2.0 and 2.1 had instead of `runtime_patches`; `ktrain.pipeline.older` reads them.
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    pod_spec_overrides: msgspec.Raw = ABSENT
    pod_template_overrides: msgspec.Raw = ABSENT


class JobStatus(Struct, frozen=True, omit_defaults=False):
    """Counters of child Jobs of one replicated job; the CRD requires all five."""

    name: str
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    active: int = 0
    suspended: int = 0


class Diagnosis(Struct, frozen=True):
    """
    Why a TrainJob does not get on, for people; absent while all is well.

    ktrain's own field beside Kubeflow's: a condition would be misread by the SDK, which takes any condition of an
    unfinished job for progress.
    """

    reason: str = ""
    message: str = ""
    since: datetime | None = None


class ElasticStatus(Struct, frozen=True):
    """
    How large an elastic TrainJob may be, should be and is.

    ktrain's own field, too: the scale subresource reads it, so that an autoscaler can resize the job.
    """

    min_nodes: int = 1
    max_nodes: int = 1
    desired_nodes: int = 0
    observed_nodes: int = 0
    selector: str = ""


class Nodes(Struct, frozen=True):
    """`status.nodes`: how many pods that train are ready or done, of how many."""

    ready: int = 0
    wanted: int = 0


class Metric(Struct, frozen=True):
    """A figure of the training."""

    name: str = ""
    value: str = ""


class TrainerStatus(Struct, frozen=True):
    """`status.trainerStatus`: how far the training is, as its pods reported. What is absent is not known."""

    progress_percentage: int | None = None
    estimated_remaining_seconds: int | None = None
    metrics: tuple[Metric, ...] | None = None
    last_updated_time: datetime | None = None


class Reported(Struct, frozen=True):
    """The same, of which controllers read only its age: its writer must not go back to an older one."""

    last_updated_time: datetime | None = None


class TrainJobStatus(Struct, frozen=True):
    """The observed state of a TrainJob. Only the status server writes `trainerStatus`."""

    conditions: tuple[Condition, ...] = ()
    jobs_status: Alike[tuple[JobStatus, ...]] = ()
    diagnosis: Diagnosis | None = None
    elastic: ElasticStatus | None = None
    # ktrain's own, as `diagnosis` is: what `kubectl get` shows. `controllers.trainjob.state` has the rules.
    state: Alike[str] = ""
    nodes: Alike[Nodes] | None = None
    restarts: int | None = None
    trainer_status: Reported | None = None


class TrainJob(Object, frozen=True):
    """A TrainJob."""

    spec: TrainJobSpec = TrainJobSpec()
    status: TrainJobStatus = TrainJobStatus()

    @property
    def is_suspended(self) -> bool:
        """Whether the user wants it suspended."""
        return self.spec.suspend is True

    @property
    def is_managed_here(self) -> bool:
        """Whether this controller is responsible for it, and not another one."""
        return self.spec.managed_by in (None, MANAGED_BY)

    @property
    def asked_nodes(self) -> int | None:
        """How many nodes an elastic job asks for: what was asked for last, else what it began with, if it says."""
        if self.spec.elastic_nodes is not None:
            return self.spec.elastic_nodes
        return self.spec.trainer.num_nodes if self.spec.trainer else None

    @property
    def runtime_id(self) -> str:
        """Which runtime it refers to, as one text: `<kind>/<key>` of the runtime, whose API group is taken as ours."""
        ref = self.spec.runtime_ref
        return f"{ref.kind}/{Key(self.metadata.namespace if ref.kind == TRAINING_RUNTIMES.kind else '', ref.name)}"

    @property
    def is_finished(self) -> bool:
        """Whether it is Complete or Failed; both are final."""
        return any(c.is_true and c.type in (CONDITION_COMPLETE, CONDITION_FAILED) for c in self.status.conditions)


class EnvInjectionTarget(Struct, frozen=True):
    """Containers of one replicated job that get the rendezvous variables although they are not the trainer."""

    job_name: str = ""
    container_names: tuple[str, ...] = ()


class EnvInjection(Struct, frozen=True):
    """`torch.envInjection`."""

    targets: tuple[EnvInjectionTarget, ...] = ()


class NodeRange(Struct, frozen=True):
    """The fewest and the most nodes of one elastic TrainJob."""

    min_nodes: int = 1
    max_nodes: int = 1


class RendezvousSetting(Struct, frozen=True):
    """One setting of torchrun's `--rdzv-conf`."""

    key: str = ""
    value: str = ""


class ElasticPolicy(Struct, frozen=True):
    """
    `torch.elasticPolicy`: on how many nodes a job may train, and where they meet.

    `metrics` are of autoscaling/v2 and pass through. `minReplicas` and `maxReplicas` are PyTorchJob's names of
    `minNodes` and `maxNodes`. The schema admits no `backend` but c10d, so it is not read.
    """

    min_nodes: int | None = None
    max_nodes: int | None = None
    min_replicas: int | None = None
    max_replicas: int | None = None
    max_restarts: int | None = None
    metrics: msgspec.Raw = ABSENT
    n_proc_per_node: int | str | None = None
    rdzv_conf: tuple[RendezvousSetting, ...] = ()
    rdzv_host: str | None = None
    rdzv_id: str | None = None
    rdzv_port: int = TRAINER_PORT
    standalone: bool = False

    def range_of(self, job: TrainJob) -> NodeRange:
        """
        Return the range of a job, as PyTorchJob defaults it.

        A limit that is absent is the other one. Without both, the job stays on the nodes that `trainer.numNodes` says,
        and a standalone one on its single node.
        """
        least = self.min_replicas if self.min_nodes is None else self.min_nodes
        most = self.max_replicas if self.max_nodes is None else self.max_nodes
        if least is None and most is None:
            trainer = job.spec.trainer
            own = trainer.num_nodes if trainer and not self.standalone else None
            least = most = own or 1
        return NodeRange(least or most or 1, most or least or 1)

    def nodes_of(self, job: TrainJob) -> int:
        """Return how many nodes there should be: what the job asks for, within the range; else the fewest."""
        asked, limits = job.asked_nodes, self.range_of(job)
        return limits.min_nodes if asked is None else min(max(asked, limits.min_nodes), limits.max_nodes)


class TorchPolicy(Struct, frozen=True):
    """`mlPolicy.torch`."""

    env_injection: EnvInjection | None = None
    elastic_policy: ElasticPolicy | None = None
    num_proc_per_node: int | str | None = None
    """`auto`, `cpu`, `gpu` or a number: of 2.1, where the TrainJob says nothing."""

    @property
    def processes(self) -> int | str | None:
        """The same, also under PyTorchJob's name in the elastic policy; the schema admits one of the two."""
        in_policy = self.elastic_policy.n_proc_per_node if self.elastic_policy else None
        return in_policy if self.num_proc_per_node is None else self.num_proc_per_node


class PluginPolicy(Struct, frozen=True):
    """The open slot of a policy: which plugin, and that plugin's own configuration."""

    name: str = ""
    config: msgspec.Raw = ABSENT


class MLPolicy(Struct, frozen=True):
    """How the framework is told who its peers are. At most one framework is set; its plugin decodes the raw ones."""

    num_nodes: int | None = None
    torch: TorchPolicy | None = None
    mpi: msgspec.Raw = ABSENT
    jax: msgspec.Raw = ABSENT
    xgboost: msgspec.Raw = ABSENT
    flux: msgspec.Raw = ABSENT
    plugin: PluginPolicy | None = None


class PodGroupPolicy(Struct, frozen=True):
    """Which gang scheduler; its plugin decodes the raw settings."""

    coscheduling: msgspec.Raw = ABSENT
    volcano: msgspec.Raw = ABSENT
    workload: msgspec.Raw = ABSENT
    plugin: PluginPolicy | None = None


class TemplateMeta(Struct, frozen=True):
    """The metadata of a template that reaches the object made from it."""

    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


class JobSetTemplate(Struct, frozen=True):
    """`spec.template` of a runtime: JobSet metadata, and a JobSet spec that passes through whole."""

    metadata: TemplateMeta = TemplateMeta()
    spec: msgspec.Raw = msgspec.Raw(b"{}")


class RuntimeSpec(Struct, frozen=True):
    """A runtime's `spec`, as the pipeline reads it."""

    ml_policy: MLPolicy | None = None
    pod_group_policy: PodGroupPolicy | None = None
    template: JobSetTemplate = JobSetTemplate()

    @property
    def elastic_policy(self) -> ElasticPolicy | None:
        """The policy of its elastic jobs, if they are."""
        torch = self.ml_policy.torch if self.ml_policy else None
        return torch.elastic_policy if torch else None


class Runtime(Object, frozen=True):
    """A TrainingRuntime or ClusterTrainingRuntime. The spec passes through whole: it is snapshotted and built from."""

    spec: msgspec.Raw = msgspec.Raw(b"{}")


SNAPSHOT_SUFFIX: Final = "-runtime-snapshot"
SNAPSHOT_KEY: Final = "runtime"

TRAIN_JOBS: Final = Resource(GROUP, VERSION, "TrainJob", "trainjobs", namespaced=True, type=TrainJob)
TRAINING_RUNTIMES: Final = Resource(
    GROUP, VERSION, "TrainingRuntime", "trainingruntimes", namespaced=True, type=Runtime
)
CLUSTER_TRAINING_RUNTIMES: Final = Resource(
    GROUP, VERSION, "ClusterTrainingRuntime", "clustertrainingruntimes", namespaced=False, type=Runtime
)
