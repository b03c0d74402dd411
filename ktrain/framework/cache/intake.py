"""
From the lines of a watch to the sink: what each event means.

- An object of another kind, a `Table`, or an event of a type nobody knows is logged and skipped; the stream goes on.
- An object that cannot be read, or that a transform fails on, leaves the sink: nobody may act on a copy known to be
  out of date. It costs itself only.
- Initial events (a streaming list) come in no order of versions. They are gathered and handed out as one content when
  the bookmark says that they are complete; the version to go on from is the bookmark's.
- The version to resume from moves with every event and bookmark; a DELETED event carries that of the deletion. Only if
  a watch began without any version, its leading ADDED events come in no order either and do not move it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

import structlog

from ktrain.api.meta import ObjectMeta
from ktrain.framework.client.codec import INITIAL_EVENTS_END, BadObject, codec_for, kind_of, metadata_of
from ktrain.framework.errors import Status, error_from_status

from .listing import Content
from .record import MAX_BAD
from .replays import version_number

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from ktrain.api.meta import Key, Resource
    from ktrain.framework.errors import FrameworkError

    from .names import Names
    from .record import WatchRecord

T = TypeVar("T")

Transform = Callable[[T], T]
"""Makes of an object the one to keep, for example without large annotations. Runs once per object; it must be pure,
and keep the metadata that says which object, and which state of it, this is."""

Holds = Callable[[T], bool]
"""Says of an object, as it comes, whether it is to be held. Runs for every state of every object; it must be pure."""

CHANGES: Final = ("ADDED", "MODIFIED", "DELETED")

log: FilteringBoundLogger = structlog.get_logger("ktrain.framework.cache")


class Taken(Enum):
    """What a line was."""

    EVENT = auto()
    BOOKMARK = auto()
    INITIAL_END = auto()
    """The bookmark that completes the initial events: `content` is to be installed."""


class Sink(Protocol[T]):
    """Where content goes. Calls that do not wait take effect at once; none raises."""

    async def replace(self, objects: dict[Key, T], version: int, left_out: Names | None = None) -> None:
        """Make this, which is the sink's from now on, the whole content."""

    def put(self, key: Key, obj: T, version: int) -> None:
        """Add or change an object."""

    def leave_out(self, key: Key, version: int) -> None:
        """Hold an object no more, or not at all, although it is there."""

    def remove(self, key: Key, last: T | None, version: int) -> None:
        """Remove an object; `last` is its final state, if it could be read and was to be held."""

    def reached(self, version: int) -> None:
        """The content is complete up to this version."""

    def failed(self, error: FrameworkError) -> None:
        """The API server cannot be followed at the moment (`KindMissing`: it has no such kind); it is tried again."""


