"""
From commits to batches: while one batch is being written, the commits of all writers gather for the next.

A write that cannot be stored (a full disk) is taken back in memory by a commit of its own, so that nobody goes on from
what does not exist, and its request fails. Until the disk takes something again, which is tried every second, each
further write is refused before it happens; reads and watches go on.
"""

from __future__ import annotations

import asyncio
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import structlog

from ktrain.local.apiserver.storage.store import NotStored

from .database import RESERVE, Gone, Row

if TYPE_CHECKING:
    from ktrain.local.apiserver.storage.store import Change, Store

    from .database import Database

RETRY_S: Final = 1.0
_BEHIND: Final = RESERVE // 2
"""Commits that may wait for the disk. Taking all of them back makes as many again, and still stays in the reserve."""
log = structlog.get_logger(__name__)


class _Batch:
    """Commits that go to disk together."""

    __slots__ = ("changes", "failure", "settled")

    def __init__(self) -> None:
        self.changes: list[tuple[str, Change]] = []
        self.failure: NotStored | None = None
        self.settled = asyncio.Event()

    @property
    def revision(self) -> int:
        """The last commit's."""
        return self.changes[-1][1].revision

    def settle(self, failure: NotStored | None = None) -> None:
        """Let those go on who wait."""
        self.failure = failure
        self.settled.set()


class Journal:
    """
    Keeps a database in step with a store. `run` is its task; without it nothing is written.

    It owns the database from here on, and a thread in which it is written.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="journal")
        self._gathering = _Batch()
        self._writing: _Batch | None = None
        self._wakeup = asyncio.Event()
        self._failure: NotStored | None = None

    def admit(self) -> None:
        """
        Refuse a commit that could not be stored. Called before it happens.

        Raises:
            NotStored: The disk takes nothing now, or is too far behind.
        """
        if self._failure is not None:
            raise self._failure
        if len(self._gathering.changes) >= _BEHIND:
            raise NotStored(f"the write was not stored: {self.database.path} is {_BEHIND} writes behind; try again")

    def append(self, collection: str, change: Change) -> None:
        """Take a commit; called inside it. Never waits."""
        self._gathering.changes.append((collection, change))
        self._wakeup.set()

    async def durable(self, *, committed: bool) -> None:
        """
        Wait until all commits made so far are on disk. `committed`: at least one of them is the caller's.

        Raises:
            NotStored: They are not, and have been taken back.
        """
        if self._failure is not None:
            # Whoever only read is right still: everything that was not stored has been taken back.
            if committed:
                raise self._failure
            return
        batch = self._gathering if self._gathering.changes else self._writing
        if batch is not None:
            await batch.settled.wait()
            if batch.failure is not None:
                raise batch.failure

    async def run(self, store: Store) -> None:
        """Write batches until cancelled. What has been committed by then is still written."""
        try:
            while True:
                await self._wakeup.wait()
                self._wakeup.clear()
                if self._gathering.changes:
                    await self._write(store)
                if self._failure is not None:
                    self._wakeup.set()
                    await asyncio.sleep(RETRY_S)
        finally:
            # Nothing is awaited on the way out.
            self._close()

    async def _write(self, store: Store) -> None:
        batch = self._writing = self._gathering
        self._gathering = _Batch()
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._store, batch.changes)
        except sqlite3.Error as error:
            self._writing = None
            self._fail(store, batch, error)
            return
        # Cancelled, it stays `_writing`: the thread may have stored it or not, and storing it twice is harmless.
        self._writing = None
        if self._failure is not None:
            log.warning("journal.recovered", file=str(self.database.path))
            self._failure = None
        batch.settle()

    def _fail(self, store: Store, batch: _Batch, error: sqlite3.Error) -> None:
        if self._failure is not None:
            # These took writes back. Until they can be stored nothing is admitted, so nobody waits for them.
            self._gathering.changes[:0] = batch.changes
            return
        self._failure = self._explain(error)
        log.error("journal.failed", file=str(self.database.path), error=str(error))
        lost, self._gathering = self._gathering, _Batch()
        for collection, change in reversed([*batch.changes, *lost.changes]):
            store.take_back(collection, change)
        batch.settle(self._failure)
        lost.settle(self._failure)

    def _explain(self, error: sqlite3.Error) -> NotStored:
        full = error.sqlite_errorcode == sqlite3.SQLITE_FULL
        help_text = "free some space there" if full else "see to that disk"
        return NotStored(f"the write was not stored: {self.database.path}: {error}; {help_text}, reads go on meanwhile")

    def _store(self, changes: list[tuple[str, Change]]) -> None:
        """Write commits: of each object the last version only. Runs in the thread."""
        last: dict[Gone, Row | None] = {}
        for collection, change in changes:
            place = Gone(collection, change.key.namespace, change.key.name)
            item = change.after
            if item is None:
                last[place] = None
            else:
                obj = item.obj
                last[place] = Row(*place, item.revision, obj["apiVersion"], obj["kind"], item.body)
        rows = [row for row in last.values() if row is not None]
        gone = [place for place, row in last.items() if row is None]
        self.database.write(rows, gone, changes[-1][1].revision)

    def _close(self) -> None:
        batches = [batch for batch in (self._writing, self._gathering) if batch is not None and batch.changes]
        failure = None
        try:
            if batches:
                changes = [change for batch in batches for change in batch.changes]
                self._thread.submit(self._store, changes).result()
        except sqlite3.Error as error:
            failure = self._explain(error)
            log.exception("journal.failed", file=str(self.database.path))
        self._thread.shutdown()
        self.database.close(complete=failure is None)
        for batch in batches:
            batch.settle(failure)
