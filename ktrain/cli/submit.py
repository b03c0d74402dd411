"""From the user's files to objects on the server: what is run, what it needs, and refusals that say what to do."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ktrain.api.core import NAMESPACES
from ktrain.api.documents import is_namespaced, resource_of
from ktrain.api.meta import Json, Key, Object, Resource
from ktrain.api.trainer import (
    CLUSTER_TRAINING_RUNTIMES,
    TRAIN_JOBS,
    TRAINING_RUNTIMES,
    Runtime,
    RuntimeRef,
    TrainJob,
)
from ktrain.framework.errors import AlreadyExists, ApiError, Forbidden, Invalid, NotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.framework import Client

FIELD_MANAGER: Final = "ktrain-cli"
_LABEL: Final = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")


class Refused(Exception):
    """The input cannot be run, and nothing of it runs. The message is for the user (exit code 2)."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A TrainJob and the objects it comes with, all with a namespace where their kind has one."""

    job: Json
    companions: tuple[Json, ...] = ()

    @property
    def key(self) -> Key:
        """Where the TrainJob will be."""
        return Key(self.job["metadata"]["namespace"], self.job["metadata"]["name"])

    @property
    def namespaces(self) -> set[str]:
        """All namespaces that are needed."""
        found = {item["metadata"].get("namespace", "") for item in (self.job, *self.companions)}
        return found - {""}


def read(objects: Sequence[Json], namespace: str) -> Submission:
    """
    Sort a user's objects.

    Raises:
        Refused: Not exactly one TrainJob, or one object twice.
    """
    try:
        placed = [_in_namespace(item, namespace) for item in objects]
    except LookupError as error:
        raise Refused(str(error.args[0])) from error
    seen: set[tuple[str, str, str, str]] = set()
    for item in placed:
        metadata = item["metadata"]
        identity = (item["apiVersion"], item["kind"], metadata.get("namespace", ""), metadata.get("name", ""))
        if identity in seen:
            raise Refused(f"{item['kind']} {metadata.get('name', '')} is given twice; names must be unique")
        seen.add(identity)
    jobs = [item for item in placed if item["kind"] == "TrainJob"]
    if not jobs:
        kinds = ", ".join(sorted({item["kind"] for item in placed})) or "nothing"
        raise Refused(f"no TrainJob to run (found: {kinds})")
    if len(jobs) > 1:
        names = ", ".join(item["metadata"].get("name", "") for item in jobs)
        raise Refused(f"one TrainJob at a time, found {len(jobs)}: {names}; for several, apply them to `ktrain up`")
    return Submission(_named(jobs[0]), tuple(item for item in placed if item is not jobs[0]))


def _named(job: Json) -> Json:
    """
    The TrainJob with a name that can be one: selectors are made of it before the server sees it.

    Raises:
        Refused: It has none, or one that is no DNS label (RFC 1035).
    """
    metadata = job["metadata"]
    name = metadata.get("name")
    if not name and metadata.get("generateName"):
        name = f"{metadata['generateName']}{secrets.token_hex(3)}"
        job = {**job, "metadata": {**metadata, "name": name}}
    if not name:
        raise Refused("the TrainJob has no metadata.name")
    if not _LABEL.fullmatch(name):
        raise Refused(f"metadata.name: {name!r} is no name: at most 63 of a-z, 0-9 and -, starting with a letter")
    return job


def _in_namespace(item: Json, namespace: str) -> Json:
    metadata = item.get("metadata") or {}
    if is_namespaced(item) and not metadata.get("namespace"):
        metadata = {**metadata, "namespace": namespace}
    return {**item, "metadata": metadata}


async def submit(client: Client, submission: Submission, *, is_local: bool) -> TrainJob:
    """
    Create everything, the TrainJob last.

    On a control plane of our own (`is_local`) namespaces are made and everything may be replaced. On a cluster nothing
    is taken away from other field managers.

    Raises:
        Refused: The server refused an object, or the runtime does not exist.
    """
    if is_local:
        for name in sorted(submission.namespaces):
            await _create_namespace(client, name)
    ref = runtime_ref(submission.job)
    brought = {(item["kind"], item["metadata"].get("name")) for item in submission.companions}
    if (ref.kind, ref.name) not in brought:
        await check_runtime(client, ref, submission.key.namespace)
    for item in submission.companions:
        await _apply(client, item, force=is_local)
    try:
        return await client.create(TRAIN_JOBS, submission.job)
    except AlreadyExists as error:
        raise Refused(f"TrainJob {submission.key} exists already; delete it first, or choose another name") from error
    except ApiError as error:
        if error.code > 500:  # 500 is what a server says of an object that its storage does not take
            raise
        raise Refused(error.status.message) from error


def runtime_ref(job: Json) -> RuntimeRef:
    """
    Return which runtime a TrainJob refers to.

    Raises:
        Refused: It does not say.
    """
    names = {"name": "name", "apiGroup": "api_group", "kind": "kind"}
    given = (job.get("spec") or {}).get("runtimeRef") or {}
    if not given.get("name"):
        raise Refused("spec.runtimeRef.name: Required value; `plain` and `torch-distributed` are there")
    return RuntimeRef(**{names[key]: value for key, value in given.items() if key in names})


async def _create_namespace(client: Client, name: str) -> None:
    body: Json = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    try:
        await client.create(NAMESPACES, body)
    except AlreadyExists:
        return
    except Invalid as error:
        raise Refused(error.status.message) from error


async def _apply(client: Client, item: Json, *, force: bool) -> None:
    resource = resource_of(item)
    try:
        await client.apply(resource, item, field_manager=FIELD_MANAGER, force=force)
    except ApiError as error:
        if error.code > 500:
            raise
        raise Refused(f"{item['kind']} {item['metadata'].get('name', '')}: {error.status.message}") from error


async def check_runtime(client: Client, ref: RuntimeRef, namespace: str) -> None:
    """
    Make sure that a runtime exists. Admission does so, too; only here can the message list those that there are.

    Raises:
        Refused: It does not exist.
    """
    resource = {"ClusterTrainingRuntime": CLUSTER_TRAINING_RUNTIMES, "TrainingRuntime": TRAINING_RUNTIMES}.get(ref.kind)
    if resource is None:
        return
    try:
        await client.get(resource, ref.name, namespace if resource.namespaced else "")
    except NotFound as error:
        raise Refused(f'no {ref.kind} "{ref.name}"; there {await _list_runtimes(client, namespace)}') from error
    except Forbidden:
        return  # may not look; admission decides


async def _list_runtimes(client: Client, namespace: str) -> str:
    cluster = await client.list(CLUSTER_TRAINING_RUNTIMES)
    local = await client.list(TRAINING_RUNTIMES, namespace)
    names = [_name(CLUSTER_TRAINING_RUNTIMES, item) for item in cluster.items]
    names += [_name(TRAINING_RUNTIMES, item) for item in local.items]
    return f"are: {', '.join(names)}" if names else "are none"


def _name(resource: Resource[Runtime], item: Object) -> str:
    suffix = "" if resource is CLUSTER_TRAINING_RUNTIMES else " (TrainingRuntime)"
    return item.metadata.name + suffix
