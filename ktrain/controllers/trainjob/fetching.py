"""Which snapshots TrainJobs run on, for who asks a cluster from outside and has no caches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import anyio

from ktrain.api.core import CONFIG_MAPS
from ktrain.framework.errors import NotFound
from ktrain.pipeline.errors import PlanError
from ktrain.plugins.jobset import JOB_SET_STATES

from . import snapshot as snapshots

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.meta import Key
    from ktrain.api.trainer import TrainJob
    from ktrain.framework.client.client import Client

    from .snapshot import Snapshot

_AT_ONCE: Final = 16


async def fetch_snapshots(client: Client, namespace: str, jobs: Sequence[TrainJob]) -> dict[Key, Snapshot]:
    """
    Return the snapshots of the unfinished ones of *jobs* by the jobs' keys: their own, or what they share.

    A shared one is fetched once. What is not theirs, or cannot be read, is none. `namespace`: of all jobs, or empty.
    """
    unfinished = [job for job in jobs if not job.is_finished]
    shared = await _shared(client, namespace, unfinished)
    found: dict[Key, Snapshot] = {}
    contents: dict[Key, Snapshot] = {}
    limit = anyio.CapacityLimiter(_AT_ONCE)

    async def fetch(key: Key, job: TrainJob | None) -> None:
        async with limit:
            try:
                config_map = await client.get(CONFIG_MAPS, key.name, key.namespace)
            except NotFound:
                return
        read = snapshots.read(config_map, job) if job else snapshots.read_shared(config_map)
        if not isinstance(read, PlanError):
            (found if job else contents)[job.key if job else key] = read

    async with anyio.create_task_group() as group:
        for key in set(shared.values()):
            group.start_soon(fetch, key, None, name=f"snapshot {key}")
        for job in unfinished:
            if job.key not in shared:
                group.start_soon(fetch, snapshots.snapshot_key(job), job, name=f"snapshot of {job.key}")
    return found | {job: contents[key] for job, key in shared.items() if key in contents}


async def _shared(client: Client, namespace: str, jobs: Sequence[TrainJob]) -> dict[Key, Key]:
    """Return where the shared snapshots of jobs live, as their own JobSets say."""
    uids = {job.key: job.metadata.uid for job in jobs}
    listed = (await client.list(JOB_SET_STATES, namespace=namespace)).items if jobs else ()
    own = [one for one in listed if one.key in uids and one.metadata.is_controlled_by(uids[one.key])]
    keys = {job_set.key: snapshots.shared_key(job_set) for job_set in own}
    return {job: key for job, key in keys.items() if key is not None}
