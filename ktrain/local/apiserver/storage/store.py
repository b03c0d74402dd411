"""
The multi-version store: what etcd and the watch cache are upstream, in one process's memory.

One counter numbers every commit of any kind; an object's resourceVersion is the number of its last commit. Each
collection (a resource across its versions) keeps its objects, a bounded window of its last changes, and its watchers.
Nothing here waits: a request computes its object, then commits it in one step that fails when the object changed
meanwhile. That makes list-then-watch gapless without locks.

Objects are frozen by convention: whoever commits a dict gives it away, and nobody changes it afterwards. So snapshots,
history and watchers share it, and its JSON is made once, when the first reader asks.

The past is rebuilt by undoing changes from the newest back, which costs only those who ask for it (later pages of a
list). Rejected: a persistent tree per revision, which every write would pay for.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from ktrain.local.apiserver.storage.watchers import Watcher

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ktrain.api.meta import Json, Key
    from ktrain.local.apiserver.storage.watchers import Filter

DEFAULT_HISTORY: Final = 2048
"""Changes each collection remembers: enough to resume a watch, page a list, and wait out a slow client."""

_TYPE_FIELDS: Final = ("kind", "apiVersion")
encode: Final = msgspec.json.Encoder().encode
decode: Final = msgspec.json.Decoder().decode


class Item:
    """One committed version of an object. `schema` is what it was pruned and defaulted by (identity matters)."""

    __slots__ = ("_body", "obj", "revision", "schema")

    def __init__(self, obj: Json, revision: int, schema: object) -> None:
        self.obj = obj
        self.revision = revision
        self.schema = schema
        self._body: bytes | None = None

    @property
    def body(self) -> bytes:
        """The object's JSON without kind and apiVersion, which depend on the version served."""
        if self._body is None:
            self._body = encode_body(self.obj)
        return self._body


class Change:
    """One commit in one collection: `before` is None for a creation, `after` for a deletion."""

    __slots__ = ("_departed", "after", "before", "key", "revision")

    def __init__(self, revision: int, key: Key, before: Item | None, after: Item | None) -> None:
        self.revision = revision
        self.key = key
        self.before = before
        self.after = after
        self._departed: Item | None = None

    @property
    def departed(self) -> Item:
        """The object as it was before, under this change's revision: what watchers see when it leaves their view."""
        if self._departed is None:
            if self.before is None:
                raise ValueError("a creation has no state before it")
            self._departed = Item(with_revision(self.before.obj, self.revision), self.revision, self.before.schema)
        return self._departed


class RevisionMismatch(Exception):
    """A commit expected another version of the object than the stored one."""


class NotStored(Exception):
    """A commit cannot be made to outlive the process, so it does not exist; the message says why, and what helps."""


