"""
Which pods are in which group, and how many of a gang have to start together.

Initializers are a group whose pods go one by one; all others are one gang. Its minCount is the number of nodes, but
never more than the pods that can exist before a member of the gang runs: a launcher that is made when its nodes are
ready would otherwise keep them from ever being placed.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from ktrain.api import trainer as api

from .versions import Gang, Policy, Template

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.pipeline.info import Info, PodSet

INITIALIZER: Final = "initializer"
TRAINER: Final = "trainer"
_INITIALIZERS: Final = (api.ANCESTOR_DATASET_INITIALIZER, api.ANCESTOR_MODEL_INITIALIZER)
_PREFIX: Final = 52
_DIGITS: Final = 10


@dataclass(frozen=True, slots=True)
class Group:
    """The pods that one PodGroup is for."""

    info: Info
    template: str
    """The name of the Workload's template: a fixed word, as those names are short."""
    pod_sets: tuple[PodSet, ...]

    @property
    def name(self) -> str:
        """The PodGroup's."""
        return group_name(self.info.job, self.template)

    @property
    def reference(self) -> Json:
        """
        The pods' `workloadRef` of Kubernetes 1.35, where the group is a part of the Workload.

        The replica key is the hash of the PodGroup's name in later versions. The scheduler counts pods of one key
        together, so without it pods of a deleted job of the same name that still end would count as members.
        """
        key = _hash(self.info.job, self.template)
        return {"name": self.info.job.metadata.name, "podGroup": self.template, "podGroupReplicaKey": key}

    @property
    def wanted(self) -> Template:
        """What the template says. Call once the counts are final."""
        gang = Gang(min_count(self)) if self.template == TRAINER else None
        return Template(self.template, Policy(gang), self.pod_sets[0].pod.get("priorityClassName") or "")


def group_name(job: api.TrainJob, template: str) -> str:
    """
    Name a PodGroup: the same for all of the job's life, and another for a later job of this name.

    At most 63 characters. What the job looks like is not in it: pods refer to it, and a resumed job to the same.
    """
    prefix = f"{job.metadata.name}-{template}"[:_PREFIX].rstrip("-.")
    return f"{prefix}-{_hash(job, template)}"


def _hash(job: api.TrainJob, template: str) -> str:
    meta = job.metadata
    text = "\n".join(("TrainJob", meta.namespace, meta.name, meta.uid, template))
    return sha256(text.encode()).hexdigest()[:_DIGITS]


def groups_of(info: Info) -> list[Group]:
    """Return the groups that have pods, in the order of the Workload's templates."""
    parts: dict[str, list[PodSet]] = {INITIALIZER: [], TRAINER: []}
    for pod_set in info.pod_sets:
        parts[INITIALIZER if pod_set.ancestor in _INITIALIZERS else TRAINER].append(pod_set)
    return [Group(info, template, tuple(found)) for template, found in parts.items() if found]


def min_count(group: Group) -> int:
    """Count the pods that must start together."""
    waiting = _waiting(group)
    free = sum(pod_set.count * pod_set.replicas for pod_set in group.pod_sets if pod_set.name not in waiting)
    return max(1, min(_nodes(group), free))


def _nodes(group: Group) -> int:
    """Count the nodes: of an elastic job those that are enough, else what the TrainJob says, else what is built."""
    policy, trainer = group.info.runtime.ml_policy, group.info.job.spec.trainer
    for pod_set in group.pod_sets:
        if pod_set.least is not None:
            return pod_set.least
    if trainer and trainer.num_nodes is not None:
        return trainer.num_nodes
    built = (
        pod_set.count
        for pod_set in group.pod_sets
        if pod_set.name == api.TRAINER_CONTAINER or pod_set.ancestor == api.ANCESTOR_TRAINER
    )
    return max((policy.num_nodes or 1) if policy else 1, *built, 1)


def _waiting(group: Group) -> set[str]:
    """Names of the group's jobs that are made only when others of it have come so far."""
    names = {pod_set.name for pod_set in group.pod_sets}
    order = (group.info.template.get("startupPolicy") or {}).get("startupPolicyOrder")
    if order == "InOrder":
        return names - {group.pod_sets[0].name}
    needs = {
        pod_set.name: {str(one.get("name", "")) for one in pod_set.job.get("dependsOn") or ()}
        for pod_set in group.info.pod_sets
    }
    found: set[str] = set()
    for name in names:
        reached, left = set[str](), list(needs[name])
        while left:
            one = left.pop()
            if one not in reached:
                reached.add(one)
                left += needs.get(one, ())
        if reached & names:
            found.add(name)
    return found
