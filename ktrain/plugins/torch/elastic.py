"""
Elastic jobs: torchrun's dynamic rendezvous, in which nodes join and leave while the others train on.

The variables say the range and never the present size, so they are the same for the job's whole life: a change of size
changes no pod that runs. The agent of node 0 holds the store where all meet. It is the last index to be removed, and
its success is the job's: an agent that comes when the others are done finds the rendezvous closed, and fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from ktrain.api import trainer as api
from ktrain.pipeline.findings import FieldError, forbidden, invalid
from ktrain.pipeline.info import literal

from .torchtune import is_torchtune
from .variables import NNODES, NPROC_PER_NODE, STANDALONE, processes_per_node

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json
    from ktrain.pipeline.info import Container, Info

RDZV_BACKEND: Final = "PET_RDZV_BACKEND"
RDZV_ENDPOINT: Final = "PET_RDZV_ENDPOINT"
RDZV_ID: Final = "PET_RDZV_ID"
MAX_RESTARTS: Final = "PET_MAX_RESTARTS"
SHARED_STORE_OFF: Final = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"
"""
Have rank 0 open a new store for the workers in each round. PyTorch otherwise keeps that of the first round, without
telling those who join later where it is: they wait for it, and all others for them.
"""
RDZV_CONF: Final = "PET_RDZV_CONF"
_RESERVED: Final = frozenset((RDZV_BACKEND, RDZV_ENDPOINT, RDZV_ID, MAX_RESTARTS, STANDALONE))
PORT_NAME: Final = "kubeflow-rdzv"
"""The TorchElastic proposal calls the port `kubeflow-rdzv-port`, but a port's name has at most 15 characters."""

_RESTARTS: Final = 3
"""
Where the policy says nothing, as PyTorch's own launcher has it. With the 0 of `torchrun`, every agent would end when
the first node leaves: that costs each of the others one restart.
"""
_FAILURES_PER_NODE: Final = 6
"""A Job's default for one pod. Here the loss of node 0 fails all of them, and those that left count on."""
_QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
_FIXED: Final = ("completionMode", "completions", "parallelism")
ELASTIC_NODES: Final = "spec.elasticNodes"
NUM_NODES: Final = "spec.trainer.numNodes"
_NOT_ELASTIC: Final = f"needs a runtime with torch.elasticPolicy; any other has the nodes that {NUM_NODES} says"
_OUT_OF_RANGE: Final = "must be within minNodes and maxNodes of the runtime's torch.elasticPolicy: {} to {}"


def variables(info: Info, policy: api.ElasticPolicy) -> list[Json]:
    """Return what torchrun is told. Node rank and master are of the static rendezvous only."""
    restarts, limits = _RESTARTS if policy.max_restarts is None else policy.max_restarts, policy.range_of(info.job)
    return [
        literal(NNODES, f"{limits.min_nodes}:{limits.max_nodes}"),
        literal(NPROC_PER_NODE, str(processes_per_node(info))),
        *_rendezvous(info, policy),
        literal(MAX_RESTARTS, str(restarts)),
        literal(SHARED_STORE_OFF, "1"),
    ]


def _rendezvous(info: Info, policy: api.ElasticPolicy) -> Iterator[Json]:
    """Yield where the agents meet. A standalone agent chooses backend, endpoint and id itself."""
    if policy.standalone:
        yield literal(STANDALONE, "1")
    else:
        yield literal(RDZV_BACKEND, "c10d")
        yield literal(RDZV_ENDPOINT, f"{policy.rdzv_host or info.coordinator_host}:{policy.rdzv_port}")
        # A job made again under its name must not meet what is left of the first.
        yield literal(RDZV_ID, policy.rdzv_id or info.job.metadata.uid or info.job.metadata.name)
    if policy.rdzv_conf:
        yield literal(RDZV_CONF, ",".join(f"{setting.key}={setting.value}" for setting in policy.rdzv_conf))


