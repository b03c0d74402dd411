"""
From the bytes of an answer to objects, once and in one pass.

One object that does not fit the declared type, or is nested deeper than msgspec descends, must not hide its neighbours:
it is reported as a `BadObject`, and the rest go on. What these are kept as, `keeping` says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

import msgspec

from ktrain.api.meta import Json, Key, Object, ObjectMeta, Resource, Struct
from ktrain.framework.deepjson import cut
from ktrain.framework.errors import DecodeError, Status

from .keeping import keeper, share
from .models import decoding_hook, object_meta

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"

UNFIT: Final = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)
"""What a decoder raises at a document that is not JSON or not UTF-8, does not fit, or is nested too deeply."""

_METADATA_ONLY: Final = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1,application/json"
_METADATA_KIND: Final = "PartialObjectMetadata"
_KEY_LEVELS: Final = 16
"""Metadata lies well above this level, so an object cut off below it still says which one it is."""


class Event(msgspec.Struct, Generic[T], gc=False):
    """One line of a watch."""

    type: str
    object: T


class ListMeta(Struct, frozen=True):
    """Metadata of a list. Watches start from its version, never from an item's."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class RawPage(Struct, frozen=True):
    """A page of a list whose items are not decoded yet."""

    metadata: ListMeta = ListMeta()
    items: tuple[msgspec.Raw, ...] | None = ()
    """Go writes an empty list of metadata as null."""


