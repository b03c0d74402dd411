"""
The file: one SQLite database with the newest version of every object.

History is not kept: who watched before the server ended gets 410 and lists again, as after a compaction. SQLite runs
with a write-ahead log and a full sync per commit, so a transaction that returned survives a crash of the machine. The
lock is exclusive: it keeps others out, and lets the log's index stay in memory, where a full disk cannot reach it.

Revisions never go back. Commits are seen (by watches, by readers) a moment before they are on disk, so after an end
without `close` the counter goes on behind all that anybody could have seen: `RESERVE` is how far memory may be ahead.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from .errors import StateError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

FORMAT: Final = 1
RESERVE: Final = 100_000
"""Commits that memory may be ahead of the disk."""

_APPLICATION: Final = 0x6B747261
_SCHEMA: Final = """
CREATE TABLE objects (
    collection TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
    revision INTEGER NOT NULL, api_version TEXT NOT NULL, kind TEXT NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (collection, namespace, name)
) WITHOUT ROWID;
CREATE TABLE progress (revision INTEGER NOT NULL, ended INTEGER NOT NULL);
INSERT INTO progress VALUES (0, 1);
"""


class Row(NamedTuple):
    """One object. `body` is its JSON without kind and apiVersion."""

    collection: str
    namespace: str
    name: str
    revision: int
    api_version: str
    kind: str
    body: bytes


class Gone(NamedTuple):
    """An object that is to be forgotten."""

    collection: str
    namespace: str
    name: str


class Database:
    """
    One open file. Calls must not overlap, but may come from different threads.

    Raises:
        StateError: The file is not ours, damaged, of a newer format, in use, or cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection = self._open()

    def start(self) -> int:
        """
        Return the revision to go on from, and note that the server runs.

        Raises:
            StateError: The file cannot be written.
        """
        try:
            revision, ended = self._connection.execute("SELECT revision, ended FROM progress").fetchone()
            start: int = revision if ended else revision + RESERVE
            with self._connection:
                self._connection.execute("UPDATE progress SET revision = ?, ended = 0", (start,))
        except sqlite3.Error as error:
            raise StateError(f"{self.path} cannot be used: {error}") from error
        return start

    def rows(self) -> Iterator[Row]:
        """
        Iterate over all objects, the oldest version first.

        Raises:
            StateError: The file is damaged.
        """
        try:
            with closing(self._connection.execute("SELECT * FROM objects ORDER BY revision")) as cursor:
                yield from map(Row._make, cursor)
        except sqlite3.Error as error:
            raise StateError(f"{self.path} is damaged: {error}") from error

    def write(self, rows: Sequence[Row], gone: Sequence[Gone], revision: int) -> None:
        """
        Store a batch: all of it, or nothing. It is on disk when this returns. Blocks.

        Raises:
            sqlite3.Error: It could not be stored.
        """
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.executemany("INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
            connection.executemany("DELETE FROM objects WHERE collection = ? AND namespace = ? AND name = ?", gone)
            connection.execute("UPDATE progress SET revision = ?", (revision,))
            connection.execute("COMMIT")
        except BaseException:
            # SQLite has taken most failed transactions back already, and then refuses to do it again.
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise

    def close(self, *, complete: bool) -> None:
        """Close the file; `complete` says that all commits are in it, so that the counter need not leap."""
        # All commits are on disk already; what gets lost is that no number was left out.
        with suppress(sqlite3.Error):
            if complete:
                self._connection.execute("UPDATE progress SET ended = 1")
        self._connection.close()

    def _open(self) -> sqlite3.Connection:
        try:
            # There are Secrets in it; what SQLite puts beside it has the same mode.
            if not self.path.exists():
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        except OSError as error:
            raise StateError(f"{self.path} cannot be opened: {error.strerror or error}") from error
        try:
            connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=0)
            try:
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
        except sqlite3.Error as error:
            if error.sqlite_errorcode in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise StateError(f"{self.path} is in use by another process") from error
            if error.sqlite_errorcode in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
                raise StateError(f"{self.path} {_DAMAGED}: {error}") from error
            raise StateError(f"{self.path} cannot be opened: {error}") from error
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        application, version, tables = (
            connection.execute(query).fetchone()[0]
            for query in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
        )
        if not tables:
            connection.executescript(
                f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA application_id = {_APPLICATION};"
                f" PRAGMA user_version = {FORMAT}; COMMIT;"
            )
            return
        if application != _APPLICATION:
            raise StateError(f"{self.path} is a database of another program: name another directory")
        if version > FORMAT:
            raise StateError(
                f"{self.path} has format {version}, this version of ktrain reads formats up to {FORMAT}: "
                "use the version that wrote it, or name another directory"
            )
        (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise StateError(f"{self.path} {_DAMAGED}: {found}")


_DAMAGED: Final = "is damaged (restore it from a backup, or move it away to start empty)"
