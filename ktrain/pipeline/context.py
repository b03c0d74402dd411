"""The context of a hook: the caches, time, randomness, the log, configuration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import structlog

from .prepare import Merged

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence
    from datetime import datetime
    from random import Random

    from structlog.typing import FilteringBoundLogger

    from ktrain.api.meta import Json, Key, Resource
    from ktrain.framework.env import Env

    from .watches import Find, Index

T = TypeVar("T")

log = structlog.get_logger("ktrain.pipeline")


class Lookup(Protocol):
    """Reads a cache. Never waits; sees only kinds that some plugin watches."""

    def __call__(self, resource: Resource[T], key: Key) -> T | None:
        """Return the object, or None."""


def _nothing(index: Index[T], value: str) -> Sequence[T]:  # noqa: ARG001 -- a `Find`
    """Find nothing."""
    return ()


@dataclass(frozen=True, slots=True)
class Context:
    """The world as hooks may see it."""

    lookup: Lookup
    now: datetime
    """Aware, UTC."""
    random: Random
    """
    Entropy, also for secrets: the operating system's in production, a seeded generator in simulations.

    For what is drawn a plugin builds its component with `ApplyWhen.ABSENT`, so that it is drawn once.
    """
    log: FilteringBoundLogger
    monotonic: Callable[[], float]
    """Seconds, for measuring hooks."""
    config: Mapping[str, Json] = field(default_factory=dict)
    """The configuration sections of the plugins, by plugin name."""
    kinds: Container[Resource[Any]] | None = None
    """What `lookup` can know about; None: every kind."""
    merged: Merged = field(default_factory=Merged)
    """The patched template, which the phases of one reconcile share."""
    find: Find = _nothing
    """Reads the indexes that watches declare; for objects whose names are not known."""

    @classmethod
    def at_present(
        cls,
        env: Env,
        lookup: Lookup,
        config: Mapping[str, Json] | None = None,
        kinds: Container[Resource[Any]] | None = None,
        find: Find = _nothing,
    ) -> Context:
        """The world of a process as it is now."""
        monotonic = env.clock.monotonic
        return cls(lookup, env.clock.now(), env.random, log, monotonic, config or {}, kinds, find=find)

    def knows(self, resource: Resource[Any]) -> bool:
        """Whether None from `lookup` says that there is no such object; if not, the kind may not even be served."""
        return self.kinds is None or resource in self.kinds
