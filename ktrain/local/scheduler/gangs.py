"""
Which pods start together: all that a gang needs, or none.

Three APIs say so, each with a PodGroup of its own; a pod names its group

    scheduling.k8s.io/v1alpha2       spec.schedulingGroup.podGroupName        schedulingPolicy.gang.minCount
    scheduling.x-k8s.io/v1alpha1     label scheduling.x-k8s.io/pod-group      minMember   (coscheduling)
    scheduling.volcano.sh/v1beta1    annotation scheduling.k8s.io/group-name  minMember   (Volcano)

Each is honoured where its kind is served; elsewhere the pods go one by one. What the plugins of real schedulers do with
pods that hold a place and wait for others (`scheduleTimeoutSeconds`) has no counterpart: nobody holds a place here.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from ktrain.api.meta import Key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .objects import Pod, PodGroup

KUBERNETES: Final = "scheduling.k8s.io"
COSCHEDULING: Final = "scheduling.x-k8s.io"
VOLCANO: Final = "scheduling.volcano.sh"
_LABEL: Final = "scheduling.x-k8s.io/pod-group"
_ANNOTATIONS: Final = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")


class GroupName(NamedTuple):
    """A group of one of the three APIs."""

    api: str
    key: Key


@dataclass(slots=True)
class Gang:
    """The pods of one group."""

    name: GroupName
    group: PodGroup | None
    """None: it does not exist (yet)."""
    members: list[Pod] = field(default_factory=list)
    """All of them, those with a node, and those that have ended, included."""

    @property
    def least(self) -> int:
        """How many must start together; 0: each for itself."""
        if self.group is None:
            return 0
        policy = self.group.spec.scheduling_policy
        if self.name.api == KUBERNETES:
            return policy.gang.min_count if policy.gang is not None else 0
        return self.group.spec.min_member

    @property
    def goes_whole(self) -> bool:
        """Whether its pods are evicted all or none: as the group says, or, where its API has no word for it, always."""
        if self.group is None:
            return False
        if self.name.api == KUBERNETES:
            return self.group.spec.disruption_mode == "PodGroup"
        return self.least > 1

    @property
    def started(self) -> int:
        """How many have, or had, a node; those that are being stopped have it no more."""
        return sum(bool(pod.spec.node_name) and pod.metadata.deletion_timestamp is None for pod in self.members)

    def obstacle(self) -> str:
        """Say why none of the gang can be tried yet, or nothing."""
        if self.group is None:
            return f'waiting for pods\'s pod group "{self.name.key.name}" to appear in scheduling queue'
        if len(self.members) < self.least:
            return "waiting for minCount pods from a gang to appear in scheduling queue"
        return ""


def group_of(pod: Pod, served: Mapping[str, object]) -> GroupName | None:
    """Return the group that a pod names, if its API is among those that are served."""
    meta, spec = pod.metadata, pod.spec
    named = (
        (KUBERNETES, spec.scheduling_group.pod_group_name if spec.scheduling_group is not None else ""),
        (COSCHEDULING, meta.labels.get(_LABEL, "")),
        (VOLCANO, next((meta.annotations[name] for name in _ANNOTATIONS if name in meta.annotations), "")),
    )
    for api, name in named:
        if name and api in served:
            return GroupName(api, Key(meta.namespace, name))
    return None


def gather(pods: Iterable[Pod], served: Mapping[str, Mapping[Key, PodGroup]]) -> dict[GroupName, Gang]:
    """Return the gangs that pods belong to. `served` are the groups there are, of each API that is served."""
    members: defaultdict[GroupName, list[Pod]] = defaultdict(list)
    for pod in pods:
        name = group_of(pod, served)
        if name is not None:
            members[name].append(pod)
    return {name: Gang(name, served[name.api].get(name.key), found) for name, found in members.items()}
