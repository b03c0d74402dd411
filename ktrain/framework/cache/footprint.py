"""
How much memory the objects of an informer take, estimated.

Keeping a size per object would cost a tenth of what it measures. So one object in `SAMPLE_EVERY` is measured when it
comes in, and the running mean, which follows a change in some hundreds of objects, is taken for all of them. What is
measured is what is held, the narrow object, not what came over the wire.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Final

import msgspec

SAMPLE_EVERY: Final = 64
MEAN_OF: Final = 64
"""The mean forgets: a new sample weighs at least 1/64."""
RAW_BYTES: Final = 56 + 33
"""A `Raw` and the bytes object it has its content in; `sys.getsizeof` knows neither."""


class Footprint:
    """A running mean of sizes in bytes."""

    def __init__(self) -> None:
        self.mean: float = 0.0
        self._seen = 0
        self._samples = 0

    def note(self, obj: object) -> None:
        """Measure this object, if it is its turn."""
        if self._seen % SAMPLE_EVERY == 0:
            # One that is nested just not too deeply to be decoded is not measured: nobody's cache ends for that.
            with suppress(RecursionError):
                size = size_of(obj)
                self._samples += 1
                self.mean += (size - self.mean) / min(self._samples, MEAN_OF)
        self._seen += 1


def size_of(value: object) -> int:
    """Bytes of a decoded value with all that is inside; dict keys are left out, the decoder shares them."""
    if value is None or isinstance(value, bool):
        return 0
    if isinstance(value, msgspec.Raw):
        return RAW_BYTES + len(bytes(value))
    size = sys.getsizeof(value)
    if isinstance(value, msgspec.Struct):
        return size + sum(size_of(getattr(value, name)) for name in value.__struct_fields__)
    if isinstance(value, dict):
        return size + sum(map(size_of, value.values()))
    if isinstance(value, list | tuple):
        return size + sum(map(size_of, value))
    return size
