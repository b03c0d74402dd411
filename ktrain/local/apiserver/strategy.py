"""
What is special about a kind: the hooks that `verbs/` call at fixed points of every write.

The order is the API machinery's: decode, prune, `default`, managedFields, mutating admission, `default` again,
`prepare_*` (server-set fields), validation, validating admission, commit. `obj` belongs to the request and may be
changed in place; `old` is the stored object and may not.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

from ktrain.local.apiserver import names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause
    from ktrain.local.apiserver.backend import Backend
    from ktrain.local.apiserver.registry import ServedResource

Propagation = Literal["Background", "Foreground", "Orphan"]


@dataclass(frozen=True, slots=True)
class Part:
    """What a write to a subresource may do. Both are given the object as the client has it, and as it is stored."""

    restrict: Callable[[Json, Json], Json]
    """Returns the stored object with what the subresource is for."""
    validate: Callable[[Json, Json], Iterable[Cause]]
    """Returns what is wrong with the change, besides what `Strategy.validate` finds."""


class Strategy:
    """How an ordinary kind behaves; others override parts of it. Stateless and shared by all servers."""

    has_generation: bool = True
    unconditional_update: bool = True
    """Whether PUT without a resourceVersion overwrites whatever is stored."""
    qualified_finalizers: bool = True
    """Whether finalizers need a domain. Of the other kinds, custom ones are warned of those without."""
    create_on_update: bool = False
    """Whether PUT creates a missing object."""
    answers_deleted_object: bool = False
    """Whether DELETE answers the object also when it is gone."""
    shows_deletion: bool = False
    """Whether what DELETE answers has the time of deletion also when the object is gone: kinds with a grace period."""
    default_propagation: Propagation = "Background"
    collects: bool = True
    """Whether a deletion asks the garbage collector for anything: nothing depends on some kinds."""
    deletion_warning: str = ""
    """Said when a deletion without a policy falls back to `default_propagation`."""
    status_on_create: bool = False
    """Whether a new object may bring its status, as a node does that comes by itself."""
    empty: Json = {}
    """What typed encoding writes in a new object, besides structs: nobody owns it unless it is changed."""
    kept_by_status: tuple[str, ...] = ()
    """What of metadata a write to `/status` leaves alone; upstream's typed kinds let most of it be written there."""
    immutable_status: bool = True
    """Whether writes to the main URL leave status alone, as they do when there is a status subresource."""

    parts: Mapping[str, Part] = MappingProxyType({})
    """The kind's own subresources through which a part of an object is written."""

    converts: bool = False
    """Whether objects are stored in another form than they are served in."""

    def to_storage(self, obj: Json) -> Json:
        """Return the form to store. Only called if the kind `converts`."""
        return obj

    def from_storage(self, obj: Json) -> Json:
        """Return the form to serve. Must not change its argument."""
        return obj

    def check_name(self, name: str, *, prefix: bool = False) -> list[str]:
        """Return what is wrong with a name (or with a generateName, if `prefix`)."""
        return names.subdomain(name, prefix=prefix)

    def check_types(self, obj: Json) -> str:
        """Return the decoder's complaint about a value that the schema cannot catch, or nothing."""
        return ""

    def default(self, obj: Json) -> None:
        """Fill in what the kind defaults. Idempotent."""

    def admit(self, obj: Json, old: Json | None, backend: Backend) -> None:
        """
        Do what built-in admission does; raise StatusError to refuse. `old` is None on create.

        Called before webhooks, and again if they changed the object: what was done before must stay as it is.
        """

    def judge(self, resource: ServedResource, obj: Json, old: Json | None, backend: Backend) -> None:
        """Refuse, by StatusError, what built-in admission refuses of an object that is final and valid otherwise."""

    def prepare_create(self, obj: Json, backend: Backend) -> None:
        """Set the fields that the server owns; uid, name and creationTimestamp are there."""

    def prepare_update(self, obj: Json, old: Json, backend: Backend) -> None:
        """Restore or set the fields that the server owns."""

    def validate(self, obj: Json) -> Sequence[Cause]:
        """Return what is wrong with an object, whether new or changed."""
        return ()

    def validate_create(self, obj: Json) -> Sequence[Cause]:
        """Return what a new object may not have yet."""
        return ()

    def validate_update(self, obj: Json, old: Json) -> Sequence[Cause]:
        """Return what may not change the way it did."""
        return ()

    def validate_status(self, obj: Json, old: Json) -> Sequence[Cause]:
        """Return what is wrong with a write to the status subresource."""
        return ()

    def warn(self, obj: Json) -> Sequence[str]:
        """
        Return what the client should know about an object that is new, or of another generation than it was.

        Called before `prepare_create`: what the server fills in by itself is nobody's mistake.
        """
        return ()

    def grace_seconds(self, obj: Json, asked: int | None) -> int:
        """Return how long the object stays after DELETE for somebody else to finish with it."""
        return 0

    def may_delete(self, obj: Json) -> None:
        """Raise StatusError if this object may never be deleted."""

    def mark_deleted(self, obj: Json) -> None:
        """Change an object whose deletion begins, beyond its metadata: a finalizer of the kind, a phase."""

    def holds(self, obj: Json) -> bool:
        """Whether something besides finalizers and grace keeps a deleted object (a namespace's content does)."""
        return False

    def spec_changed(self, obj: Json, old: Json) -> bool:
        """Whether the generation goes up: anything outside metadata (and status) changed."""
        ignored = {"metadata", "status"} if self.immutable_status else {"metadata"}
        return any(obj.get(k) != old.get(k) for k in (obj.keys() | old.keys()) - ignored)


WHOLE_METADATA: Final = ("labels", "annotations", "finalizers", "ownerReferences")
"""`kept_by_status` of newer built-in kinds. Custom ones keep all of it but who manages what."""

ORDINARY = Strategy()
