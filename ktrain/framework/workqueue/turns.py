"""
The order in which ready keys are handed out: by priority, then by turns between groups, then first come, first served.

**Turns.** Keys of one priority are kept per group (for a controller: per namespace) and the groups take turns. So one
key of a quiet namespace waits for at most one key of each other namespace, however many thousand those have waiting.

**Ageing.** With strict priorities a steady flow at 0 would starve -100 for ever. So waiting counts: `ageing_s` seconds
weigh as much as one point of priority. Levels are compared by what their longest-waiting key has reached; that grows
equally fast for everyone, so the comparison of two levels, `ready since - priority * ageing_s`, does not change while
they wait, and a heap of levels is enough. A key therefore waits for keys of higher priority only as long as those were
ready no later than `difference of priorities * ageing_s` after it.

A level's place in the heap can only get worse (its longest-waiting key leaves), so it is corrected when it comes up.
Every operation is O(log levels); there are as many levels as priorities in use.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

Group = Callable[[K], Hashable]
"""What takes turns; keys with equal values share one turn."""


class Turns(Generic[K]):
    """
    Ready keys.

    Args:
        group: See above; by default all keys are one group.
        ageing_s: Seconds of waiting that weigh as much as one point of priority; None for strict priorities.
    """

    def __init__(self, *, group: Group[K] | None = None, ageing_s: float | None = None) -> None:
        self._group = group or _one_group
        self._ageing_s = ageing_s
        self._levels: dict[int, _Level[K]] = {}
        self._order: list[tuple[float, int]] = []  # what a level has reached, and its priority, both negated
        self._count = 0

    def push(self, key: K, *, priority: int, now: float) -> None:
        """Add a key that is not in, at the end of its group. `now` must not go back."""
        level = self._levels.get(priority)
        if level is None:
            level = self._levels[priority] = _Level()
            level.since[key] = now
            heapq.heappush(self._order, (self._place(priority, level), -priority))
        else:
            level.since[key] = now
        group = self._group(key)
        keys = level.groups.get(group)
        if keys is None:
            keys = level.groups[group] = OrderedDict()
        keys[key] = None
        self._count += 1

    def pop(self) -> K:
        """Take the next key. IndexError if there is none."""
        while True:
            place, negated = self._order[0]
            level = self._levels[-negated]
            if not level.since:
                self._drop_first()
                continue
            actual = self._place(-negated, level)
            if actual <= place:
                break
            heapq.heapreplace(self._order, (actual, negated))
        group, keys = next(iter(level.groups.items()))
        key, _ = keys.popitem(last=False)
        if keys:
            level.groups.move_to_end(group)
        else:
            del level.groups[group]
        del level.since[key]
        if not level.since:
            self._drop_first()
        self._count -= 1
        return key

    def remove(self, key: K, *, priority: int) -> None:
        """Take out a key that was pushed with this priority."""
        level = self._levels[priority]
        del level.since[key]
        group = self._group(key)
        keys = level.groups[group]
        del keys[key]
        if not keys:
            del level.groups[group]
        self._count -= 1
        # An emptied level leaves the heap when it comes up: until then it is one entry per priority, not per key.

    def clear(self) -> None:
        """Take out all keys."""
        self._levels.clear()
        self._order.clear()
        self._count = 0

    def depth(self, priority: int) -> int:
        """How many keys have this priority."""
        level = self._levels.get(priority)
        return len(level.since) if level else 0

    def depths(self) -> dict[int, int]:
        """How many keys there are by priority, the highest first."""
        return {priority: len(self._levels[priority].since) for priority in sorted(self._levels, reverse=True)}

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[K]:
        """Iterate over the keys, by priority and age; turns and ageing may hand them out otherwise."""
        for priority in sorted(self._levels, reverse=True):
            yield from self._levels[priority].since

    def _place(self, priority: int, level: _Level[K]) -> float:
        if self._ageing_s is None:
            return -priority
        return next(iter(level.since.values())) - priority * self._ageing_s

    def _drop_first(self) -> None:
        del self._levels[-heapq.heappop(self._order)[1]]


class _Level(Generic[K]):
    """The keys of one priority. Ordered dicts, as the first of a plain dict is slow to find after many deletions."""

    __slots__ = ("groups", "since")

    def __init__(self) -> None:
        self.since: OrderedDict[K, float] = OrderedDict()  # all keys, the longest waiting first
        self.groups: OrderedDict[Hashable, OrderedDict[K, None]] = OrderedDict()  # whose turn it is first


def _one_group(_: object) -> Hashable:
    return None
