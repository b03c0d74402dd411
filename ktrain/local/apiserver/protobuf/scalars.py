"""
Numbers, strings, and messages whose JSON is not an object of their fields.

Source: the `MarshalJSON` and `ProtoSize` pairs of k8s.io/apimachinery (resource.Quantity, intstr.IntOrString,
metav1.Time, metav1.MicroTime, runtime.RawExtension) and k8s.io/apiextensions-apiserver (JSON, JSONSchemaPropsOr*).
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from ktrain.api.meta import JsonValue, format_time
from ktrain.local.apiserver.protobuf.wire import BYTES, VARINT, Reader, WireError, signed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ktrain.api.meta import Json

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_parse: Final = msgspec.json.Decoder().decode


def _quantity(reader: Reader, start: int, end: int) -> object:
    return _plain(reader, start, end).get(1) or "0"


def _int_or_string(reader: Reader, start: int, end: int) -> object:
    fields = _plain(reader, start, end)
    is_text = bool(fields.get(1, 0))
    return fields.get(3, "") if is_text else signed(int(fields.get(2, 0)), 32)


def _raw(reader: Reader, start: int, end: int) -> object:
    text = None
    for number, kind, first, last in reader.fields(start, end):
        if number == 1 and kind == BYTES:
            text = reader.data[first:last]
    if not text:
        return None
    try:
        return _parse(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise WireError(f"raw JSON in protobuf: {error}") from error


def _time(reader: Reader, start: int, end: int) -> object:
    moment = _moment(reader, start, end)
    return None if moment is None else format_time(moment)


def _micro_time(reader: Reader, start: int, end: int) -> object:
    moment = _moment(reader, start, end)
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")


def _moment(reader: Reader, start: int, end: int) -> datetime | None:
    """Return a time; an empty message is Go's zero time, which JSON shows as null."""
    if start == end:
        return None
    fields = _plain(reader, start, end)
    seconds, nanos = signed(int(fields.get(1, 0)), 64), signed(int(fields.get(2, 0)), 32)
    try:
        return _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError as error:
        raise WireError(f"Time: seconds {seconds}: year outside of range [0,9999]") from error


def _plain(reader: Reader, start: int, end: int) -> Mapping[int, str | int]:
    """Return the strings and integers of a small message by number."""
    return {
        number: reader.text(first, last) if kind == BYTES else first
        for number, kind, first, last in reader.fields(start, end)
        if kind in {BYTES, VARINT}
    }


INTEGERS: Final[Mapping[str, Callable[[int], int | bool]]] = {
    "b": bool,
    "i": lambda value: signed(value, 32),
    "l": lambda value: signed(value, 64),
}
"""By letter in the tables: from what is on the wire."""

FORMS: Final[Mapping[str, Callable[[Reader, int, int], object]]] = {
    "s": Reader.text,
    "y": lambda reader, start, end: base64.b64encode(reader.data[start:end]).decode(),
    "d": lambda reader, start, _end: reader.double(start),
    "Quantity": _quantity,
    "IntOrString": _int_or_string,
    "Raw": _raw,
    "Time": _time,
    "MicroTime": _micro_time,
}
"""By name in the tables. None means a zero that JSON leaves out."""


def union(fields: Json) -> JsonValue:
    """Return what a union of a schema and something else holds (JSONSchemaPropsOrArray and its like)."""
    for name in ("jSONSchemas", "property"):
        if fields.get(name):
            return fields[name]
    return fields.get("schema", fields.get("allows", False))
