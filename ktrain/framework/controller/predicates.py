"""
Which events of a source are worth a pass.

A predicate looks at one event, the object as it was and as it is (None where there is none), and returns what is left
of it. That is more than yes or no, because an object that begins to match a selector is an addition to those who look
through it, and one that ceases to match is a deletion: so `label_selector("team=a") & GENERATION_CHANGED` does not miss
the object that is relabelled, although its generation stays the same.

Predicates combine with `&`, `|` and `~`. They save passes, never memory: an informer's own selectors do that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from ktrain.api.selectors import LabelSelector
from ktrain.framework.client.codec import metadata_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ktrain.api.meta import ObjectMeta

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)
U = TypeVar("U")


class Predicate(ABC, Generic[T_contra]):
    """Base of all predicates. One of your own implements `rest`; it must be quick and must not change the objects."""

    selects: bool = False
    """Whether it looks at each object for itself, so that old and new may fare differently."""

    @abstractmethod
    def rest(self, old: U | None, new: U | None) -> tuple[U | None, U | None]:
        """Return what is left of the event: the same, one half of it, or (None, None)."""

    def __and__(self, other: Predicate[Any]) -> Predicate[Any]:
        """Keep what both leave."""
        return _And(self, other)

    def __or__(self, other: Predicate[Any]) -> Predicate[Any]:
        """Keep what one of them leaves."""
        return _Or(self, other)

    def __invert__(self) -> Predicate[Any]:
        """Keep what it drops, and the other way round; for `Changed` that drops creations and deletions."""
        return _Not(self)


class Matching(Predicate[T]):
    """Objects for which the function is true. Selects."""

    selects = True

    def __init__(self, function: Callable[[T], bool]) -> None:
        self._matches: Callable[[Any], bool] = function

    def rest(self, old: U | None, new: U | None) -> tuple[U | None, U | None]:
        """Keep the halves that match."""
        return (
            None if old is None or not self._matches(old) else old,
            None if new is None or not self._matches(new) else new,
        )


class Changed(Predicate[T]):
    """Updates after which the function gives another value; creations and deletions always."""

    def __init__(self, function: Callable[[T], object]) -> None:
        self._value: Callable[[Any], object] = function

    def rest(self, old: U | None, new: U | None) -> tuple[U | None, U | None]:
        """Drop an update that left the value as it was."""
        if old is None or new is None or self._value(old) != self._value(new):
            return old, new
        return None, None


class Events(Predicate[T]):
    """
    A function per kind of event; those not given let every such event pass.

    `Events(deleted=lambda obj: False)` ignores deletions.
    """

    def __init__(
        self,
        *,
        added: Callable[[T], bool] | None = None,
        updated: Callable[[T, T], bool] | None = None,
        deleted: Callable[[T], bool] | None = None,
    ) -> None:
        self._added: Callable[[Any], bool] | None = added
        self._updated: Callable[[Any, Any], bool] | None = updated
        self._deleted: Callable[[Any], bool] | None = deleted

    def rest(self, old: U | None, new: U | None) -> tuple[U | None, U | None]:
        """Drop the event if its function is false."""
        if old is not None and new is not None:
            passes = self._updated is None or self._updated(old, new)
        elif new is not None:
            passes = self._added is None or self._added(new)
        else:
            passes = self._deleted is None or self._deleted(old)
        return (old, new) if passes else (None, None)


def label_selector(text: str) -> Matching[Any]:
    """Objects whose labels match, as in `kubectl get -l`. SelectorError if it cannot be read."""
    selector = LabelSelector.parse(text)
    return Matching(lambda obj: selector.matches(metadata_of(obj).labels))


def _metadata_changed(value: Callable[[ObjectMeta], object]) -> Changed[Any]:
    return Changed(lambda obj: value(metadata_of(obj)))


VERSION_CHANGED: Final = _metadata_changed(lambda meta: meta.resource_version)
"""Drops replays of what was there already."""
GENERATION_CHANGED: Final = _metadata_changed(lambda meta: meta.generation)
"""
Drops updates of status and metadata: the API server counts changes of the spec, and the start of a deletion.

For kinds with a status subresource only: without one any write may count, or none. Finalizers, labels and annotations
do not count.
"""
LABELS_CHANGED: Final = _metadata_changed(lambda meta: meta.labels)
ANNOTATIONS_CHANGED: Final = _metadata_changed(lambda meta: meta.annotations)


class _And(Predicate[Any]):
    def __init__(self, *parts: Predicate[Any]) -> None:
        # Those that select come first, whatever the order in which they were written: they may turn an update into an
        # addition, which the others must see as one.
        self._parts = sorted(parts, key=lambda part: not part.selects)
        self.selects = all(part.selects for part in parts)

    def rest(self, old: U | None, new: U | None) -> tuple[U | None, U | None]:
        for part in self._parts:
            old, new = part.rest(old, new)
            if old is None and new is None:
                break
        return old, new


class _Or(Predicate[Any]):
    def __init__(self, *parts: Predicate[Any]) -> None:
        self._parts = parts
        self.selects = all(part.selects for part in parts)

    def rest(self, old: U | None, new: U | None) -> tuple[U | None, U | None]:
        left = [part.rest(old, new) for part in self._parts]
        return (
            old if any(kept is not None for kept, _ in left) else None,
            new if any(kept is not None for _, kept in left) else None,
        )


class _Not(Predicate[Any]):
    def __init__(self, part: Predicate[Any]) -> None:
        self._part = part
        self.selects = part.selects

    def rest(self, old: U | None, new: U | None) -> tuple[U | None, U | None]:
        kept_old, kept_new = self._part.rest(old, new)
        return (old if kept_old is None else None, new if kept_new is None else None)
