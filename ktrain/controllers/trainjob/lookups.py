"""
What there is of the kinds that TrainJobs are made of: held for TrainJobs, by name only for all others.

A cluster has far more ConfigMaps, Secrets and JobSets than TrainJobs have. Caches hold those that a TrainJob controls,
and of the others know the names. Who has a name that a job needs is asked of the API server in the pass that comes
upon it: so it is left alone and told of, and the job wakes when it is gone. The usual job never meets one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ktrain.api import trainer as api
from ktrain.framework.errors import NotFound

from . import snapshot as snapshots

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ktrain.api.meta import Key, Object, Resource
    from ktrain.framework.cache.cache import Cache
    from ktrain.framework.cache.informer import Informer
    from ktrain.framework.client.client import Client
    from ktrain.pipeline.points import Watch

T = TypeVar("T")

_GROUP: Final = f"{api.GROUP}/"


def is_of_train_jobs(obj: Object) -> bool:
    """Whether a TrainJob controls an object, be it ours or not, or it is or names a shared snapshot."""
    meta = obj.metadata
    for owner in meta.owner_references:
        if owner.controller and owner.kind == api.TRAIN_JOBS.kind and owner.api_version.startswith(_GROUP):
            return True
    return snapshots.SHARED in meta.labels or snapshots.SHARED in meta.annotations


def informers_of(
    cache: Cache, kinds: Iterable[Resource[Any]], watches: Iterable[Watch]
) -> dict[Resource[Any], Informer[Any]]:
    """Return the informers of some kinds and of what plugins watch: of what is owned, what TrainJobs control."""
    found: dict[Resource[Any], Informer[Any]] = {kind: cache.informer(kind) for kind in kinds}
    for watch in watches:
        resource, selector = watch.resource, watch.label_selector
        if resource not in found or found[resource].scope.label_selector == selector:
            holds = is_of_train_jobs if watch.owned else None
            found[resource] = cache.informer(resource, label_selector=selector, holds=holds)
    return found


@dataclass(frozen=True, slots=True)
class _Wake:
    """Has a job looked at again. Equal for one job, so that it waits for a name once."""

    wake: Callable[[Key, float], None]
    job: Key

    def __call__(self) -> None:
        self.wake(self.job, 0.0)


class Lookups:
    """
    The lookups of one pass over a TrainJob (`Lookup`). What is not held and not asked for yet is None, and `unknown`.

    `ask` asks; whoever decided on what was unknown has to decide again.
    """

    def __init__(
        self,
        client: Client,
        informers: Mapping[Resource[Any], Informer[Any]],
        wake: Callable[[Key, float], None],
        job: Key,
    ) -> None:
        self._client = client
        self._informers = informers
        self._wake = _Wake(wake, job)
        self._answers: dict[tuple[Resource[Any], Key], Any] = {}
        self.unknown: list[tuple[Resource[Any], Key]] = []

    def __call__(self, resource: Resource[T], key: Key) -> T | None:
        """Return the object, or None."""
        informer: Informer[T] | None = self._informers.get(resource)
        if informer is None:
            return None
        found = informer.get(key)
        if found is not None or not informer.leaves_out(key):
            return found
        if (resource, key) in self._answers:
            answer: T | None = self._answers[resource, key]
            return answer
        # Before it is asked for: if it goes meanwhile, its event may be here before the answer.
        informer.when_gone(key, self._wake)
        self.unknown.append((resource, key))
        return None

    async def ask(self) -> None:
        """
        Ask the API server for what is unknown.

        Raises:
            FrameworkError: It does not say.
        """
        while self.unknown:
            resource, key = self.unknown[-1]
            try:
                self._answers[resource, key] = await self._client.get(resource, key.name, key.namespace)
            except NotFound:
                self._answers[resource, key] = None
            self.unknown.pop()
