"""
The indexes that plugins declare, over the caches; and what plugins' mappings see of the caches.

Index functions and mappings run where an event happens, and many are other people's. One that raises, or does not
return in time, costs its own answer for that object: the object stays in the cache, and so do the other plugins'
answers.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import structlog

from ktrain.api.meta import Key
from ktrain.framework.client.codec import metadata_of
from ktrain.pipeline.overrun import TIMER, Overrun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ktrain.api.meta import Resource
    from ktrain.framework.cache.informer import Informer
    from ktrain.pipeline import Index, Mapped, World

T = TypeVar("T")
U = TypeVar("U")

_OURS: Final = "ktrain."
log = structlog.get_logger(__name__)


class Indexes:
    """The caches as plugins may read them (`World`), with every index that a plugin declares."""

    def __init__(self, informers: Mapping[Resource[Any], Informer[Any]], indexes: Iterable[Index[Any]]) -> None:
        """Add the *indexes* to the *informers* that there are; of a kind that is not served there is none."""
        self._informers = informers
        self._names: dict[Index[Any], str] = {}
        for index in dict.fromkeys(indexes):
            self._names[index] = name = f"plugin index {id(index.values):x}"
            informer = informers.get(index.resource)
            if informer is not None:
                with suppress(ValueError):  # it is there: the webhooks share caches with the controller
                    informer.add_index(name, _Guarded(index.values))

    def lookup(self, resource: Resource[T], key: Key) -> T | None:
        """Return an object, or None."""
        informer: Informer[T] | None = self._informers.get(resource)
        return None if informer is None else informer.get(key)

    def find(self, index: Index[T], value: str) -> Sequence[T]:
        """
        Return the objects that *index* has under *value*; nothing if the cluster does not serve the kind.

        Raises:
            LookupError: No plugin declares the index.
        """
        name = self._names.get(index)
        if name is None:
            raise LookupError(f"no Watch declares this index of {index.resource.qualified_name}; add it to `indexes`")
        informer: Informer[T] | None = self._informers.get(index.resource)
        return () if informer is None else informer.by_index(name, value)


@dataclass(frozen=True, slots=True)
class MappedKeys:
    """A plugin's mapping, bound to the caches."""

    mapped: Mapped
    world: World

    def __call__(self, obj: Any) -> Iterable[Key]:  # noqa: ANN401 -- any kind
        """
        Return the TrainJobs that *obj* concerns.

        Raises:
            Exception: The plugin's function raised, overran, or returned something else than keys.
        """
        keys = _limited(self.mapped.keys, lambda: tuple(self.mapped.keys(obj, self.world)))
        wrong = [key for key in keys if not isinstance(key, Key)]
        if wrong:
            raise TypeError(f"a mapping returned {wrong[0]!r}, where a Key of a TrainJob is expected")
        return keys


@dataclass(frozen=True, slots=True)
class _Guarded:
    """An index function that finds an object under nothing if the plugin's own one fails on it."""

    values: Callable[[Any], Iterable[str]]

    def __call__(self, obj: object) -> tuple[str, ...]:
        try:
            found = _limited(self.values, lambda: tuple(self.values(obj)))
            if isinstance(found, str) or not all(isinstance(value, str) for value in found):
                raise TypeError(f"it returned {found!r:.100}, where texts are expected")  # noqa: TRY301 -- reported below
        except Exception as error:  # noqa: BLE001 -- a plugin's code must not cost the cache an object
            log.warning("index.failed", index=_name(self.values), object=str(metadata_of(obj).key), reason=repr(error))
            return ()
        return found


def _limited(function: Callable[..., object], call: Callable[[], U]) -> U:
    """
    Call a plugin's function, one of another package for a second at most.

    Raises:
        RuntimeError: It did not return in time, or tried to end the process.
    """
    if str(getattr(function, "__module__", "")).startswith(_OURS):
        return call()
    try:
        with TIMER.limiting():
            return call()
    except (Overrun, SystemExit) as error:
        raise RuntimeError(f"{_name(function)}: {error}") from error


def _name(function: object) -> str:
    module, name = getattr(function, "__module__", ""), getattr(function, "__qualname__", repr(function))
    return f"{module}.{name}"