def reserved(policy: api.ElasticPolicy | None) -> frozenset[str]:
    """Return the variables that the policy sets, which a TrainJob must not set."""
    if policy is None:
        return frozenset()
    return _RESERVED | {RDZV_CONF} if policy.rdzv_conf else _RESERVED


def declare_port(container: Container, policy: api.ElasticPolicy) -> None:
    """Declare the port of the rendezvous. A standalone agent has none that others reach."""
    if not policy.standalone:
        container.set_port(policy.rdzv_port, name=PORT_NAME)


def shape(info: Info, policy: api.ElasticPolicy) -> None:
    """Make the Job of the nodes one that can grow and shrink."""
    name = info.job.metadata.name
    if policy.max_restarts is not None:
        info.default_field("failurePolicy", {"maxRestarts": policy.max_restarts})
    info.set_metadata("labels", api.ELASTIC_LABEL, name)
    if trainer := info.trainer:
        limits = policy.range_of(info.job)
        trainer.set_count(policy.nodes_of(info.job), least=limits.min_nodes)
        trainer.set_job_label(api.ELASTIC_LABEL, name)
        trainer.set_job_field("completionMode", "Indexed")
        trainer.default_job_field("backoffLimit", _FAILURES_PER_NODE * limits.max_nodes)
        trainer.default_job_field("successPolicy", {"rules": [{"succeededIndexes": "0"}]})


def check_new(info: Info, policy: api.ElasticPolicy) -> Iterator[FieldError]:
    """Yield what a new job may not ask of an elastic runtime."""
    job, trainer = info.job, info.job.spec.trainer
    named = {NUM_NODES: trainer.num_nodes if trainer else None, ELASTIC_NODES: job.spec.elastic_nodes}
    for path, nodes in named.items():
        if nodes is not None:
            yield from _within(policy.range_of(job), path, nodes)
    if trainer and is_torchtune(trainer):
        command = list(trainer.command or ())
        yield invalid("spec.trainer.command", command, "TorchTune cannot train under torch.elasticPolicy")
    if info.trainer is None:
        detail = "torch.elasticPolicy needs a job of the trainer step, and the runtime has none"
        yield invalid("spec.runtimeRef", {"name": job.spec.runtime_ref.name}, detail)


def check_size(job: api.TrainJob, old: api.TrainJob | None, policy: api.ElasticPolicy | None) -> Iterator[FieldError]:
    """
    Yield what is wrong with another number of nodes, or with one where there cannot be any.

    The range is the one in the status, which is the snapshot's: the runtime may say another one by now.
    """
    nodes = job.spec.elastic_nodes
    if nodes is None or (old and old.spec.elastic_nodes == nodes):
        return
    limits = (old.status.elastic if old else None) or (policy.range_of(job) if policy else None)
    if limits is None:
        yield forbidden(ELASTIC_NODES, _NOT_ELASTIC)
    elif old:
        yield from _within(limits, ELASTIC_NODES, nodes)
    if old and old.is_finished:
        yield forbidden(ELASTIC_NODES, "must not change once the TrainJob has ended")


def _within(limits: api.NodeRange | api.ElasticStatus, path: str, nodes: int) -> Iterator[FieldError]:
    if not limits.min_nodes <= nodes <= limits.max_nodes:
        yield invalid(path, nodes, _OUT_OF_RANGE.format(limits.min_nodes, limits.max_nodes))


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


def beyond_the_queue(job: api.TrainJob, old: api.TrainJob | None) -> Iterator[str]:
    """Warn of nodes that the job's queue does not count: Kueue knows `trainer.numNodes`, and 1 where it is unset."""
    queue, nodes = job.metadata.labels.get(_QUEUE_LABEL), job.asked_nodes
    if not queue or nodes is None or (old and nodes <= (old.asked_nodes or 0)):
        return
    counted = (job.spec.trainer.num_nodes if job.spec.trainer else None) or 1
    if nodes > counted:
        yield f"{ELASTIC_NODES}: queue {queue} counts {counted} (spec.trainer.numNodes, or 1), and no nodes beyond"
