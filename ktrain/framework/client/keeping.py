"""
What a decoded object is kept as: with nothing that is not its own, and holding together with others what is alike.

Two things are done here that msgspec leaves to its users. A `msgspec.Raw` field is a view that keeps the whole answer
alive, so every one is copied out: a cached object of 1 KB must not pin a page of 5 MB. And what many objects have alike
is there once: metadata by its nature, other fields where their types say so (`Alike`). That is half of the memory of a
TrainJob and its JobSet. Of equal strings and of equal parts the first is taken. Strings go with their last user; parts
are remembered for as long as they are among the last that were seen. Anybody may write parts of any size, so of large
ones everybody keeps his own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache
from sys import intern
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import inspect

from ktrain.api.meta import ALIKE, NOTHING

if TYPE_CHECKING:
    from ktrain.api.meta import ObjectMeta

Keep = Callable[[Any], Any]
"""Makes of a decoded value the one to keep; the types vary with the declaration, hence `Any`."""

MAX_PARTS: Final = 512
"""There are about as many different parts as there are runtimes, and sizes of jobs on each."""
MAX_PART_BYTES: Final = 1024
"""As JSON. An owner takes some 200, the counters of a replicated job 100."""


def keeper(type_: type) -> Keep | None:
    """Compile what is to be done to decoded values of a type; None if there is nothing to do."""
    return None if type_ is dict else _keep(inspect.type_info(type_))


def share(metadata: ObjectMeta) -> None:
    """
    Have objects hold together what is the same in many: their namespace, their owner, and having no labels.

    A third of the memory of an object without a spec. An owner's UID and name are also those of the owner itself.
    """
    put = msgspec.structs.force_setattr  # frozen only for those who have not seen it yet: nobody has
    put(metadata, "namespace", intern(metadata.namespace))
    put(metadata, "name", intern(metadata.name))
    put(metadata, "uid", intern(metadata.uid))
    if not metadata.labels:
        put(metadata, "labels", NOTHING)
    if not metadata.annotations:
        put(metadata, "annotations", NOTHING)
    if metadata.owner_references:
        for owner in metadata.owner_references:
            for name in _NAMES_OF_OWNERS:
                put(owner, name, intern(getattr(owner, name)))
        put(metadata, "owner_references", _part(metadata.owner_references))


def _keep(info: inspect.Type) -> Keep | None:  # noqa: PLR0911 - one line per shape
    match info:
        case inspect.Metadata(type=inner) if info.extra == ALIKE:
            return _first_equal(inner)
        case inspect.RawType():
            return msgspec.Raw.copy
        case inspect.StructType(fields=fields):
            inside = [(f.name, keep) for f in fields if (keep := _keep(f.type)) is not None]
            return _in_fields(inside) if inside else None
        case inspect.ListType(item_type=item):
            return _in_items(_keep(item), list)
        case inspect.VarTupleType(item_type=item):
            return _in_items(_keep(item), tuple)
        case inspect.DictType(value_type=item):
            return _in_values(_keep(item))
        case inspect.UnionType(types=types):
            # A union has at most one type with something to do, beside None or UNSET; msgspec allows no other.
            return _if_there(next((keep for t in types if (keep := _keep(t)) is not None), None))
    return None


def _first_equal(info: inspect.Type) -> Keep:
    return intern if isinstance(info, inspect.StrType) else _part


def _part(part: Hashable) -> Hashable:
    return _first(part) if len(_JSON.encode(part)) <= MAX_PART_BYTES else part


@lru_cache(maxsize=MAX_PARTS)
def _first(part: Hashable) -> Hashable:
    return part


def _in_items(keep: Keep | None, container: type[list[Any]] | type[tuple[Any, ...]]) -> Keep | None:
    return None if keep is None else lambda items: container(map(keep, items))


def _in_values(keep: Keep | None) -> Keep | None:
    return None if keep is None else lambda mapping: {name: keep(value) for name, value in mapping.items()}


def _if_there(keep: Keep | None) -> Keep | None:
    return None if keep is None else lambda value: value if value is None or value is msgspec.UNSET else keep(value)


def _in_fields(fields: list[tuple[str, Keep]]) -> Keep:
    def keep_fields(value: msgspec.Struct) -> msgspec.Struct:
        # Frozen only for those who have not seen it yet: nobody has.
        for name, keep in fields:
            msgspec.structs.force_setattr(value, name, keep(getattr(value, name)))
        return value

    return keep_fields


_JSON: Final = msgspec.json.Encoder()
_NAMES_OF_OWNERS: Final = ("api_version", "kind", "name", "uid")
