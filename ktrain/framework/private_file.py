"""
A file for libraries that read keys from files only.

It is in memory where the system can do that: a key is then never on a disk, and a pod whose root file system is
read-only needs no directory for temporary files.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def private_file(content: bytes) -> Iterator[str]:
    """Give a path at which only this process's user can read the content, for as long as the context lasts."""
    if hasattr(os, "memfd_create") and Path("/proc/self/fd").is_dir():
        with os.fdopen(os.memfd_create("certificate"), "wb", buffering=0) as memory:
            memory.write(content)
            yield f"/proc/self/fd/{memory.fileno()}"
    else:
        with tempfile.NamedTemporaryFile() as file:  # mode 0600
            file.write(content)
            file.flush()
            yield file.name
