"""
From bytes to the object's JSON form, by the tables.

The envelope is `k8s\\0` and a `runtime.Unknown`: apiVersion and kind, then the kind's message as bytes. Go writes every
scalar that is no pointer, also a zero, and JSON leaves most zeros out; so what was written is not what is shown. Where
a zero means something (a pointer, or a field without omitempty) it stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ktrain.local.apiserver.protobuf import scalars, tables
from ktrain.local.apiserver.protobuf.wire import BYTES, FIXED64, VARINT, Reader, WireError

if TYPE_CHECKING:
    from ktrain.api.meta import Json, JsonValue
    from ktrain.local.apiserver.protobuf.tables import Field, Tables

MAX_DEPTH: Final = 64
"""Messages inside each other. Only schemas of definitions nest without a limit of their own."""

_MAGIC: Final = b"k8s\x00"
_TYPE_META, _RAW, _ENCODING = 1, 2, 3
_ENVELOPE_FIELDS: Final = {_TYPE_META, _RAW, _ENCODING}
_WIRE_TYPES: Final = {"b": VARINT, "i": VARINT, "l": VARINT, "d": FIXED64}


class Envelope(NamedTuple):
    """What is around every message: whose it is, and where it starts and ends."""

    api_version: str
    kind: str
    start: int
    end: int
    reader: Reader


def unwrap(body: bytes) -> Envelope:
    """
    Read the envelope of a body.

    Raises:
        WireError: There is none, or it is truncated.
    """
    if not body:
        raise WireError("empty data")
    if not body.startswith(_MAGIC):
        raise WireError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    if body == _MAGIC:
        raise WireError("empty body")
    reader = Reader(body)
    spans: dict[int, tuple[int, int]] = {}
    for number, kind, first, last in reader.fields(len(_MAGIC), len(body)):
        if number in _ENVELOPE_FIELDS:
            _expect(BYTES, kind, "Unknown")
            spans[number] = (first, last)
    start, end = spans.get(_ENCODING, (0, 0))
    if start < end:
        raise WireError(f"unsupported content encoding {reader.text(start, end)}")
    api_version, kind_name = _type_meta(reader, *spans.get(_TYPE_META, (0, 0)))
    return Envelope(api_version, kind_name, *spans.get(_RAW, (0, 0)), reader)


def decode(envelope: Envelope) -> Json:
    """
    Return the object in an envelope, with its apiVersion and kind.

    Raises:
        WireError: It is truncated, or of a kind that has no message.
    """
    known = tables.load()
    message = known.message_of(envelope.api_version, envelope.kind)
    if message is None:
        raise WireError(f'no kind "{envelope.kind}" is registered for version "{envelope.api_version}"')
    obj = _Decoder(envelope.reader, known).message(message, envelope.start, envelope.end, depth=0)
    return {"kind": envelope.kind, "apiVersion": envelope.api_version, **obj}


class _Decoder:
    """Reads messages of one body."""

    __slots__ = ("_reader", "_tables")

    def __init__(self, reader: Reader, known: Tables) -> None:
        self._reader = reader
        self._tables = known

    def message(self, name: str, start: int, end: int, depth: int) -> Json:
        """Return a message as JSON. A message that only wraps a list has it under the empty name."""
        if depth > MAX_DEPTH:
            raise WireError(f"proto: messages are nested deeper than {MAX_DEPTH}")
        table = self._tables.fields(name)
        obj: Json = {}
        for number, kind, first, last in self._reader.fields(start, end):
            field = table.get(number)
            if field is None:
                continue  # of a newer client
            if field.map:
                _expect(BYTES, kind, field.name)
                key, value = self._entry(field, first, last, depth)
                obj.setdefault(field.name, {})[key] = value
            elif field.repeated and kind == BYTES and field.type in _WIRE_TYPES:
                obj.setdefault(field.name, []).extend(self._packed(field, first, last))
            elif field.repeated:
                obj.setdefault(field.name, []).append(self._value(field, kind, first, last, depth))
            elif field.inline:
                _expect(BYTES, kind, field.type)
                obj |= self.message(field.type, first, last, depth + 1)
            else:
                self._set(obj, field, self._value(field, kind, first, last, depth))
        return obj

    def _set(self, obj: Json, field: Field, value: object) -> None:
        if value is None or (not field.keep_zero and value in _ZEROS):
            obj.pop(field.name, None)
        else:
            obj[field.name] = value

    def _value(self, field: Field, kind: int, first: int, last: int, depth: int) -> JsonValue:
        name = field.type
        _expect(_WIRE_TYPES.get(name, BYTES), kind, field.name)
        if name in scalars.INTEGERS:
            return scalars.INTEGERS[name](first)
        if form := scalars.FORMS.get(name):
            return form(self._reader, first, last)
        obj = self.message(name.lstrip("|"), first, last, depth + 1)
        if name.startswith("|"):
            return scalars.union(obj)
        return obj.get("", []) if "" in obj or self._is_list(name) else obj

    def _is_list(self, name: str) -> bool:
        return any(field.name == "" and not field.inline for field in self._tables.fields(name).values())

    def _empty(self, name: str) -> object:
        """Return what an entry without a value has: protobuf leaves out what is zero."""
        if name in {"s", "y"}:
            return ""
        return "0" if name == "Quantity" else [] if self._is_list(name) else {}

    def _packed(self, field: Field, first: int, last: int) -> list[JsonValue]:
        reader, found, at = self._reader, [], first
        while at < last:
            if field.type == "d":
                if last - at < 8:
                    raise WireError("unexpected EOF")
                found.append(reader.double(at))
                at += 8
            else:
                value, at = reader.varint(at, last)
                found.append(scalars.INTEGERS[field.type](value))
        return found

    def _entry(self, field: Field, first: int, last: int, depth: int) -> tuple[str, object]:
        key, value = "", self._empty(field.type)
        for number, kind, start, end in self._reader.fields(first, last):
            if number == 1:
                _expect(BYTES, kind, field.name)
                key = self._reader.text(start, end)
            elif number == 2:
                value = self._value(field, kind, start, end, depth)
        return key, value


_ZEROS: Final[tuple[object, ...]] = ("", 0, 0.0, False)


def _type_meta(reader: Reader, start: int, end: int) -> tuple[str, str]:
    found = {1: "", 2: ""}
    for number, kind, first, last in reader.fields(start, end):
        if number in found:
            _expect(BYTES, kind, "TypeMeta")
            found[number] = reader.text(first, last)
    return found[1], found[2]


def _expect(wanted: int, kind: int, name: str) -> None:
    if wanted != kind:
        raise WireError(f"proto: wrong wireType = {kind} for field {name}")
