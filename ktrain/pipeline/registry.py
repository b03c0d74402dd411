"""
The plugins of a process, in order, by extension point.

A plugin that cannot be loaded (`loading`), contradicts others about the order (`ordering`), or fails to say what it
watches is left out and reported.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Final, NamedTuple

from ktrain.api import trainer as api

from . import points
from .calls import Calls
from .errors import RegistryError
from .loading import GROUP, Choice, LoadFailure, is_built_in, load_all, log, unusable
from .ordering import ordered, unknown, wishes
from .signatures import misspelt
from .slots import Slots, schemas_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence
    from importlib.metadata import EntryPoint
    from typing import Any

    from ktrain.api.meta import Resource
    from ktrain.api.schema import Schema

    from .points import Plugin
    from .watches import Index, Watch

_ALWAYS_CACHED: Final = frozenset({api.TRAIN_JOBS, api.TRAINING_RUNTIMES, api.CLUSTER_TRAINING_RUNTIMES})
"""Kinds that need no watch to be found by an index."""
_ALL: Final = Choice()


class Registry:
    """An ordered, fixed set of plugins."""

    def __init__(
        self,
        plugins: Iterable[Plugin],
        failures: Iterable[LoadFailure] = (),
        origins: Mapping[str, str] | None = None,
    ) -> None:
        """
        Put *plugins* in order, and ask each what it watches and takes. One that fails to say is left out.

        Raises:
            RegistryError: Two plugins have one name, built-in ones want to run before each other, or `before` or
                `after` are no tuples.
        """
        self.origins: dict[str, str] = dict(origins or {})
        """Where plugins come from, by name."""
        placed, circles = self._placed(list(plugins))
        told, refusals = _told(placed)
        self.plugins: tuple[Plugin, ...] = tuple(plugin for plugin, _ in told)
        self.failures: tuple[LoadFailure, ...] = (*failures, *circles, *refusals)
        self.remarks: Mapping[str, tuple[str, ...]] = _remarks(self.plugins)
        """What is probably not meant as it is written, by plugin."""
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
        self.foreign = frozenset(p.name for p in self.plugins if not is_built_in(type(p).__module__))
        """Names of the plugins that are other people's: they are not taken at their word."""
        self.calls = Calls()
        """How they fared; the same in copies."""

    @classmethod
    def load(cls, entry_points: Iterable[EntryPoint] | None = None, choice: Choice = _ALL) -> Registry:
        """
        Load the installed plugins (or those of *entry_points*) that are wanted.

        Raises:
            RegistryError: The built-in ones cannot be put in order.
        """
        if entry_points is None:
            from importlib.metadata import entry_points as installed  # 15 ms that --help need not pay

            entry_points = installed(group=GROUP)
        found = load_all(entry_points, choice)
        return cls(found.plugins, found.failures, found.origins)

    def without_kinds(self, kinds: Container[Resource[Any]]) -> Registry:
        """Return the same plugins, watching none of these kinds; other versions of a kind stand in."""
        other = copy(self)
        chosen = (next((w for w in watch.chain if w.resource not in kinds), None) for watch in self.watches)
        other.watches = tuple(watch for watch in chosen if watch)
        return other

    def replacing(self, plugin: Plugin) -> Registry:
        """Return a registry with *plugin* in place of the plugin of its name."""
        replaced = [plugin if one.name == plugin.name else one for one in self.plugins]
        return Registry(replaced, self.failures, self.origins)

    def uncounted(self) -> Registry:
        """Return the same plugins, with metrics of their own: for calls that are no job's."""
        other = copy(self)
        other.calls = Calls()
        return other

    def _placed(self, plugins: Sequence[Plugin]) -> tuple[list[Plugin], list[LoadFailure]]:
        """Put plugins in order; those whose wishes make a circle are in none."""
        by_name = {plugin.name: plugin for plugin in plugins}
        if len(by_name) < len(plugins):
            names = [plugin.name for plugin in plugins]
            twice = sorted({name for name in names if names.count(name) > 1})
            raise RegistryError(f"more than one plugin is called {', '.join(twice)}")
        ours = {name for name, plugin in by_name.items() if is_built_in(type(plugin).__module__)}
        order = ordered({name: wishes(plugin) for name, plugin in by_name.items()}, spared=ours)
        failures = [
            unusable(name, self.origins.get(name) or _class_of(by_name[name]), RegistryError(circle))
            for name, circle in order.circles.items()
        ]
        return [by_name[name] for name in order.names], failures

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the plugins, in order."""
        return tuple(plugin.name for plugin in self.plugins)


def _class_of(plugin: Plugin) -> str:
    return f"{type(plugin).__module__}:{type(plugin).__qualname__}"


def _remarks(plugins: Sequence[Plugin]) -> dict[str, tuple[str, ...]]:
    """Return what plugins of others probably do not mean, and log it."""
    known = {plugin.name for plugin in plugins}
    found: dict[str, tuple[str, ...]] = {}
    for plugin in plugins:
        if is_built_in(type(plugin).__module__):
            continue
        doubts = [*((text, True) for text in misspelt(plugin)), *unknown(plugin.name, wishes(plugin), known)]
        for text, is_likely in doubts:
            (log.warning if is_likely else log.info)("plugin.remark", plugin=plugin.name, remark=text)
        if doubts:
            found[plugin.name] = tuple(text for text, _ in doubts)
    return found


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
    for plugin in sorted(plugins, key=lambda p: not is_built_in(type(p).__module__)):
        try:
            watches = tuple(plugin.watches()) if isinstance(plugin, points.WatchExtension) else ()
            agreed = _agreeing(watches, selectors)
            _check_indexes(watches)
            told = _Told(watches, schemas_of(plugin))
        except (Exception, SystemExit) as error:  # noqa: BLE001 -- somebody else's code; costs that plugin only
            failures.append(unusable(plugin.name, _class_of(plugin), error))
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
