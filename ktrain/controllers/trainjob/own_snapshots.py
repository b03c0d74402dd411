"""
Snapshots of jobs' own, on their way to the API server.

A job should not wait for two writes where one does, so the snapshot goes out together with what is built from it, right
after it: servers tend to answer in turn. In what order the two arrive nobody knows, and only one of them may. Why that
does no harm:

- The process dies, and only the JobSet is there. The next one takes the snapshot anew from the runtime, as it does when
  somebody deletes a snapshot. Only if the runtime was edited between the two is that another one, and then a running
  job is left alone, one that is suspended follows its snapshot.
- The snapshot is refused, or its answer is lost. What was taken is remembered until it is known to be stored, so the
  next attempt writes what the JobSet was built from, whatever has become of the runtime.
- The job ends before its snapshot is stored. The end is told after it, as long as whatever hinders may pass: what has
  ended is the same in good and in bad weather, and nothing is written after an end. A deadline does not wait, because
  pods go on until it is told; such a job stays without.
- Snapshots are refused here as a rule: a quota, a policy, a right that is missing. Then no job should start without
  one, so they go out together only where the last one was accepted; the first of a namespace goes alone. Jobs that are
  under way when the first is refused, at most as many as there are workers, do start without, and theirs are tried
  again and again. So is one that was deleted later.
- The JobSet is there already. What changes it never waits: whoever suspends or preempts a job wants its pods to go.
- Somebody else's ConfigMap has the name. If the cache shows it, nothing is written. One that came with the job, before
  the cache could show it, keeps the first job of a namespace from starting, and is left alone in any case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.framework.errors import ApiError
from ktrain.framework.metrics.registry import nothing

from . import snapshot as snapshots
from .metrics import REFUSED, STORED
from .observe import SNAPSHOT_METADATA

if TYPE_CHECKING:
    from collections.abc import Callable

    from ktrain.api import trainer as api
    from ktrain.framework.client.client import Client

    from .snapshot import Snapshot


MAX_ACCEPTING: Final = 1000
"""Of so many namespaces it is known that they accept snapshots. Namespaces come and go; the process stays."""


class OwnSnapshots:
    """Creates the snapshots of jobs' own."""

    def __init__(self, client: Client, count: Callable[[str], None] = nothing) -> None:
        self._client = client
        self._count = count
        self._accepting: dict[str, None] = {}
        """Namespaces whose last snapshot was accepted, the latest last."""
        self._taken: dict[str, Snapshot] = {}
        """By UID of the job: what may not be stored although a JobSet was built from it. Most often empty."""

    def taken(self, uid: str) -> Snapshot | None:
        """Return what was taken for a job, if it is not known to be stored."""
        return self._taken.get(uid)

    def remember(self, uid: str, snapshot: Snapshot) -> None:
        """Remember what was taken for a job, until it is known to be stored."""
        self._taken[uid] = snapshot

    def forget(self, uid: str) -> None:
        """Forget what was taken for a job: it is stored, or is not needed any more."""
        self._taken.pop(uid, None)

    def are_accepted(self, namespace: str) -> bool:
        """Whether one more is likely to be accepted."""
        return namespace in self._accepting

    async def create(self, job: api.TrainJob, snapshot: Snapshot) -> str:
        """
        Create a job's snapshot; returns its resource version.

        Created, not applied: if somebody else's has the name, which the cache may not show yet, this fails.

        Raises:
            FrameworkError: The API server refused, or could not be reached.
        """
        namespace = job.metadata.namespace
        try:
            written = await self._client.create(SNAPSHOT_METADATA, snapshots.config_map(job, snapshot))
        except BaseException as error:
            self._accepting.pop(namespace, None)
            if isinstance(error, ApiError):
                self._count(REFUSED)
            raise
        self._count(STORED)
        self._accept(namespace)
        self.forget(job.metadata.uid)
        return written.metadata.resource_version

    def _accept(self, namespace: str) -> None:
        self._accepting.pop(namespace, None)
        self._accepting[namespace] = None
        if len(self._accepting) > MAX_ACCEPTING:
            del self._accepting[next(iter(self._accepting))]
