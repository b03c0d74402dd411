"""The objects beside the JobSet: the key pair's Secret, and the host file's ConfigMap."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Final

from ktrain.api import trainer as api
from ktrain.api.meta import owner_reference
from ktrain.pipeline.errors import PlanError

from .keys import KeyPair

if TYPE_CHECKING:
    from random import Random

    from ktrain.api.meta import Json
    from ktrain.pipeline.info import Info

    from .policy import MPIJob

MAX_BYTES: Final = 1_048_576
"""What the API server takes as the data of a ConfigMap."""


def secret_name(job: api.TrainJob) -> str:
    """Name the Secret with the key pair."""
    return f"{job.metadata.name}-mpi-ssh-auth"


def hostfile_name(job: api.TrainJob) -> str:
    """Name the ConfigMap with the host file."""
    return f"{job.metadata.name}-mpi-hostfile"


def secret(info: Info, random: Random) -> Json:
    """Return the Secret with a new key pair."""
    pair = KeyPair.draw(random)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(info.job, secret_name(info.job)),
        "type": "kubernetes.io/ssh-auth",
        "immutable": True,
        "data": {
            "ssh-privatekey": b64encode(pair.private).decode(),
            "ssh-publickey": b64encode(pair.public).decode(),
        },
    }


def hostfile(job: MPIJob) -> Json:
    """
    Return the ConfigMap with one line for each pod that ranks run on.

    Raises:
        PlanError: A ConfigMap cannot hold so many.
    """
    line, slots = job.implementation.line, job.slots
    lines: list[str] = []
    left = MAX_BYTES - len("hostfile")
    for pod_set in job.hosts:
        for host in pod_set.endpoints():
            lines.append(line.format(host=host, slots=slots))
            left -= len(lines[-1])
            if left < 0:
                raise PlanError(_too_many(job, len(lines) - 1))
    train_job = job.info.job
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(train_job, hostfile_name(train_job)),
        "data": {"hostfile": "".join(lines)},
    }


def _too_many(job: MPIJob, fit: int) -> str:
    pods = sum(pod_set.replicas * pod_set.count for pod_set in job.hosts)
    return (
        f"the MPI host file of {pods} pods does not fit into ConfigMap {hostfile_name(job.info.job)}, which holds"
        f" 1 MiB: {fit} pods do; use fewer nodes with more processes each, or a shorter name of the TrainJob"
    )


def _metadata(job: api.TrainJob, name: str) -> Json:
    owner = owner_reference(api.API_VERSION, "TrainJob", job.metadata.name, job.metadata.uid)
    return {"name": name, "namespace": job.metadata.namespace, "ownerReferences": [owner]}
