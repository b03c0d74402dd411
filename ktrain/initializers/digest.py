"""
Whether a file on disk is what the source has.

Sources tell different things: the SHA-256 of large files on the Hub and git's own SHA-1 of its small ones; checksums
that whoever wrote an S3 object asked for; and an object's ETag, which is an MD5, or the MD5 of the MD5s of its parts.
The file is read once more for it, so that what is proved is what a trainer will read, not what passed by on the way.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

_CHUNK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Digest:
    """What a source says about the content of a file."""

    algorithm: Literal["sha256", "sha1", "crc32", "md5", "md5-of-parts", "git-blob"]
    value: str
    """In hexadecimal; of parts followed by `-` and their number, as ETags have it."""
    part_size: int = 0
    """Bytes; all parts but the last have this size."""

    @classmethod
    def from_base64(cls, algorithm: Literal["sha256", "sha1", "crc32"], value: str) -> Digest:
        """As S3 writes its checksums."""
        return cls(algorithm, base64.b64decode(value).hex())

    def of(self, path: Path) -> str:
        """Compute the value that *path* has."""
        size = path.stat().st_size
        with path.open("rb") as file:
            if self.algorithm == "crc32":
                return _crc32(file, size)
            if self.algorithm == "md5-of-parts":
                return _md5_of_parts(file, size, self.part_size)
            algorithm, prefix = ("sha1", b"blob %d\0" % size) if self.algorithm == "git-blob" else (self.algorithm, b"")
            return _hash(algorithm, prefix, file, size).hex()


def _hash(algorithm: str, prefix: bytes, file: BinaryIO, size: int) -> bytes:
    found = hashlib.new(algorithm, prefix, usedforsecurity=False)
    for chunk in _chunks(file, size):
        found.update(chunk)
    return found.digest()


def _crc32(file: BinaryIO, size: int) -> str:
    crc = 0
    for chunk in _chunks(file, size):
        crc = zlib.crc32(chunk, crc)
    return f"{crc:08x}"


def _md5_of_parts(file: BinaryIO, size: int, part_size: int) -> str:
    parts = [_hash("md5", b"", file, min(part_size, size - start)) for start in range(0, size, part_size)]
    return f"{hashlib.md5(b''.join(parts), usedforsecurity=False).hexdigest()}-{len(parts)}"


def _chunks(file: BinaryIO, size: int) -> Iterator[bytes]:
    while size > 0 and (chunk := file.read(min(_CHUNK, size))):
        size -= len(chunk)
        yield chunk
