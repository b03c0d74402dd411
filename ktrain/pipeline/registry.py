"""
Finds plugins by entry point, in the group `ktrain.plugins`, and puts them in order.

The built-in plugins are found the same way as anyone else's. Order is the same in every process: what `before` and
`after` say, then the name. A plugin that cannot be loaded is left out and reported; order that contradicts itself stops
the program at start-up, since running with another order than declared could build wrong objects.
"""

from __future__ import annotations

import heapq
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from . import points
from .errors import RegistryError

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping
    from importlib.metadata import EntryPoint
    from typing import Any

    from ktrain.api.meta import Resource

    from .points import Plugin, Watch

GROUP: Final = "ktrain.plugins"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LoadFailure:
    """A plugin that is installed but not usable, and why."""

    name: str
    origin: str
    """Where it comes from: `module:attribute`."""
    reason: str


class Registry:
    """An ordered, fixed set of plugins."""

    def __init__(self, plugins: Iterable[Plugin], failures: Iterable[LoadFailure] = ()) -> None:
        """
        Put *plugins* in order, and ask each what it watches. One that fails to say is left out.

        Raises:
            RegistryError: Two plugins have one name, or `before` and `after` make a cycle.
        """
        watches, refusals = _watches(_ordered(list(plugins)))
        self.plugins: tuple[Plugin, ...] = tuple(plugin for plugin, _ in watches)
        self.failures: tuple[LoadFailure, ...] = (*failures, *refusals)
        self.watches: tuple[Watch, ...] = tuple(watch for _, theirs in watches for watch in theirs)
        self.validations = tuple(p for p in self.plugins if isinstance(p, points.CustomValidation))
        self.pod_group_policies = tuple(p for p in self.plugins if isinstance(p, points.EnforcePodGroupPolicy))
        self.ml_policies = tuple(p for p in self.plugins if isinstance(p, points.EnforceMLPolicy))
        self.pod_specs = tuple(p for p in self.plugins if isinstance(p, points.EnforcePodSpec))
        self.pod_networks = tuple(p for p in self.plugins if isinstance(p, points.PodNetwork))
        self.builders = tuple(p for p in self.plugins if isinstance(p, points.ComponentBuilder))
        self.terminal_conditions = tuple(p for p in self.plugins if isinstance(p, points.TerminalCondition))
        self.statuses = tuple(p for p in self.plugins if isinstance(p, points.Status))
        self.elasticities = tuple(p for p in self.plugins if isinstance(p, points.Elasticity))
        self.gangs = tuple(p for p in self.plugins if isinstance(p, points.Gangs))
        self.mounts = tuple(p for p in self.plugins if isinstance(p, points.Mounts))
        self.clean_ups = tuple(p for p in self.plugins if isinstance(p, points.CleanUp))

    @classmethod
    def load(cls, entry_points: Iterable[EntryPoint] | None = None) -> Registry:
        """
        Load the installed plugins (or those of *entry_points*).

        Raises:
            RegistryError: The usable ones cannot be put in order.
        """
        if entry_points is None:
            from importlib.metadata import entry_points as installed  # 15 ms that --help need not pay

            entry_points = installed(group=GROUP)
        plugins: dict[str, Plugin] = {}
        failures: list[LoadFailure] = []
        for entry_point in sorted(entry_points, key=lambda e: (e.name, e.value)):
            try:
                plugin = _load(entry_point, taken=plugins)
            except Exception as error:  # noqa: BLE001 -- somebody else's import; it must cost that plugin only
                failures.append(_unusable(entry_point.name, entry_point.value, error))
            else:
                plugins[plugin.name] = plugin
        return cls(plugins.values(), failures)

    def without_kinds(self, kinds: Container[Resource[Any]]) -> Registry:
        """Return the same plugins, watching none of these kinds; other versions of a kind stand in."""
        other = copy(self)
        chosen = (next((w for w in watch.chain if w.resource not in kinds), None) for watch in self.watches)
        other.watches = tuple(watch for watch in chosen if watch)
        return other

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the plugins, in order."""
        return tuple(plugin.name for plugin in self.plugins)


def _load(entry_point: EntryPoint, taken: Container[str]) -> Plugin:
    plugin: Plugin = entry_point.load()()
    name = getattr(plugin, "name", None)
    if not isinstance(name, str) or not name:
        raise RegistryError("it has no attribute `name` with a text in it")
    if name in taken:
        raise RegistryError(f"another plugin is called {name!r}, too")
    if not isinstance(plugin, points.EXTENSION_POINTS):
        known = ", ".join(point.__name__ for point in points.EXTENSION_POINTS)
        raise RegistryError(f"it implements none of the extension points: {known}")
    return plugin


def _unusable(name: str, origin: str, error: Exception) -> LoadFailure:
    reason = str(error) or type(error).__name__
    log.warning("plugin.unusable", plugin=name, origin=origin, reason=reason)
    return LoadFailure(name, origin, reason)


def _watches(plugins: Iterable[Plugin]) -> tuple[list[tuple[Plugin, tuple[Watch, ...]]], list[LoadFailure]]:
    """Return the plugins, each with what it watches, and those that failed to say."""
    usable: list[tuple[Plugin, tuple[Watch, ...]]] = []
    failures: list[LoadFailure] = []
    selectors: dict[Resource[Any], str] = {}
    for plugin in plugins:
        try:
            watches = tuple(plugin.watches()) if isinstance(plugin, points.WatchExtension) else ()
            selectors |= _agreeing(watches, selectors)
        except Exception as error:  # noqa: BLE001 -- somebody else's code; it must cost that plugin only
            origin = f"{type(plugin).__module__}:{type(plugin).__qualname__}"
            failures.append(_unusable(plugin.name, origin, error))
        else:
            usable.append((plugin, watches))
    return usable, failures


def _agreeing(watches: Iterable[Watch], selectors: Mapping[Resource[Any], str]) -> dict[Resource[Any], str]:
    """
    Return the selectors of *watches*. There is one cache of a kind, so all who watch it have to see the same of it.

    Raises:
        RegistryError: Another plugin watches one of the kinds by another selector.
    """
    found = {one.resource: one.label_selector for watch in watches for one in watch.chain}
    for resource, selector in found.items():
        if selectors.get(resource, selector) != selector:
            raise RegistryError(
                f"it watches {resource.qualified_name} by {selector!r}, and another plugin by {selectors[resource]!r};"
                " give it a type of its own to see it by another selector"
            )
    return found


def _ordered(plugins: list[Plugin]) -> tuple[Plugin, ...]:
    by_name = {plugin.name: plugin for plugin in plugins}
    if len(by_name) < len(plugins):
        twice = sorted({p.name for p in plugins if [q.name for q in plugins].count(p.name) > 1})
        raise RegistryError(f"more than one plugin is called {', '.join(twice)}")
    waits_for: dict[str, set[str]] = {name: set() for name in by_name}
    for name, plugin in by_name.items():
        # Names of plugins that are not installed say nothing.
        waits_for[name] |= {other for other in getattr(plugin, "after", ()) if other in by_name}
        for other in getattr(plugin, "before", ()):
            if other in by_name:
                waits_for[other].add(name)
    ready = [name for name, others in waits_for.items() if not others]
    heapq.heapify(ready)
    order: list[str] = []
    while ready:
        name = heapq.heappop(ready)
        order.append(name)
        for other, others in waits_for.items():
            if name in others:
                others.remove(name)
                if not others:
                    heapq.heappush(ready, other)
    if len(order) < len(by_name):
        cycle = _cycle({name: others for name, others in waits_for.items() if others})
        raise RegistryError(f"plugins want to run before each other, in a circle: {' -> '.join(cycle)}")
    return tuple(by_name[name] for name in order)


def _cycle(waits_for: dict[str, set[str]]) -> list[str]:
    """Find one cycle. Every name given waits for another one given, so walking on must meet a name again."""
    path = [min(waits_for)]
    while True:
        following = min(waits_for[path[-1]])
        if following in path:
            return [*path[path.index(following) :], following]
        path.append(following)
