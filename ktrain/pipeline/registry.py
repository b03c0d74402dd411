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
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from ktrain.api import trainer as api

from . import points
from .calls import Calls
from .errors import RegistryError
from .slots import Slots, schemas_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence
    from importlib.metadata import EntryPoint
    from typing import Any

    from ktrain.api.meta import Resource
    from ktrain.api.schema import Schema

    from .points import Plugin
    from .watches import Index, Watch

GROUP: Final = "ktrain.plugins"
_BUILT_IN: Final = "ktrain.plugins."
"""Where our own plugins are."""
_HOOKS: Final = sorted(
    method for point in points.EXTENSION_POINTS for method in vars(point) if not method.startswith("_")
)

_ALWAYS_CACHED: Final = frozenset({api.TRAIN_JOBS, api.TRAINING_RUNTIMES, api.CLUSTER_TRAINING_RUNTIMES})
"""Kinds that need no watch to be found by an index."""

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
        Put *plugins* in order, and ask each what it watches and takes. One that fails to say is left out.

        Raises:
            RegistryError: Two plugins have one name, or `before` and `after` make a cycle or are no tuples.
        """
        told, refusals = _told(_ordered(list(plugins)))
        self.plugins: tuple[Plugin, ...] = tuple(plugin for plugin, _ in told)
        self.failures: tuple[LoadFailure, ...] = (*failures, *refusals)
        self.watches: tuple[Watch, ...] = tuple(watch for _, theirs in told for watch in theirs.watches)
        self.indexes: tuple[Index[Any], ...] = _indexes(self.watches)
        """The indexes of all watches; those of kinds that are not served find nothing."""
        self.slots = Slots(
            {plugin.name: theirs.schemas for plugin, theirs in told},
            {failure.name: failure.reason for failure in self.failures},
        )
        self.runtime_validations = tuple(p for p in self.plugins if isinstance(p, points.RuntimeValidation))
        self.validations = tuple(p for p in self.plugins if isinstance(p, points.CustomValidation))
        self.pod_group_policies = tuple(p for p in self.plugins if isinstance(p, points.EnforcePodGroupPolicy))
        self.ml_policies = tuple(p for p in self.plugins if isinstance(p, points.EnforceMLPolicy))
        self.pod_specs = tuple(p for p in self.plugins if isinstance(p, points.EnforcePodSpec))
        self.pod_networks = tuple(p for p in self.plugins if isinstance(p, points.PodNetwork))
        self.builders = tuple(p for p in self.plugins if isinstance(p, points.ComponentBuilder))
        self.terminal_conditions = tuple(p for p in self.plugins if isinstance(p, points.TerminalCondition))
        self.conditions = tuple(p for p in self.plugins if isinstance(p, points.Conditions))
        self.statuses = tuple(p for p in self.plugins if isinstance(p, points.Status))
        self.elasticities = tuple(p for p in self.plugins if isinstance(p, points.Elasticity))
        self.gangs = tuple(p for p in self.plugins if isinstance(p, points.Gangs))
        self.upkeeps = tuple(p for p in self.plugins if isinstance(p, points.Upkeep))
        self.clean_ups = tuple(p for p in self.plugins if isinstance(p, points.CleanUp))
        self.foreign = frozenset(p.name for p in self.plugins if not _is_built_in(type(p).__module__))
        """Names of the plugins that are other people's: they are not taken at their word."""
        self.calls = Calls()
        """How they fared; the same in copies."""

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
        # Ours first: whoever takes one of our names, by accident or not, must not take JobSets from everybody.
        for entry_point in sorted(entry_points, key=lambda e: (not _is_built_in(e.module), e.name, e.value)):
            try:
                plugin = _load(entry_point, taken=plugins)
            except (Exception, SystemExit) as error:  # noqa: BLE001 -- somebody else's import; costs that plugin only
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

    def replacing(self, plugin: Plugin) -> Registry:
        """Return a registry with *plugin* in place of the plugin of its name."""
        return Registry([plugin if one.name == plugin.name else one for one in self.plugins], self.failures)

    def uncounted(self) -> Registry:
        """Return the same plugins, with metrics of their own: for calls that are no job's."""
        other = copy(self)
        other.calls = Calls()
        return other

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the plugins, in order."""
        return tuple(plugin.name for plugin in self.plugins)


def _is_built_in(module: str) -> bool:
    return module.startswith(_BUILT_IN)


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
    _check_hooks(plugin)
    _wishes(plugin)
    return plugin


def _check_hooks(plugin: Plugin) -> None:
    """
    Make sure that hooks can be called, and answer at once.

    Raises:
        RegistryError: One does not.
    """
    for hook in _HOOKS:
        function = getattr(plugin, hook, None)
        if function is not None and (not callable(function) or iscoroutinefunction(function)):
            what = "a coroutine function, and hooks are synchronous" if callable(function) else "no method"
            raise RegistryError(f"its `{hook}` is {what}")


def _wishes(plugin: Plugin) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """
    Return which plugins it wants to run before, and which after.

    Raises:
        RegistryError: It does not say so in a tuple; a text would be taken for its letters.
    """
    before, after = getattr(plugin, "before", ()), getattr(plugin, "after", ())
    for attribute, names in (("before", before), ("after", after)):
        if not isinstance(names, tuple | list) or not all(isinstance(name, str) for name in names):
            raise RegistryError(f"plugin {plugin.name}: `{attribute}` must be a tuple of names of plugins")
    return tuple(before), tuple(after)


def _unusable(name: str, origin: str, error: BaseException) -> LoadFailure:
    reason = str(error) or type(error).__name__
    log.warning("plugin.unusable", plugin=name, origin=origin, reason=reason)
    return LoadFailure(name, origin, reason)


class _Told(NamedTuple):
    """What a plugin says of itself before anything runs."""

    watches: tuple[Watch, ...]
    schemas: dict[str, Schema]


def _told(plugins: Sequence[Plugin]) -> tuple[list[tuple[Plugin, _Told]], list[LoadFailure]]:
    """Return the plugins, each with what it watches and takes, and those that failed to say."""
    usable: dict[str, _Told] = {}
    failures: list[LoadFailure] = []
    selectors: dict[Resource[Any], str] = {}
    # Ours first, as where they are loaded.
    for plugin in sorted(plugins, key=lambda p: not _is_built_in(type(p).__module__)):
        try:
            watches = tuple(plugin.watches()) if isinstance(plugin, points.WatchExtension) else ()
            agreed = _agreeing(watches, selectors)
            _check_indexes(watches)
            told = _Told(watches, schemas_of(plugin))
        except (Exception, SystemExit) as error:  # noqa: BLE001 -- somebody else's code; costs that plugin only
            origin = f"{type(plugin).__module__}:{type(plugin).__qualname__}"
            failures.append(_unusable(plugin.name, origin, error))
        else:
            selectors |= agreed
            usable[plugin.name] = told
    return [(plugin, usable[plugin.name]) for plugin in plugins if plugin.name in usable], failures


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


def _indexes(watches: Iterable[Watch]) -> tuple[Index[Any], ...]:
    return tuple(dict.fromkeys(index for watch in watches for one in watch.chain for index in one.indexes))


def _check_indexes(watches: Sequence[Watch]) -> None:
    """
    Make sure that there is a cache for each index.

    Raises:
        RegistryError: One is of a kind that the plugin does not watch.
    """
    known = {one.resource for watch in watches for one in watch.chain} | _ALWAYS_CACHED
    for index in _indexes(watches):
        if index.resource not in known:
            raise RegistryError(
                f"it has an index of {index.resource.qualified_name}, which it does not watch; add a Watch of that kind"
            )


def _ordered(plugins: list[Plugin]) -> tuple[Plugin, ...]:
    by_name = {plugin.name: plugin for plugin in plugins}
    if len(by_name) < len(plugins):
        twice = sorted({p.name for p in plugins if [q.name for q in plugins].count(p.name) > 1})
        raise RegistryError(f"more than one plugin is called {', '.join(twice)}")
    waits_for: dict[str, set[str]] = {name: set() for name in by_name}
    for name, plugin in by_name.items():
        before, after = _wishes(plugin)
        # Names of plugins that are not installed say nothing.
        waits_for[name] |= {other for other in after if other in by_name}
        for other in before:
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
