"""
A directory that a control plane lives in: `ktrain up --state DIR`.

    DIR/ktrain.db       every object (`apiserver.durability`)
    DIR/keys/           the administrator's token, the server's certificate and key, the key that signs tokens
    DIR/claims/         the data of PersistentVolumeClaims
    DIR/logs/           what containers printed, until their pod goes
    DIR/port            where it was served

Readable by its owner only: there are Secrets in it. One control plane at a time has it; the database's lock says so.
"""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ktrain.local.apiserver.durability.database import Database
from ktrain.local.apiserver.durability.errors import StateError
from ktrain.local.apiserver.durability.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Callable


class StateDirectory:
    """
    A directory in use. Whoever runs the journal's server closes the database with it.

    Raises:
        StateError: The directory cannot be made or written, is in use, or holds what cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._keys = path / "keys"
        self._port = path / "port"
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            for directory in (self._keys, path / "claims", path / "logs"):
                directory.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise StateError(f"{path} cannot be used for state: {error.strerror or error}") from error
        self.journal = Journal(Database(path / "ktrain.db"))

    def kept(self, name: str, make: Callable[[], bytes]) -> bytes:
        """
        Return a secret of this control plane; the first time it is made.

        Raises:
            StateError: It cannot be read or written.
        """
        found = self.find(name)
        if found is None:
            found = make()
            self.keep(name, found)
        return found

    def find(self, name: str) -> bytes | None:
        """
        Return a secret, None if it has never been kept.

        Raises:
            StateError: It cannot be read.
        """
        path = self._keys / name
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StateError(f"{path}: {error.strerror or error}") from error

    def keep(self, name: str, secret: bytes) -> None:
        """
        Keep a secret for the next start.

        Raises:
            StateError: It cannot be written.
        """
        path = self._keys / name
        try:
            _write(path, secret)
        except OSError as error:
            raise StateError(f"{path}: {error.strerror or error}") from error

    @property
    def port(self) -> int:
        """The port that was served on last, 0 if there is none or it is taken: kubeconfigs name it."""
        try:
            port = int(self._port.read_text())
        except (OSError, ValueError):
            return 0
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except (OSError, OverflowError):
                return 0
        return port

    def remember_port(self, port: int) -> None:
        """
        Keep the port for the next start.

        Raises:
            StateError: It cannot be written.
        """
        try:
            _write(self._port, str(port).encode())
        except OSError as error:
            raise StateError(f"{self._port}: {error.strerror or error}") from error


def _write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, so that it outlives a crash of the machine."""
    descriptor, name = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
