"""
The extension points: what a plugin may implement, and what it is given.

A plugin is any object with a `name` and at least one of these methods; it is recognised by structure, not by a base
class. `before` and `after` may name other plugins. Hooks are synchronous and pure: they read frozen inputs, the `Info`,
and a `Context`, they write through `Info` or return values, and they do no I/O. So a plan can be rendered offline,
replayed, simulated and cached. A plugin that has to talk to the outside runs a controller of its own and leaves its
answer in an object that a hook can look up.

| phase | extension points | when |
|---|---|---|
| Startup | `WatchExtension` | once |
| PreExecution | `CustomValidation` | at admission, and again before a build: it works the same with webhooks off |
| Build | `EnforcePodGroupPolicy`, `EnforceMLPolicy`, `EnforcePodSpec`, `PodNetwork`, `ComponentBuilder` | to write |
| PostExecution | `TerminalCondition`, `Status` | each reconcile |
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime
    from random import Random

    from structlog.typing import FilteringBoundLogger

    from ktrain.api.meta import Condition, Json, Key, Object, Resource
    from ktrain.api.trainer import JobStatus, TrainJob

    from .findings import Findings
    from .info import Info

T = TypeVar("T")


class Lookup(Protocol):
    """Reads a cache. Never waits; sees only kinds that some plugin watches."""

    def __call__(self, resource: Resource[T], key: Key) -> T | None:
        """Return the object, or None."""


@dataclass(frozen=True, slots=True)
class Context:
    """The world as hooks may see it."""

    lookup: Lookup
    now: datetime
    """Aware, UTC."""
    random: Random
    """Entropy. For secrets a plugin builds its component with `ApplyWhen.ABSENT`, so that it is drawn once."""
    log: FilteringBoundLogger
    monotonic: Callable[[], float]
    """Seconds, for measuring hooks."""
    config: Mapping[str, Json] = field(default_factory=dict)
    """The configuration sections of the plugins, by plugin name."""


class ApplyWhen(Enum):
    """When a component that exists is written again. One that does not exist is written in any case."""

    ABSENT = "absent"
    """Never: it is made once, for example a key pair."""
    SUSPENDED = "suspended"
    """While the TrainJob or its JobSet is suspended; a running job's stays as it is."""
    CHANGED = "changed"
    """When what is built differs from what was written last."""


@dataclass(frozen=True, slots=True)
class Component:
    """An object to be applied for a TrainJob. Name, namespace and owner reference are already in `body`."""

    # `Any`: any kind.
    resource: Resource[Any]
    body: Json
    when: ApplyWhen = ApplyWhen.CHANGED


@dataclass(frozen=True, slots=True)
class Watch:
    """
    A kind that a plugin needs in the caches, and whose changes concern TrainJobs.

    `owned`: objects controlled by a TrainJob concern that TrainJob, and only those are kept in memory. Otherwise `keys`
    says which TrainJobs an object concerns. `verbs` is what the operator's role must allow on the kind.
    """

    resource: Resource[Any]
    owned: bool = False
    keys: Callable[[Object], Sequence[Key]] | None = None
    verbs: tuple[str, ...] = ("get", "list", "watch")


class Plugin(Protocol):
    """What every plugin has. `before` and `after` (tuples of plugin names) are optional class attributes."""

    @property
    def name(self) -> str:
        """A name that no other plugin has; a class attribute will do."""


@runtime_checkable
class WatchExtension(Plugin, Protocol):
    """Startup: the kinds to watch."""

    def watches(self) -> Sequence[Watch]:
        """Return the kinds this plugin reads or builds. A kind whose CRD is not installed is left out, and reported."""


@runtime_checkable
class CustomValidation(Plugin, Protocol):
    """PreExecution: refuse a TrainJob that cannot work."""

    def validate(self, info: Info | None, job: TrainJob, old: TrainJob | None, ctx: Context) -> Findings:
        """
        Check *job*; *old* is what it replaces on an update. *info* is None if its runtime is gone or unusable.

        Runs at admission with the live runtime, and before a build with the snapshot and no *old*.
        """


@runtime_checkable
class EnforcePodGroupPolicy(Plugin, Protocol):
    """Build: what a gang scheduler wants on the pods."""

    def enforce_pod_group_policy(self, info: Info, ctx: Context) -> None:
        """Change *info*."""


@runtime_checkable
class EnforceMLPolicy(Plugin, Protocol):
    """Build: pod counts, and how the framework finds its peers."""

    def enforce_ml_policy(self, info: Info, ctx: Context) -> None:
        """Change *info*."""


@runtime_checkable
class EnforcePodSpec(Plugin, Protocol):
    """Build: anything else in pod specs, after the ML policy."""

    def enforce_pod_spec(self, info: Info, ctx: Context) -> None:
        """Change *info*."""


@runtime_checkable
class PodNetwork(Plugin, Protocol):
    """Build: the host names of the pods, once their counts are final."""

    def pod_network(self, info: Info, ctx: Context) -> None:
        """Set `endpoints` of the pod sets."""


@runtime_checkable
class ComponentBuilder(Plugin, Protocol):
    """Build: the objects."""

    def build(self, info: Info, ctx: Context) -> Sequence[Component]:
        """Return the objects to apply, complete: a field left out of a later build is removed from the object."""


@runtime_checkable
class TerminalCondition(Plugin, Protocol):
    """PostExecution: whether the job has ended."""

    def terminal_condition(self, job: TrainJob, ctx: Context) -> Condition | None:
        """Return `Complete` or `Failed` if the job's own child says so, else None."""


@runtime_checkable
class Status(Plugin, Protocol):
    """PostExecution: how far the job is."""

    def jobs_status(self, job: TrainJob, ctx: Context) -> tuple[JobStatus, ...] | None:
        """Return the counters of the replicated jobs; None if there is nothing to read them from."""


EXTENSION_POINTS: tuple[type, ...] = (
    WatchExtension,
    CustomValidation,
    EnforcePodGroupPolicy,
    EnforceMLPolicy,
    EnforcePodSpec,
    PodNetwork,
    ComponentBuilder,
    TerminalCondition,
    Status,
)
