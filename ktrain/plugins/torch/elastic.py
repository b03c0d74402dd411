"""
Elastic jobs: torchrun's dynamic rendezvous, in which nodes join and leave while the others train on.

The variables say the range and never the present size, so they are the same for the job's whole life: a change of size
changes no pod that runs. The agent of node 0 holds the store where all meet. It is the last index to be removed, and
its success is the job's: an agent that comes when the others are done finds the rendezvous closed, and fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from ktrain.api import trainer as api
from ktrain.pipeline.findings import FieldError, forbidden, invalid
from ktrain.pipeline.info import literal

from .torchtune import is_torchtune
from .variables import NNODES, NPROC_PER_NODE, processes_per_node

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json
    from ktrain.pipeline.info import Info

RDZV_BACKEND: Final = "PET_RDZV_BACKEND"
RDZV_ENDPOINT: Final = "PET_RDZV_ENDPOINT"
RDZV_ID: Final = "PET_RDZV_ID"
MAX_RESTARTS: Final = "PET_MAX_RESTARTS"
SHARED_STORE_OFF: Final = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"
"""
Have rank 0 open a new store for the workers in each round. PyTorch otherwise keeps that of the first round, without
telling those who join later where it is: they wait for it, and all others for them.
"""
RESERVED: Final = frozenset((RDZV_BACKEND, RDZV_ENDPOINT, RDZV_ID, MAX_RESTARTS))

_RESTARTS: Final = 3
"""
Where the policy says nothing, as PyTorch's own launcher has it. With the 0 of `torchrun`, every agent would end when
the first node leaves: that costs each of the others one restart.
"""
_FAILURES_PER_NODE: Final = 6
"""A Job's default for one pod. Here the loss of node 0 fails all of them, and those that left count on."""
_QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
_FIXED: Final = ("completionMode", "completions", "parallelism")
_OUT_OF_RANGE: Final = "must be within minNodes and maxNodes of the runtime's torch.elasticPolicy: {} to {}"


def policy_of(runtime: api.RuntimeSpec | None) -> api.ElasticPolicy | None:
    """Return the elastic policy of a runtime, if it has one."""
    torch = runtime.ml_policy.torch if runtime and runtime.ml_policy else None
    return torch.elastic_policy if torch else None


def asked(job: api.TrainJob) -> int | None:
    """Return how many nodes the TrainJob names."""
    return job.spec.trainer.num_nodes if job.spec.trainer else None


def desired(job: api.TrainJob, policy: api.ElasticPolicy) -> int:
    """Return how many nodes there should be: the fewest, unless the TrainJob says how many, within the range."""
    nodes = asked(job)
    return policy.min_nodes if nodes is None else min(max(nodes, policy.min_nodes), policy.max_nodes)


def variables(info: Info, policy: api.ElasticPolicy) -> list[Json]:
    """Return what torchrun is told. Node rank and master are of the static rendezvous only."""
    restarts = _RESTARTS if policy.max_restarts is None else policy.max_restarts
    return [
        literal(NNODES, f"{policy.min_nodes}:{policy.max_nodes}"),
        literal(NPROC_PER_NODE, str(processes_per_node(info))),
        literal(RDZV_BACKEND, "c10d"),
        literal(RDZV_ENDPOINT, f"{info.coordinator_host}:{api.TRAINER_PORT}"),
        # A job made again under its name must not meet what is left of the first.
        literal(RDZV_ID, info.job.metadata.uid or info.job.metadata.name),
        literal(MAX_RESTARTS, str(restarts)),
        literal(SHARED_STORE_OFF, "1"),
    ]


