"""
Protobuf's wire format: a message is a run of fields, each a number, a wire type and a value.

Source: https://protobuf.dev/programming-guides/encoding. Groups are refused: Kubernetes never had any, and skipping
them is where readers of hostile input go wrong.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5

MAX_FIELDS: Final = 200_000
"""Fields of one body, all messages together. A body may have 3 MiB, hence a million fields that mean nothing."""

_SIZES: Final = {FIXED64: 8, FIXED32: 4}
_DOUBLE: Final = struct.Struct("<d")
_MAX_VARINT_BITS: Final = 63


class WireError(ValueError):
    """Bytes that are no message, or not the one that is expected."""


class Reader:
    """
    Takes a body apart without copying more than its strings. One for each body: it counts the fields.

    Not safe to share; nothing here waits.
    """

    __slots__ = ("_fields_left", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._fields_left = MAX_FIELDS

    def fields(self, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
        """
        Walk the fields of the message in `data[start:end]`.

        Yields:
            Number, wire type and two integers: for BYTES where the value starts and ends, for VARINT the value (64
            bits, unsigned) and nothing of use, otherwise where it starts and ends.

        Raises:
            WireError: Truncated, malformed, or too many fields.
        """
        at = start
        while at < end:
            self._fields_left -= 1
            if self._fields_left < 0:
                raise WireError(f"proto: more than {MAX_FIELDS} fields")
            tag, at = self.varint(at, end)
            number, kind = tag >> 3, tag & 7
            if number == 0:
                raise WireError(f"proto: illegal tag {tag >> 3} (wire type {kind})")
            if kind == VARINT:
                value, at = self.varint(at, end)
                yield number, kind, value, at
                continue
            if kind == BYTES:
                size, at = self.varint(at, end)
            elif kind in _SIZES:
                size = _SIZES[kind]
            else:
                raise WireError(f"proto: illegal wireType {kind}")
            if size > end - at:
                raise WireError("unexpected EOF")
            yield number, kind, at, at + size
            at += size

    def varint(self, at: int, end: int) -> tuple[int, int]:
        """
        Read an unsigned integer of 64 bits; return it and where it ends.

        Raises:
            WireError: Truncated, or longer than ten bytes.
        """
        data = self.data
        value = shift = 0
        while at < end:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFF_FFFF_FFFF_FFFF, at
            shift += 7
            if shift > _MAX_VARINT_BITS:
                raise WireError("proto: integer overflow")
        raise WireError("unexpected EOF")

    def text(self, start: int, end: int) -> str:
        """Return a string; what is no UTF-8 becomes U+FFFD, as in Go's JSON."""
        return self.data[start:end].decode("utf-8", "replace")

    def double(self, start: int) -> float:
        """Return a number of 8 bytes."""
        value: float = _DOUBLE.unpack_from(self.data, start)[0]
        return value


def signed(value: int, bits: int) -> int:
    """Return the two's complement of the lowest bits: negative int32 are written with all 64."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value
