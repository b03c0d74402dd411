"""
Puts plugins in order: what `before` and `after` say, then the name. It is the same in every process.

Wishes that contradict each other cost the plugins that have them: they are left out and reported. To run them in
another order than they declare could build wrong objects, and to stop would cost everybody's jobs.
"""

from __future__ import annotations

import heapq
from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple

from .errors import RegistryError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from .points import Plugin


class Wishes(NamedTuple):
    """The plugins that one wants to run before and after."""

    before: tuple[str, ...]
    after: tuple[str, ...]


class Order(NamedTuple):
    """Plugins in order, and those that are in none."""

    names: tuple[str, ...]
    circles: Mapping[str, str]
    """Of each plugin that was left out, the circle that its wishes make with others'."""


def wishes(plugin: Plugin) -> Wishes:
    """
    Return which plugins it wants to run before, and which after.

    Raises:
        RegistryError: It does not say so in a tuple; a text would be taken for its letters.
    """
    before, after = getattr(plugin, "before", ()), getattr(plugin, "after", ())
    for attribute, names in (("before", before), ("after", after)):
        if not isinstance(names, tuple | list) or not all(isinstance(name, str) for name in names):
            raise RegistryError(f"plugin {plugin.name}: `{attribute}` must be a tuple of names of plugins")
    return Wishes(tuple(before), tuple(after))


def ordered(wanted: Mapping[str, Wishes], spared: Collection[str]) -> Order:
    """
    Put names in order. Wishes about names that are not there say nothing.

    Of a circle those are left out that are not *spared*.

    Raises:
        RegistryError: A circle of spared ones only.
    """
    left, circles = dict(wanted), dict[str, str]()
    while True:
        waits_for = _waits_for(left)
        order = list(_sorted(waits_for))
        if len(order) == len(left):
            return Order(tuple(order), circles)
        circle = _circle({name: others for name, others in waits_for.items() if others})
        text = f"plugins want to run before each other, in a circle: {' -> '.join([*circle, circle[0]])}"
        culprits = [name for name in circle if name not in spared]
        if not culprits:
            raise RegistryError(text)
        for name in culprits:
            circles[name] = text
            del left[name]


def unknown(name: str, wanted: Wishes, known: Collection[str]) -> Iterator[tuple[str, bool]]:
    """Yield what a plugin wants of plugins that are not there, each with whether it is probably misspelt."""
    for attribute, others in zip(Wishes._fields, wanted, strict=True):
        for other in others:
            if other in known:
                continue
            by_folded = {one.casefold(): one for one in known if one != name}
            meant = get_close_matches(other.casefold(), by_folded, 1, 0.8)
            hint = f"; did you mean {by_folded[meant[0]]!r}?" if meant else ""
            yield f"it wants to run {attribute} {other!r}, which is not installed{hint}", bool(meant)


def _waits_for(wanted: Mapping[str, Wishes]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {name: set() for name in wanted}
    for name, (before, after) in wanted.items():
        found[name] |= {other for other in after if other in wanted}
        for other in before:
            if other in wanted:
                found[other].add(name)
    return found


def _sorted(waits_for: Mapping[str, set[str]]) -> Iterator[str]:
    """Yield names, each as soon as it waits for none; what is left of *waits_for* then has circles."""
    ready = [name for name, others in waits_for.items() if not others]
    heapq.heapify(ready)
    while ready:
        name = heapq.heappop(ready)
        yield name
        for other, others in waits_for.items():
            if name in others:
                others.remove(name)
                if not others:
                    heapq.heappush(ready, other)


def _circle(waits_for: Mapping[str, Iterable[str]]) -> list[str]:
    """Find one circle. Every name given waits for another one given, so walking on must meet a name again."""
    path = [min(waits_for)]
    while True:
        following = min(other for other in waits_for[path[-1]] if other in waits_for)
        if following in path:
            return path[path.index(following) :]
        path.append(following)
