"""
The watches of a plugin: kinds, the TrainJobs that their changes concern, and indexes to find objects by.

Go's Trainer lets a plugin register reconciler builders: a kind, a handler that maps its events to TrainJobs, and
predicates. Here a `Watch` says the same as data, so that the same plugin works on a cluster, offline and in a
simulation. A mapping is a pure function of the object and of the caches, and may neither wait nor write.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ktrain.api.meta import Key, Object, Resource
    from ktrain.framework.controller.predicates import Predicate

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Index(Generic[T]):
    """
    Finds cached objects of a kind by texts, without looking at all of them.

    Make one once, as a constant: the same index is built once, however many plugins declare it.
    """

    resource: Resource[T]
    """TrainJobs, runtimes, or a kind that is watched."""
    values: Callable[[T], Iterable[str]]
    """A pure function: the texts under which an object is found. One on which it fails is found under nothing."""


class Find(Protocol):
    """Reads an index. Never waits; sees only indexes that some plugin's `Watch` declares."""

    def __call__(self, index: Index[T], value: str) -> Sequence[T]:
        """Return the objects that the index has under *value*; nothing if the cluster does not serve the kind."""


class World(Protocol):
    """The caches, as a mapping may read them."""

    def lookup(self, resource: Resource[T], key: Key) -> T | None:
        """Return an object of TrainJobs, runtimes or a kind that is watched, or None."""

    def find(self, index: Index[T], value: str) -> Sequence[T]:
        """Return the objects that the index has under *value*."""


@dataclass(frozen=True, slots=True)
class Owned:
    """An object concerns the TrainJob that controls it."""


@dataclass(frozen=True, slots=True)
class Suspended:
    """An object concerns all suspended TrainJobs of its namespace, or of all namespaces if its kind has none."""


@dataclass(frozen=True, slots=True)
class Mapped:
    """
    An object concerns the TrainJobs that a function of the plugin names.

    The function is called for the object as it is and, after an update, also as it was, so that the jobs that an object
    no longer concerns are reconciled, too. Each job is reconciled once, however often it is named.
    """

    # `Any`: any kind.
    keys: Callable[[Any, World], Iterable[Key]]


Concerns = Owned | Suspended | Mapped
"""Which TrainJobs a change of an object concerns."""


@dataclass(frozen=True, slots=True)
class _WithoutWorld:
    """A function of the object alone, as a mapping. Equal for equal functions."""

    function: Callable[[Object], Iterable[Key]]

    def __call__(self, obj: Object, world: World) -> Iterable[Key]:
        return self.function(obj)


@dataclass(frozen=True, slots=True, init=False)
class Watch:
    """
    A kind that a plugin needs in the caches, and whose changes may concern TrainJobs.

    Watched objects are kept in memory, in the shape of `resource.type`: declare what is read, and no more. That is all
    objects of the kind that the label selector matches; of an `Owned` kind, those that any TrainJob controls. Of the
    others of it only names are kept: passes ask the API server if they look one up, admission does not see them. What
    the selector leaves out cannot be looked up at all, so select only what you do not build.
    The operator's role must allow to list and watch the kind, and to create, patch and get what is built of it.

    Args:
        resource: The kind.
        concerns: `Owned()`, `Suspended()` or `Mapped(function)`; None: its changes concern no TrainJob.
        predicate: Which events count (`ktrain.framework.controller.predicates`); None: all.
        indexes: What `Context.find` and a mapping find objects by, of this or of other kinds.
        label_selector: Which objects of the kind are watched.
        otherwise: Another version of the kind, for clusters that do not serve this one: one of the chain is watched.
        owned: The same as `concerns=Owned()`.
        suspended: The same as `concerns=Suspended()`.
        keys: The same as `concerns=Mapped(...)` with a function that sees the object only.

    Raises:
        ValueError: More than one of `concerns`, `owned`, `suspended` and `keys` is given.
        TypeError: An argument is of another type.
    """

    resource: Resource[Any]
    concerns: Concerns | None
    predicate: Predicate[Any] | None
    indexes: tuple[Index[Any], ...]
    label_selector: str
    otherwise: Watch | None

    def __init__(
        self,
        resource: Resource[Any],
        concerns: Concerns | None = None,
        *,
        predicate: Predicate[Any] | None = None,
        indexes: Iterable[Index[Any]] = (),
        label_selector: str = "",
        otherwise: Watch | None = None,
        owned: bool = False,
        suspended: bool = False,
        keys: Callable[[Object], Iterable[Key]] | None = None,
    ) -> None:
        older: tuple[Concerns | None, ...] = (
            Owned() if owned else None,
            Suspended() if suspended else None,
            Mapped(_WithoutWorld(keys)) if keys else None,
        )
        said = [one for one in (concerns, *older) if one is not None]
        if len(said) > 1:
            names = ", ".join(type(one).__name__ for one in said)
            raise ValueError(f"a Watch of {resource.qualified_name} is {names} at once; make a Watch of each")
        if said and not isinstance(said[0], Concerns):
            expected = "Owned(), Suspended() or Mapped(function)"
            raise TypeError(f"a Watch of {resource.qualified_name} concerns {said[0]!r}, where {expected} is expected")
        found = tuple(indexes)
        for index in found:
            if not isinstance(index, Index):
                raise TypeError(f"a Watch of {resource.qualified_name} has the index {index!r}, which is no Index")
        if predicate is not None and not hasattr(predicate, "rest"):
            expected = "a predicate of ktrain.framework.controller.predicates"
            raise ValueError(
                f"a Watch of {resource.qualified_name} has the predicate {predicate!r}, where {expected} is expected"
            )
        for name, value in (
            ("resource", resource),
            ("concerns", said[0] if said else None),
            ("predicate", predicate),
            ("indexes", found),
            ("label_selector", label_selector),
            ("otherwise", otherwise),
        ):
            object.__setattr__(self, name, value)

    @property
    def owned(self) -> bool:
        """Whether its objects are the children of TrainJobs."""
        return isinstance(self.concerns, Owned)

    @property
    def chain(self) -> Iterator[Watch]:
        """This one, and what takes its place where it is not served, in order."""
        watch: Watch | None = self
        while watch is not None:
            yield watch
            watch = watch.otherwise
