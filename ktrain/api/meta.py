"""
What every Kubernetes object has: metadata, owners, conditions; and `Resource`, which says where objects of a kind live.

Structs are narrow: they declare what ktrain reads, and decoding skips the rest. They are frozen and exempt from the
garbage collector (`gc=False`): caches hold many of them, they form no cycles, and nobody may change them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Generic, NamedTuple, NoReturn, TypeAlias, TypeVar
from urllib.parse import quote

import msgspec

T = TypeVar("T")

Json = dict[str, Any]
"""A decoded JSON object. `Any` because this is the JSON edge: anything may be inside."""

JsonValue: TypeAlias = Any
"""Any decoded JSON value: dict, list, str, int, float, bool or None."""


ALIKE: Final = {"alike": True}
Alike = Annotated[T, msgspec.Meta(extra=ALIKE)]
"""A string, or a part that can be hashed, that many objects have alike: of equal ones caches hold one."""


class Struct(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """Base of all wire types: immutable, unknown fields skipped, camelCase on the wire."""


class Key(NamedTuple):
    """Where one object of a kind lives. `namespace` is empty for cluster-scoped kinds."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class OwnerReference(Struct, frozen=True):
    """One owner of an object. Only `uid` proves ownership; names are reused."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class Nothing(dict[str, str]):
    """The labels of what has none: one mapping for all objects, so nobody can write to it. `|` makes one of its own."""

    __slots__ = ()

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("labels and annotations of objects are shared by many: make a new dict instead")

    __setitem__ = _refuse
    __ior__ = _refuse
    setdefault = _refuse
    update = _refuse


NOTHING: Final = Nothing()


class ObjectMeta(Struct, frozen=True):
    """The part of metadata that ktrain reads. `managedFields` is not declared, so it never reaches memory."""

    name: str = ""
    namespace: str = ""
    generate_name: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = NOTHING
    annotations: dict[str, str] = NOTHING
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return Key(self.namespace, self.name)

    @property
    def controller(self) -> OwnerReference | None:
        """The reference marked `controller: true`; the API server allows at most one."""
        return next((ref for ref in self.owner_references if ref.controller), None)

    def is_controlled_by(self, uid: str) -> bool:
        """Whether the object with this UID controls this one. Names and labels prove nothing."""
        return any(ref.controller and ref.uid == uid for ref in self.owner_references)


class Object(Struct, frozen=True):
    """Any object, by its metadata only. Base of all kinds."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return self.metadata.key


class Condition(Struct, frozen=True):
    """One entry of `status.conditions` (metav1.Condition; Jobs and Pods use the same fields)."""

    type: Alike[str]
    status: Alike[str] = "Unknown"
    reason: Alike[str] = ""
    message: Alike[str] = ""
    last_transition_time: datetime | None = None
    observed_generation: int | None = None

    @property
    def is_true(self) -> bool:
        """Whether the status is the word `True`."""
        return self.status == "True"


def find_condition(conditions: tuple[Condition, ...], type_: str) -> Condition | None:
    """Return the condition of this type, or None."""
    return next((c for c in conditions if c.type == type_), None)


def condition_json(condition: Condition) -> Json:
    """Write a condition out, with all its fields but a time that is not known: the schemas want them, empty or not."""
    when, generation = condition.last_transition_time, condition.observed_generation
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        **({"lastTransitionTime": format_time(when)} if when else {}),
        **({} if generation is None else {"observedGeneration": generation}),
    }


def is_condition_true(conditions: tuple[Condition, ...], type_: str) -> bool:
    """Whether a condition of this type exists and is True."""
    return any(c.type == type_ and c.status == "True" for c in conditions)


@dataclass(frozen=True, slots=True)
class Resource(Generic[T]):
    """
    A kind as the API server serves it, and the type its objects decode to.

    `group` is empty for the core group. Two resources may name the same kind with different types, for example a
    metadata-only view (`Object`) beside the full one.
    """

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    type: type[T]

    @property
    def api_version(self) -> str:
        """`group/version`, or just the version in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified_name(self) -> str:
        """`plural.group`, as error messages and RBAC print it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """URL path of the collection, of one object, or of a subresource. Without a namespace: all namespaces."""
        parts = [f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"]
        if namespace and self.namespaced:
            parts.append(f"namespaces/{quote(namespace, safe='')}")
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=""))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


def owner_reference(api_version: str, kind: str, name: str, uid: str) -> Json:
    """Build the controller reference that generated objects carry."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def format_time(when: datetime) -> str:
    """RFC 3339 with whole seconds and `Z`, the only form that `metav1.Time` fields round-trip."""
    return f"{when.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='seconds')}Z"


def format_micro_time(when: datetime) -> str:
    """RFC 3339 with exactly six digits of a second, as Lease and Event (`metav1.MicroTime`) require."""
    return f"{when.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
