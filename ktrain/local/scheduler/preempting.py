"""
Who has to go so that a more important pod may come, as kube-scheduler's DefaultPreemption decides.

On every node that others keep the pod from, all pods of lower priority are taken away; if the pod fits then, they come
back one by one, the most important first, as long as it still does. Who cannot come back is a victim. Budgets are a
preference: pods that one protects come back first, and nodes where none has to be broken are better. Of the nodes the
one counts where the least is lost (`_loss`), the first by name among equals.

A group whose pods are of use only together (`Gang.goes_whole`) goes, and comes back, as one. Nothing here changes the
fleet for good: promising the place that was chosen is the caller's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from .filtering import Candidate, Reason, summary
from .selecting import read_selector

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .fleet import Fleet, Seat
    from .gangs import Gang
    from .objects import Budget, Pod

NEVER: Final = "not eligible due to preemptionPolicy=Never."
STOPPING: Final = "not eligible due to a terminating pod on the nominated node."
_NO_VICTIMS: Final = Reason("No preemption victims found for incoming pod")
_NO_HELP: Final = Reason("Preemption is not helpful for scheduling")
_LOWEST: Final = 2**31
"""Makes every priority positive, so that a sum of them counts their number, too."""

Unit = tuple["Pod", ...]
"""Pods that go together, each on a node: one, or those of a group."""


class Room(NamedTuple):
    """A node, and who has to go from there, or from elsewhere with those; the most important first."""

    seat: Seat
    victims: Unit
    broken: int
    """How many units go although a budget says no."""


class Preemption:
    """Looks for victims among the pods of one pass that have a node. Those placed in it are none."""

    def __init__(self, pods: Iterable[Pod], fleet: Fleet, budgets: Sequence[Budget], gangs: Mapping[str, Gang]) -> None:
        """`gangs`: the gang of a pod, by its UID."""
        self._fleet = fleet
        self._budgets = budgets
        self._gangs = gangs
        self._spared: list[Gang] = []
        self._units: dict[str, Unit] = {}
        wholes: dict[int, list[Pod]] = {}
        for pod in pods:
            if not fleet.holds(pod):
                continue
            gang = gangs.get(pod.metadata.uid)
            if gang is not None and gang.goes_whole:
                wholes.setdefault(id(gang), []).append(pod)
            else:
                self._units[pod.metadata.uid] = (pod,)
        for whole in wholes.values():
            self._units.update((pod.metadata.uid, tuple(sorted(whole, key=_importance))) for pod in whole)

    def spare(self, gang: Gang) -> None:
        """Evict none of a gang from now on: others go for its sake, which would be in vain if it got smaller."""
        self._spared.append(gang)

    def make_room(self, pod: Pod, refusals: Sequence[Sequence[Reason]]) -> Room | str:
        """Choose a node for the pod, and the victims; a text says why there is none. `refusals` are those by node."""
        rooms, problems = [], []
        for seat, reasons in zip(self._fleet.seats, refusals, strict=True):
            found = [_NO_HELP] if any(reason.hopeless for reason in reasons) else self._try(pod, seat)
            if isinstance(found, Room):
                rooms.append(found)
            else:
                problems.append(found)
        return min(rooms, key=_loss) if rooms else f"{summary(problems)}."

    def is_awaited(self, pod: Pod, seat: Seat) -> bool:
        """Whether somebody less important, who was told to make room, is still on the node."""
        return any(one.is_preempted and one.spec.priority < pod.spec.priority for one in seat.pods.values())

    def _try(self, pod: Pod, seat: Seat) -> Room | list[Reason]:
        units = self._weaker(pod, seat)
        if not units:
            return [_NO_VICTIMS]
        for unit in units:
            self._take(unit)
        gone, broken = units, 0
        refusals = Candidate(pod, self._fleet).refusals(seat)
        if not refusals:
            protected, free = self._by_budgets(units)
            gone = self._bring_back(pod, seat, protected)
            broken = len(gone)
            gone += self._bring_back(pod, seat, free)
        for unit in gone:
            self._put_back(unit)
        victims = sorted((victim for unit in gone for victim in unit), key=_importance)
        return refusals or Room(seat, tuple(victims), broken)

    def _weaker(self, pod: Pod, seat: Seat) -> list[Unit]:
        """Return the units that the pod may push from the node, the most important first."""
        own = self._gangs.get(pod.metadata.uid)
        safe = [id(gang) for gang in (own, *self._spared) if gang is not None]
        found = {
            unit[0].metadata.uid: unit
            for uid in seat.pods
            if (unit := self._units.get(uid)) and id(self._gangs.get(uid)) not in safe
        }
        weaker = (unit for unit in found.values() if _priority(unit) < pod.spec.priority)
        return sorted(weaker, key=lambda unit: (_importance(unit[0]), unit[0].metadata.name))

    def _bring_back(self, pod: Pod, seat: Seat, units: Iterable[Unit]) -> list[Unit]:
        """Let come back whom the pod can be beside; returns the rest."""
        gone = []
        for unit in units:
            self._put_back(unit)
            if Candidate(pod, self._fleet).refusals(seat):
                self._take(unit)
                gone.append(unit)
        return gone

    def _by_budgets(self, units: Iterable[Unit]) -> tuple[list[Unit], list[Unit]]:
        """Part those that would break a budget, if all went in this order, from those that would not."""
        left = [budget.status.disruptions_allowed for budget in self._budgets]
        protected: list[Unit] = []
        free: list[Unit] = []
        for unit in units:
            breaks = False
            for pod in unit:
                for number in self._budgets_of(pod):
                    left[number] -= 1
                    breaks = breaks or left[number] < 0
            (protected if breaks else free).append(unit)
        return protected, free

    def _budgets_of(self, pod: Pod) -> Iterable[int]:
        meta = pod.metadata
        for number, budget in enumerate(self._budgets):
            if not meta.labels or budget.metadata.namespace != meta.namespace:
                continue
            selector = read_selector(bytes(budget.spec.selector))
            is_meant = not selector.is_everything and selector.matches(meta.labels)
            if is_meant and meta.name not in budget.status.disrupted_pods:
                yield number

    def _take(self, unit: Unit) -> None:
        for pod in unit:
            self._fleet.remove(pod)

    def _put_back(self, unit: Unit) -> None:
        for pod in unit:
            self._fleet.place(pod, pod.spec.node_name)


def _loss(room: Room) -> tuple[int, int, int, int, float]:
    """
    Say how bad it would be, to be compared from left to right.

    Budgets broken, the highest priority, the sum of the priorities, the number of victims, and how long ago the first
    of the most important ones started. Source: `pickOneNodeForPreemption`.
    """
    highest = max((pod.spec.priority for pod in room.victims), default=-_LOWEST)
    total = sum(pod.spec.priority + _LOWEST for pod in room.victims)
    first = min((_started(pod) for pod in room.victims if pod.spec.priority == highest), default=0.0)
    return room.broken, highest, total, len(room.victims), -first


def _importance(pod: Pod) -> tuple[int, float]:
    return -pod.spec.priority, _started(pod)


def _priority(unit: Unit) -> int:
    return max(pod.spec.priority for pod in unit)


def _started(pod: Pod) -> float:
    """When it started: what has not yet counts as the latest."""
    start = pod.status.start_time
    return start.timestamp() if start is not None else float("inf")