class Intake(Generic[T]):
    """The position in the history of one kind, and the way in. Lives as long as its reflector."""

    def __init__(
        self,
        resource: Resource[T],
        sink: Sink[T],
        record: WatchRecord,
        *,
        transform: Transform[T] | None = None,
        holds: Holds[T] | None = None,
    ) -> None:
        self.version: str = ""
        """Where a watch resumes, or what a list must not be older than."""
        self.content: Content[T] | None = None
        """Initial events so far; None once the content is installed."""
        self.delivered: bool = False
        """Whether the present stream brought anything new, if only a bookmark."""
        self._resource = resource
        self._codec = codec_for(resource)
        self._sink = sink
        self._record = record
        self._transform = transform
        self._holds = holds
        self._unordered = False

    def begin(self, *, resumed: bool) -> None:
        """Prepare for a new stream: one that goes on from `version`, or one that begins with initial events."""
        self.content = None if resumed else Content()
        self.delivered = False
        self._unordered = resumed and version_number(self.version) == 0

    def take(self, line: bytes) -> Taken:
        """
        Take one line in.

        Raises:
            ApiError: The line is an ERROR event.
            DecodeError: The line is no event: the stream was cut in the middle of it.
        """
        event, payload = self._codec.decode_event(line)
        if isinstance(payload, Status):
            raise error_from_status(payload, method="WATCH", path=self._resource.path())
        if isinstance(payload, ObjectMeta):
            return self._take_bookmark(payload)
        if event not in CHANGES:
            log.warning("watch.event_skipped", resource=self._resource.qualified_name, type=event)
        elif isinstance(payload, BadObject):
            self._take_bad(payload, deleted=event == "DELETED")
        elif (kind := kind_of(payload)) != self._resource.kind:
            log.warning("watch.event_skipped", resource=self._resource.qualified_name, kind=kind)
        else:
            self._take_object(event, payload)
        return Taken.EVENT

    def note(self, content: Content[T]) -> None:
        """Note which objects of a whole content cannot be read."""
        self._record.bad.clear()
        for number, bad in enumerate(content.bad.values()):
            if number < MAX_BAD:
                self._note_bad(bad, deleted=False)
            else:
                self._record.unreadable(bad)
        if len(content.bad) > MAX_BAD:
            log.error("objects.unreadable", resource=self._resource.qualified_name, objects=len(content.bad))

    def kept(self, obj: T) -> T | BadObject | None:
        """The object as it is to be held; None if it is not to be."""
        if self._holds is not None:
            try:
                if not self._holds(obj):
                    return None
            except Exception as error:  # noqa: BLE001 - the boundary to other people's code
                meta = metadata_of(obj)
                return BadObject(meta.key, f"whether to hold it cannot be told: {error!r}", meta.resource_version)
        return obj if self._transform is None else self._transformed(obj, self._transform)

    def _transformed(self, obj: T, transform: Transform[T]) -> T | BadObject:
        before = metadata_of(obj)
        try:
            changed = transform(obj)
            after = metadata_of(changed)
        except Exception as error:  # noqa: BLE001 - the boundary to other people's code
            return BadObject(before.key, f"the transform failed: {error!r}", before.resource_version)
        # Without these nobody could tell one state of an object from another, or from its successor.
        for name in ("namespace", "name", "uid", "resource_version"):
            if getattr(before, name) != getattr(after, name):
                return BadObject(before.key, f"the transform changed metadata.{name}", before.resource_version)
        return changed

    def _take_object(self, event: str, obj: T) -> None:
        meta = metadata_of(obj)
        key = meta.key
        kept: T | None = obj
        if self._transform is not None or self._holds is not None:
            found = self.kept(obj)
            if isinstance(found, BadObject):
                self._take_bad(found, deleted=event == "DELETED")
                return
            kept = found
        if self.content is not None:
            self.content.add(key, kept, deleted=event == "DELETED")
            return
        self._record.readable(key)
        number = version_number(meta.resource_version)
        self._move(event, meta.resource_version, number)
        if event == "DELETED":
            self._sink.remove(key, kept, number)
        elif kept is None:
            self._sink.leave_out(key, number)
        else:
            self._sink.put(key, kept, number)

    def _take_bookmark(self, meta: ObjectMeta) -> Taken:
        if self.content is not None:
            if meta.annotations.get(INITIAL_EVENTS_END) != "true":
                return Taken.BOOKMARK
            self.content.resource_version = meta.resource_version
            return Taken.INITIAL_END
        number = version_number(meta.resource_version)
        if 0 < number < version_number(self.version):
            return Taken.EVENT  # sent before, and now once more: no sign that this stream is alive
        self.delivered = True
        self._unordered = False
        self.version = meta.resource_version
        self._sink.reached(number)
        return Taken.BOOKMARK

    def _take_bad(self, bad: BadObject, *, deleted: bool) -> None:
        if self.content is not None:
            self.content.add_bad(bad, deleted=deleted)
            return
        self._note_bad(bad, deleted=deleted)
        number = version_number(bad.resource_version)
        self._move("DELETED" if deleted else "MODIFIED", bad.resource_version, number)
        self._sink.remove(bad.key, None, number)

    def _note_bad(self, bad: BadObject, *, deleted: bool) -> None:
        log.error(
            "object.unreadable",
            resource=self._resource.qualified_name,
            key=str(bad.key),
            reason=bad.reason,
            deleted=deleted,
        )
        if deleted:
            self._record.readable(bad.key)
        else:
            self._record.unreadable(bad)

    def _move(self, event: str, version: str, number: int) -> None:
        self._unordered = self._unordered and event == "ADDED"
        if not version or self._unordered:
            return
        if not 0 < number <= version_number(self.version):  # not back, for what comes a second time
            self.version = version
            self.delivered = True
