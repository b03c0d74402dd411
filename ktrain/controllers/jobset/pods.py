"""The pods of JobSets, and the nodes they are on, as the controllers and the webhooks look them up in caches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api.core import NODES
from ktrain.api.jobset import JOB_KEY, JOBSET_NAME, JOBSET_PODS, NODE_SELECTOR_STRATEGY, JobSetPod
from ktrain.api.meta import Key

from ..scope import LIMITED, is_watched
from .placement import Misplaced

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ktrain.api.meta import Object
    from ktrain.framework import Cache

_BY_JOB: Final = "job"
"""Index of pods: job key and UID of the Job that controls them."""
_BY_JOBSET: Final = "jobset"
"""Index of pods: namespace and name of the JobSet."""


class JobSetPods:
    """JobSets' pods and the nodes they are on, from caches: what placement looks up. One for each cache."""

    def __init__(self, cache: Cache) -> None:
        self.informer = cache.informer(JOBSET_PODS, label_selector=JOBSET_NAME)
        self.informer.add_index(_BY_JOB, _job)
        self.informer.add_index(_BY_JOBSET, lambda pod: (str(jobset_of(pod)),))
        self._nodes = cache.informer(NODES) if is_watched(cache, NODES) else None

    def pods_of(self, namespace: str, jobset: str) -> Iterable[JobSetPod]:
        """Return the pods labelled as those of a JobSet."""
        return self.informer.by_index(_BY_JOBSET, str(Key(namespace, jobset)))

    def siblings(self, pod: JobSetPod) -> Iterable[JobSetPod]:
        """Return the pods of the same Job object; job keys alone could be those of an earlier one."""
        for job in _job(pod):
            yield from self.informer.by_index(_BY_JOB, job)

    def node(self, name: str) -> Object | None:
        """
        Return a node.

        Raises:
            Misplaced: This operator may not read nodes.
        """
        if self._nodes is None:
            limited = LIMITED.format("nodes, which exclusive placement needs")
            raise Misplaced(f"{limited}: label the nodes and annotate the JobSet with {NODE_SELECTOR_STRATEGY}")
        return self._nodes.get(Key("", name))


def _job(pod: JobSetPod) -> Iterable[str]:
    owner = pod.metadata.controller
    if owner is not None and JOB_KEY in pod.metadata.labels:
        yield f"{pod.metadata.labels[JOB_KEY]} {owner.uid}"


def jobset_of(pod: JobSetPod) -> Key:
    """Return the JobSet that a pod's label names."""
    return Key(pod.metadata.namespace, pod.metadata.labels.get(JOBSET_NAME, ""))