def shape(info: Info, policy: api.ElasticPolicy) -> None:
    """Make the Job of the nodes one that can grow and shrink."""
    name = info.job.metadata.name
    if policy.max_restarts is not None:
        info.template.setdefault("failurePolicy", {"maxRestarts": policy.max_restarts})
    info.labels[api.ELASTIC_LABEL] = name
    if trainer := info.trainer:
        trainer.set_count(desired(info.job, policy), least=policy.min_nodes)
        trainer.set_job_label(api.ELASTIC_LABEL, name)
        trainer.set_job_field("completionMode", "Indexed")
        trainer.default_job_field("backoffLimit", _FAILURES_PER_NODE * policy.max_nodes)
        trainer.default_job_field("successPolicy", {"rules": [{"succeededIndexes": "0"}]})


def check_new(info: Info, policy: api.ElasticPolicy) -> Iterator[FieldError]:
    """Yield what a new job may not ask of an elastic runtime."""
    job = info.job
    nodes = asked(job)
    if nodes is not None and not policy.min_nodes <= nodes <= policy.max_nodes:
        yield invalid("spec.trainer.numNodes", nodes, _OUT_OF_RANGE.format(policy.min_nodes, policy.max_nodes))
    if job.spec.trainer and is_torchtune(job.spec.trainer):
        command = list(job.spec.trainer.command or ())
        yield invalid("spec.trainer.command", command, "TorchTune cannot train under torch.elasticPolicy")
    if info.trainer is None:
        detail = "torch.elasticPolicy needs a job of the trainer step, and the runtime has none"
        yield invalid("spec.runtimeRef", {"name": job.spec.runtime_ref.name}, detail)


def check_patches(info: Info) -> Iterator[FieldError]:
    """Yield what patches may not say of the size: it is the TrainJob's."""
    trainer = info.trainer
    for patch in info.job.spec.runtime_patches:
        spec: Json = msgspec.json.decode(patch.training_runtime_spec) if patch.training_runtime_spec else {}
        for target in ((spec.get("template") or {}).get("spec") or {}).get("replicatedJobs") or ():
            named = (target.get("template") or {}).get("spec") or {}
            for field in _FIXED:
                if trainer and target.get("name") == trainer.name and field in named:
                    detail = f"must not set {field} of {trainer.name}: the runtime has torch.elasticPolicy"
                    yield forbidden("spec.runtimePatches", detail)


def check_resize(job: api.TrainJob, old: api.TrainJob) -> Iterator[FieldError]:
    """
    Yield what is wrong with another number of nodes.

    The range is the one in the status, which is the snapshot's: the runtime may say another one by now. The definition
    compares only the number, since to compare all that must not change costs too much there.
    """
    if asked(job) == asked(old):
        return
    limits = old.status.elastic
    if limits is None or _without_nodes(job) != _without_nodes(old):
        yield invalid("spec.trainer", msgspec.to_builtins(_json(job.spec.trainer)), "field is immutable")
        return
    nodes = asked(job)
    if nodes is None or not limits.min_nodes <= nodes <= limits.max_nodes:
        yield invalid("spec.trainer.numNodes", nodes, _OUT_OF_RANGE.format(limits.min_nodes, limits.max_nodes))
    if old.is_finished:
        yield forbidden("spec.trainer.numNodes", "must not change once the TrainJob has ended")


def admitted_size(job: api.TrainJob, old: api.TrainJob | None) -> Iterator[str]:
    """Warn of a job that grows beyond what its queue has admitted."""
    before, after = asked(old) if old else None, asked(job)
    if before is None or after is None or after <= before or job.is_suspended:
        return
    if queue := job.metadata.labels.get(_QUEUE_LABEL):
        yield f"spec.trainer.numNodes: queue {queue} admitted {before} nodes, and does not count those beyond"


def _without_nodes(job: api.TrainJob) -> Any:  # noqa: ANN401 -- a JSON value
    trainer = job.spec.trainer or api.Trainer()
    return _json(msgspec.structs.replace(trainer, num_nodes=None))


def _json(trainer: api.Trainer | None) -> Any:  # noqa: ANN401 -- a JSON value
    return msgspec.json.decode(msgspec.json.encode(trainer))