class Expired(Exception):
    """History does not reach back to the revision asked for; `oldest` is where it begins."""

    def __init__(self, revision: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {revision} ({oldest})")
        self.revision = revision
        self.oldest = oldest


class Journal(Protocol):
    """Where commits go to outlive the process (`durability`)."""

    def admit(self) -> None:
        """Refuse a commit that could not be stored, by raising; called before it happens."""

    def append(self, collection: str, change: Change) -> None:
        """Take a commit; called inside it, must be quick and must not raise."""


class Collection:
    """All objects of one resource. Made by `Store.collection`."""

    def __init__(self, name: str, *, history: int, oldest: int) -> None:
        self.name = name
        self.oldest = oldest
        self._items: dict[Key, Item] = {}
        self._order: list[Key] = []
        self._history: deque[Change] = deque()
        self._capacity = history
        self._watchers: set[Watcher] = set()

    def __len__(self) -> int:
        return len(self._items)

    @property
    def watchers(self) -> int:
        """How many watches run."""
        return len(self._watchers)

    def get(self, key: Key) -> Item | None:
        """Return the newest version of an object."""
        return self._items.get(key)

    def entries(self, namespace: str = "") -> Iterator[tuple[Key, Item]]:
        """Iterate over the newest versions in key order; without a namespace over all of them."""
        items = self._items
        for key in self._keys(namespace):
            yield key, items[key]

    def entries_at(self, revision: int, namespace: str = "") -> list[tuple[Key, Item]]:
        """
        Return the objects as they were after the commit `revision`, in key order.

        Raises:
            Expired: That state can no longer be rebuilt.
        """
        changes = self.changes_since(revision)
        if not changes:
            return list(self.entries(namespace))
        items = dict(self._items)
        for change in reversed(changes):
            if change.before is None:
                items.pop(change.key, None)
            else:
                items[change.key] = change.before
        return sorted((key, item) for key, item in items.items() if not namespace or key.namespace == namespace)

    def changes_since(self, revision: int) -> list[Change]:
        """
        Return the changes after `revision`, oldest first.

        Raises:
            Expired: Some of them are forgotten.
        """
        if revision < self.oldest:
            raise Expired(revision, self.oldest)
        newer: list[Change] = []
        for change in reversed(self._history):
            if change.revision <= revision:
                break
            newer.append(change)
        newer.reverse()
        return newer

    def watch(self, accepts: Filter, *, limit: int, after: int = 0) -> Watcher:
        """Start a watcher of every change from now on (after a revision, if given). The caller must `close` it."""
        watcher = Watcher(accepts, limit=limit, after=after, on_close=self._watchers.discard)
        self._watchers.add(watcher)
        return watcher

    def record(self, change: Change) -> None:
        """Make a committed change visible. Called by `Store` only."""
        key, after = change.key, change.after
        if after is None:
            del self._items[key]
            del self._order[bisect_left(self._order, key)]
        else:
            if change.before is None:
                insort(self._order, key)
            self._items[key] = after
        self._history.append(change)
        if len(self._history) > self._capacity:
            self.oldest = self._history.popleft().revision
        for watcher in tuple(self._watchers):
            watcher.offer(change)

    def adopt(self, key: Key, item: Item) -> None:
        """Take over an object from another life of the store, without history. Called by `Store` only."""
        insort(self._order, key)
        self._items[key] = item

    def forget(self, revision: int) -> None:
        """Drop history up to `revision`; running watches end with 410."""
        while self._history and self._history[0].revision <= revision:
            self._history.popleft()
        self.oldest = max(self.oldest, revision)
        for watcher in tuple(self._watchers):
            watcher.close(expired=Expired(revision, self.oldest))

    def close(self) -> None:
        """End all watches: the resource is no longer served."""
        for watcher in tuple(self._watchers):
            watcher.close()

    def _keys(self, namespace: str) -> list[Key]:
        if not namespace:
            return list(self._order)
        # U+0000 sorts before anything a name may hold, so this is the first key past the namespace.
        return self._order[bisect_left(self._order, (namespace, "")) : bisect_left(self._order, (namespace + "\0", ""))]


class Store:
    """All collections under one revision counter; kept in memory only, unless there is a journal."""

    def __init__(self, *, history: int = DEFAULT_HISTORY, journal: Journal | None = None) -> None:
        self.revision = 0
        self.collections: dict[str, Collection] = {}
        self._history = history
        self._journal = journal
        self._listeners: list[Callable[[str, Change], None]] = []

    def collection(self, name: str) -> Collection:
        """Return a collection, made empty when it is new."""
        found = self.collections.get(name)
        if found is None:
            found = self.collections[name] = Collection(name, history=self._history, oldest=self.revision)
        return found

    def drop(self, name: str) -> None:
        """Forget an empty collection: its resource is gone."""
        found = self.collections.pop(name, None)
        if found is not None:
            found.close()

    def listen(self, listener: Callable[[str, Change], None]) -> None:
        """Call `listener(collection name, change)` inside each commit: it must be quick and must not raise."""
        self._listeners.append(listener)

    def put(self, name: str, key: Key, obj: Json, *, expected: int, schema: object = None) -> Item:
        """
        Commit a new version; the store owns `obj` from here on and writes its resourceVersion.

        `expected` is the revision the caller computed it from, 0 for a creation.

        Raises:
            RevisionMismatch: The object was written, deleted or created meanwhile.
            NotStored: The journal takes nothing now.
        """
        if self._journal is not None:
            self._journal.admit()
        collection = self.collection(name)
        before = collection.get(key)
        if (before.revision if before else 0) != expected:
            raise RevisionMismatch
        self.revision += 1
        obj["metadata"]["resourceVersion"] = str(self.revision)
        item = Item(obj, self.revision, schema)
        self._publish(collection, Change(self.revision, key, before, item))
        return item

    def remove(self, name: str, key: Key, *, expected: int) -> Change:
        """
        Commit a deletion, under the same rule as `put`.

        Raises:
            RevisionMismatch: The object changed or is gone.
            NotStored: The journal takes nothing now.
        """
        if self._journal is not None:
            self._journal.admit()
        collection = self.collection(name)
        before = collection.get(key)
        if before is None or before.revision != expected:
            raise RevisionMismatch
        self.revision += 1
        change = Change(self.revision, key, before, None)
        self._publish(collection, change)
        return change

    def take_back(self, name: str, change: Change) -> None:
        """Undo a commit by a new one. Later commits to the same object must have been taken back before."""
        collection, before = self.collection(name), change.before
        current = collection.get(change.key)
        self.revision += 1
        after = None
        if before is not None:
            after = Item(with_revision(before.obj, self.revision), self.revision, before.schema)
        self._publish(collection, Change(self.revision, change.key, current, after))

    def restore(self, name: str, key: Key, item: Item) -> None:
        """Take over an object that an earlier process stored. Listeners see it being created."""
        self.collection(name).adopt(key, item)
        self._tell(name, Change(item.revision, key, None, item))

    def compact(self, revision: int) -> None:
        """Forget history up to `revision`, as etcd's compaction does."""
        for collection in self.collections.values():
            collection.forget(min(revision, self.revision))

    def _publish(self, collection: Collection, change: Change) -> None:
        collection.record(change)
        if self._journal is not None:
            self._journal.append(collection.name, change)
        self._tell(collection.name, change)

    def _tell(self, name: str, change: Change) -> None:
        for listener in self._listeners:
            listener(name, change)


def with_revision(obj: Json, revision: int) -> Json:
    """Return the object under another resourceVersion, sharing everything else."""
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(revision)}}


def encode_body(obj: Json) -> bytes:
    """Return the JSON of an object without kind and apiVersion. It always has metadata, so it is never `{}`."""
    return encode({name: value for name, value in obj.items() if name not in _TYPE_FIELDS})
