"""
Components on their way to the API server: which of them are to be written, and what may not be.

What a cache shows may be late, and an apply takes what it finds: unforced, it would add our owner reference to an
object that somebody else has made meanwhile, and with the TrainJob that object would be collected. So each write says
what it is about: an object that is there, by its UID, or none. If the server has another, it refuses, and the next pass
sees what there is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import msgspec

from ktrain.api.meta import Key
from ktrain.pipeline.errors import PlanError
from ktrain.pipeline.points import ApplyWhen, Removal

if TYPE_CHECKING:
    from ktrain.api.meta import Json, JsonValue, Object
    from ktrain.pipeline import Component

    from .observe import Observed

_MAX_BYTES: Final = 3 * 512 * 1024
"""
What etcd takes in one request. The API server says of more that it is too large, and not what to do about it.

It also stores who set which field, which for many short fields is as much again: see `refusals`.
"""
ADVICE: Final = "move what is long (variables, arguments, patches) from the TrainJob or its runtime into ConfigMaps"
_NO_VERSION: Final = "1"
"""
A version that no object has: storage has used it up before it takes the first. An apply that names it only creates.

A POST would do so, too; but what a POST set belongs to another entry of `managedFields` than what is applied later, and
would stay when a later build leaves it out.
"""
_RECORDS: Final = ("managedFields", "resourceVersion", "generation")
_UNWATCHED: Final = (
    "{0} cannot be written, because {1} are not watched: the cluster does not serve them, or does not let the operator"
    " list them, or the plugin that builds it does not say that it does; mend that and restart the operator"
)


@dataclass(frozen=True, slots=True)
class Apply:
    """A component to write: over the one of this `uid`, which is ours, or where there is none."""

    component: Component
    key: Key
    digest: bytes
    uid: str = ""
    patches: tuple[Json, ...] = ()
    """What the TrainJob patches of JobSets, in the order in which that applies."""

    @property
    def identity(self) -> str:
        """Kind and name, for people."""
        return f"{self.component.resource.kind}/{self.key.name}"

    @property
    def memory_key(self) -> str:
        """What tells it from the job's other components: three groups have a kind called PodGroup."""
        return f"{self.component.resource.qualified_name}/{self.key.name}"

    @property
    def exists(self) -> bool:
        """Whether it is there and ours; only then may fields be taken from others."""
        return bool(self.uid)

    def over(self, existing: Object) -> Apply:
        """Return the same, for a component that is there and ours."""
        return replace(self, uid=existing.metadata.uid)

    def guarded(self, body: Json) -> Json:
        """Return what to send, such that it is refused if it would meet another object than the one we know of."""
        known = {"uid": self.uid} if self.uid else {"resourceVersion": _NO_VERSION}
        return body | {"metadata": body["metadata"] | known}

    @classmethod
    def of(cls, component: Component) -> Apply:
        """
        Address a component.

        Raises:
            PlanError: It is larger than anything that can be stored, or no JSON.
        """
        meta = component.body["metadata"]
        identity = f"{component.resource.kind}/{meta['name']}"
        try:
            body = msgspec.json.encode(component.body)
        except (TypeError, ValueError, RecursionError) as error:
            why = f"the plugin that builds it made no JSON: {error}"
            raise PlanError(f"{identity} cannot be written, because {why}") from error
        if len(body) > _MAX_BYTES:
            size = f"{len(body)} bytes, and at most {_MAX_BYTES} can be stored"
            raise PlanError(f"{identity} would have {size}; {ADVICE}")
        digest = blake2b(body, digest_size=16).digest()
        return cls(component, Key(meta.get("namespace", ""), meta["name"]), digest)


def is_same(live: Json, written: Json) -> bool:
    """Whether a write changes nothing but who wrote what and when."""
    return _settled(live) == _settled(written)


def _settled(obj: Json) -> Json:
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _RECORDS}
    settled: Json = _without_empty_metadata(obj | {"metadata": metadata})
    return settled


def _without_empty_metadata(value: JsonValue) -> JsonValue:
    """Templates that Go's Trainer wrote have `metadata: {}` where ours have none, which means the same."""
    if isinstance(value, list):
        return [_without_empty_metadata(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: _without_empty_metadata(part) for key, part in value.items() if key != "metadata" or part}


class Writing:
    """What to write of a plan, component by component."""

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self.is_held = False
        """Whether the rest has to wait: for an object that has to come, or to go, first. Its event wakes the job."""
        self.held_by: list[tuple[str, Object]] = []
        """What is being deleted, with its kind and name."""
        self.applies: list[Apply] = []
        self.removals: list[Removal] = []
        self.unknown: list[Apply] = []

    def add(self, apply: Apply) -> None:
        """
        Decide about one component.

        Raises:
            PlanError: It cannot be written: nobody watches its kind, or somebody else's object has its name.
        """
        component, observed = apply.component, self._observed
        if component.resource not in observed.kinds:
            raise PlanError(_UNWATCHED.format(apply.identity, component.resource.qualified_name))
        existing = observed.context.lookup(component.resource, apply.key)
        if existing is None:
            if not self.is_held:
                self.applies.append(apply)
            self.is_held |= component.awaited
        elif not existing.metadata.is_controlled_by(observed.job.metadata.uid):
            raise PlanError(f"{apply.identity} exists and is not this TrainJob's, so it is left alone; rename either")
        elif existing.metadata.deletion_timestamp:
            self.is_held = True
            self.held_by.append((apply.identity, existing))
        elif component.replaces:
            self.is_held = True
            self.removals.append(Removal.of(component.resource, existing))
        elif component.when is not ApplyWhen.ABSENT and not self.is_held:
            self._again(apply.over(existing), existing)

    def _again(self, apply: Apply, existing: Object) -> None:
        generation = existing.metadata.generation
        known = self._observed.memory.applied.get(apply.memory_key)
        if known is None or known.generation != generation:
            self.unknown.append(apply)
        if known is None or known != (apply.digest, generation):
            self.applies.append(apply)