@dataclass(frozen=True, slots=True)
class BadObject:
    """An object that does not fit the declared type: which one, and what is wrong with it."""

    key: Key
    reason: str
    resource_version: str = ""
    """Of this state of the object, if so much of it can be read."""


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One decoded page of a list."""

    items: list[T]
    bad: list[BadObject]
    resource_version: str
    continue_token: str


def metadata_of(obj: object) -> ObjectMeta:
    """Metadata of a typed object, or of one decoded to a dict."""
    if isinstance(obj, dict):
        return msgspec.convert(obj.get("metadata") or {}, ObjectMeta)
    # Not by `cast`, which is a call: every event comes here a dozen times.
    found = obj.metadata  # type: ignore[attr-defined]
    return found if isinstance(found, ObjectMeta) else object_meta(found)


def kind_of(obj: object) -> str:
    """The kind of a typed object, or of one decoded to a dict."""
    return str(obj.get("kind")) if isinstance(obj, dict) else cast("Object", obj).kind


class Codec(Generic[T]):
    """Decodes answers about one resource. Make them with `codec_for`, which keeps one per resource."""

    def __init__(self, resource: Resource[T]) -> None:
        self._resource = resource
        self._api_version = resource.api_version
        self._kind = resource.kind
        self._kinds = ("", resource.kind, _METADATA_KIND)
        hook = decoding_hook(resource.type)
        self._object = msgspec.json.Decoder(resource.type, dec_hook=hook)
        self._event: msgspec.json.Decoder[Event[T]] = msgspec.json.Decoder(Event[resource.type], dec_hook=hook)  # type: ignore[name-defined]  # the type is a value here
        self._keep = keeper(resource.type) if hook is None else self._named

    def decode(self, body: bytes | msgspec.Raw) -> T:
        """
        Decode one object.

        Raises:
            DecodeError: The body is not JSON, or does not fit the type; the text has the path of the field.
        """
        try:
            return self._finish(self._object.decode(body))
        except UNFIT as error:
            raise DecodeError(f"a {self._resource.kind} from the API server cannot be read: {error}") from error

    def decode_page(self, body: bytes) -> Page[T]:
        """Decode one page of a list. Items that do not fit are in `bad`, not raised; a body that is no list is."""
        metadata, raws = self.split_page(body)
        items: list[T] = []
        bad: list[BadObject] = []
        for raw in raws:
            item = self.decode_item(raw)
            if isinstance(item, BadObject):
                bad.append(item)
            else:
                items.append(item)
        return Page(items, bad, metadata.resource_version, metadata.continue_)

    def split_page(self, body: bytes) -> tuple[ListMeta, Sequence[bytes | msgspec.Raw]]:
        """
        Find the items of a page without decoding them: for those who take turns between items.

        Raises:
            DecodeError: The body is no list.
        """
        try:
            return _split_page(body)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise DecodeError(f"a list of {self._resource.plural} cannot be read: {error}") from error

    def decode_item(self, raw: bytes | msgspec.Raw) -> T | BadObject:
        """Decode one item of a page."""
        try:
            return self._finish(self._object.decode(raw))
        except UNFIT as error:
            return _bad(raw, error)

    def decode_event(self, line: bytes) -> tuple[str, T | ObjectMeta | Status | BadObject]:
        """
        Decode one line of a watch: the event's type, and what it is about.

        ADDED, MODIFIED and DELETED carry the object; BOOKMARK its metadata; ERROR the Status. An object that does not
        fit comes as a `BadObject`, a deleted one as far as its metadata goes.

        Raises:
            DecodeError: The line is no event at all.
        """
        try:
            event = self._event.decode(line)
        except UNFIT as error:
            return _decode_unfit(line, error)
        if event.type == "BOOKMARK" or event.type == "ERROR":  # noqa: PLR1714 - faster than a set on the hot path
            return _decode_unfit(line, None)
        return event.type, self._finish(event.object)

    def _finish(self, obj: T) -> T:
        if self._keep is not None:
            obj = self._keep(obj)
        # Items of a list come without the two fields that say what they are, metadata alone with those of another kind.
        # What is right already is set too: ten thousand objects share one string each instead of having their own.
        if isinstance(obj, dict):
            obj.setdefault("apiVersion", self._resource.api_version)
            obj.setdefault("kind", self._resource.kind)
        elif isinstance(obj, Object) and obj.kind in self._kinds:
            msgspec.structs.force_setattr(obj, "api_version", self._api_version)
            msgspec.structs.force_setattr(obj, "kind", self._kind)
            share(obj.metadata)
        return obj

    def _named(self, model: Any) -> T:  # noqa: ANN401 -- of any class of the package
        model.api_version, model.kind = self._api_version, self._kind
        return cast("T", model)


def codec_for(resource: Resource[T]) -> Codec[T]:
    """Return the codec of a resource; building one inspects the type, so it is done once."""
    found: Codec[T] | None = _codecs.get(resource)
    if found is None:
        found = _codecs[resource] = Codec(resource)
    return found


def accept_header(resource: Resource[Any], *, many: bool = False) -> dict[str, str]:
    """
    The Accept header for reading one object, a watch, or a list (`many`).

    Whoever declares a resource as plain `Object` reads metadata only, so no more than that is asked for: a Secret seen
    that way never leaves the API server. Servers that cannot (aggregated ones) answer with whole objects.
    """
    if resource.type is not Object:
        return {"Accept": "application/json"}
    return {"Accept": _METADATA_ONLY.format("List" if many else "")}


def _split_page(body: bytes) -> tuple[ListMeta, Sequence[bytes | msgspec.Raw]]:
    """Metadata of a list, and its items as they are."""
    try:
        page = _PAGE.decode(body)
    except RecursionError:
        # msgspec finds the end of an item by recursion too.
        shallow, items = cut(body, _LEVELS_OF_PAGE)
        return _PAGE.decode(shallow).metadata, items
    return page.metadata, page.items or ()


def _decode_unfit(line: bytes, error: Exception | None) -> tuple[str, ObjectMeta | Status | BadObject]:
    if isinstance(error, RecursionError):
        line, _ = cut(line, _KEY_LEVELS)
    try:
        event = _RAW_EVENT.decode(line)
        if event.type == "ERROR":
            return event.type, msgspec.json.decode(event.object, type=Status)
        if event.type == "BOOKMARK":
            return event.type, _METADATA.decode(event.object).metadata
    except (msgspec.MsgspecError, UnicodeDecodeError) as malformed:
        raise DecodeError(f"a line of a watch cannot be read: {malformed}") from malformed
    return event.type, _bad(event.object, error)


def _bad(raw: bytes | msgspec.Raw, error: Exception | None) -> BadObject:
    """Find out as much of which object it is as can be read."""
    try:
        meta = _METADATA.decode(raw).metadata
    except RecursionError:
        return _bad(cut(bytes(raw), _KEY_LEVELS)[0], error)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        pass  # What is wrong is its metadata: its name is looked for without types.
    else:
        return BadObject(meta.key, str(error), meta.resource_version)
    try:
        document: Json = msgspec.json.decode(raw)
        key = Key(str(document["metadata"].get("namespace", "")), str(document["metadata"]["name"]))
    except (*UNFIT, KeyError, TypeError, AttributeError):
        key = Key("", "?")
    return BadObject(key, str(error))


# One codec per resource for the life of the process; resources are constants, so this does not grow.
_codecs: Final[dict[Resource[Any], Codec[Any]]] = {}
_PAGE: Final = msgspec.json.Decoder(RawPage)
_LEVELS_OF_PAGE: Final = 2
"""The list, and its metadata or its array of items; an item is the third level."""
_RAW_EVENT: Final = msgspec.json.Decoder(Event[msgspec.Raw])
_METADATA: Final = msgspec.json.Decoder(Object)
