"""
Finds plugins by entry point, in the group `ktrain.plugins`; the built-in ones are found the same way as anyone else's.

One that cannot be used is left out and reported, with the package that it is of. Nobody takes the name of a built-in
plugin. Of other plugins with one name, the one whose entry point has that name, too, is used; if that tells nothing,
none is: which of them was installed first must not decide what jobs become.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from . import points
from .errors import RegistryError
from .ordering import wishes
from .signatures import check_hooks

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from importlib.metadata import EntryPoint

    from structlog.typing import FilteringBoundLogger

    from .points import Plugin

GROUP: Final = "ktrain.plugins"
_BUILT_IN: Final = "ktrain.plugins."
"""Where our own plugins are."""

log: FilteringBoundLogger = structlog.get_logger("ktrain.pipeline")


@dataclass(frozen=True, slots=True)
class LoadFailure:
    """A plugin that is installed but not usable, and why."""

    name: str
    origin: str
    """Where it comes from: `module:attribute of PACKAGE VERSION`."""
    reason: str


@dataclass(frozen=True, slots=True)
class Choice:
    """Which of the installed plugins an administrator wants."""

    disabled: tuple[str, ...] = ()
    """Names of plugins that are not used; what has such an entry point is not even imported."""
    allowed: tuple[str, ...] | None = None
    """Names of other packages' plugins that may be used; None: all."""

    def excludes(self, name: str, *, is_built_in: bool) -> bool:
        """Whether a plugin of this name is not wanted."""
        return name in self.disabled or not (is_built_in or self.allowed is None or name in self.allowed)


class Loaded(NamedTuple):
    """What was found."""

    plugins: tuple[Plugin, ...]
    origins: dict[str, str]
    """Where each comes from, by name."""
    failures: tuple[LoadFailure, ...]


class _Candidate(NamedTuple):
    plugin: Plugin
    entry_point: EntryPoint

    @property
    def is_built_in(self) -> bool:
        return is_built_in(self.entry_point.module)


def is_built_in(module: str) -> bool:
    """Whether what is in a module is ours."""
    return module.startswith(_BUILT_IN)


def load_all(entry_points: Iterable[EntryPoint], choice: Choice) -> Loaded:
    """Load what can be used of *entry_points* and is wanted."""
    by_name: dict[str, list[_Candidate]] = {}
    failures: list[LoadFailure] = []
    for entry_point in sorted(entry_points, key=lambda one: (not is_built_in(one.module), one.name, one.value)):
        ours = is_built_in(entry_point.module)
        if choice.excludes(entry_point.name, is_built_in=ours):
            log.info("plugin.disabled", plugin=entry_point.name, origin=origin_of(entry_point))
            continue
        try:
            plugin = _load(entry_point)
        except (Exception, SystemExit) as error:  # noqa: BLE001 -- somebody else's import; costs that plugin only
            failures.append(unusable(entry_point.name, origin_of(entry_point), error))
        else:
            if not choice.excludes(plugin.name, is_built_in=ours):
                by_name.setdefault(plugin.name, []).append(_Candidate(plugin, entry_point))
    used: list[_Candidate] = []
    for name, candidates in by_name.items():
        chosen = _chosen(name, candidates)
        used += [chosen] if chosen else []
        failures += [_taken(one, candidates) for one in candidates if one is not chosen]
    origins = {one.plugin.name: origin_of(one.entry_point) for one in used}
    return Loaded(tuple(one.plugin for one in used), origins, tuple(failures))


def unusable(name: str, origin: str, error: BaseException) -> LoadFailure:
    """Report a plugin that is left out."""
    reason = str(error) or type(error).__name__
    log.warning("plugin.unusable", plugin=name, origin=origin, reason=reason)
    return LoadFailure(name, origin, reason)


def origin_of(entry_point: EntryPoint) -> str:
    """Say where a plugin comes from: module, attribute, package and version."""
    package = entry_point.dist
    return f"{entry_point.value} of {package.name} {package.version}" if package else entry_point.value


def _load(entry_point: EntryPoint) -> Plugin:
    plugin: Plugin = entry_point.load()()
    name = getattr(plugin, "name", None)
    if not isinstance(name, str) or not name:
        raise RegistryError("it has no attribute `name` with a text in it")
    if not isinstance(plugin, points.EXTENSION_POINTS):
        known = ", ".join(point.__name__ for point in points.EXTENSION_POINTS)
        raise RegistryError(f"it implements none of the extension points: {known}")
    check_hooks(plugin)
    wishes(plugin)
    return plugin


def _chosen(name: str, candidates: Collection[_Candidate]) -> _Candidate | None:
    """Return the plugin that has a name; None if it is not clear whose the name is."""
    ours = [one for one in candidates if one.is_built_in]
    named = [one for one in ours or candidates if one.entry_point.name == name]
    for best in (named, ours, candidates):
        if best:
            (first, *others) = best
            return None if others else first
    return None


def _taken(candidate: _Candidate, candidates: Iterable[_Candidate]) -> LoadFailure:
    others = ", ".join(origin_of(one.entry_point) for one in candidates if one is not candidate)
    error = RegistryError(f"another plugin is called {candidate.plugin.name!r}, too: {others}; uninstall one of them")
    return unusable(candidate.entry_point.name, origin_of(candidate.entry_point), error)
