"""How many processes a container's resources are good for. Exact: quantities are fractions, counts round up."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from ktrain.api import quantity
from ktrain.api import trainer as api

if TYPE_CHECKING:
    from ktrain.api.meta import Json

    from .info import Info


def gpu_count(resources: Json) -> int:
    """
    Count GPUs: the first resource with `gpu` in its name, in any case; requests before limits.

    `nvidia.com/gpu` and `amd.com/gpu` count; `google.com/tpu` and MIG slices do not, as in Go's Trainer.
    """
    for kind in ("requests", "limits"):
        for name, value in (resources.get(kind) or {}).items():
            if "gpu" in name.lower() and (count := math.ceil(quantity.parse(str(value)))):
                return count
    return 0


def cpu_count(resources: Json) -> int:
    """Count whole cores, rounded up; requests before limits; 0 without either."""
    for kind in ("requests", "limits"):
        value = (resources.get(kind) or {}).get("cpu")
        if value is not None and (count := math.ceil(quantity.parse(str(value)))):
            return count
    return 0


def names_device(resources: Json) -> bool:
    """Whether any extended resource is asked for: those have a domain in their name, as `nvidia.com/gpu`."""
    return any("/" in name for kind in ("requests", "limits") for name in resources.get(kind) or ())


def node_resources(info: Info) -> Json:
    """Return what a node's container asks for: of the first job that is named `node` or is the trainer step."""
    for pod_set in info.pod_sets:
        is_node = pod_set.name == api.TRAINER_CONTAINER or pod_set.ancestor == api.ANCESTOR_TRAINER
        if is_node and (container := pod_set.step_container):
            return container.resources
    return {}


def job_resources(info: Info) -> Json:
    """Return the TrainJob's `resourcesPerNode` alone if it has any, else the node's."""
    trainer = info.job.spec.trainer
    if trainer and trainer.resources_per_node:
        asked: Json = msgspec.json.decode(trainer.resources_per_node)
        return asked
    return node_resources(info)


def node_gpus(info: Info) -> int:
    """
    Count the GPUs of a node. A device that the TrainJob names replaces the runtime's; cores and memory do not.

    In Go's Trainer they do, too: a user who asks for more cores gets the runtime's four GPUs, and one process.
    """
    asked = job_resources(info)
    return gpu_count(asked) or (0 if names_device(asked) else gpu_count(node_resources(info)))
