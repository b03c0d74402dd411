"""
Who wrote which field: the provenance of a plan, and the proof that no two plugins disagree.

Every write to an `Info` goes through its journal under the name of the current author. Precedence between the runtime,
patches, plugins and the TrainJob is a rule (later ones win); between two plugins there is no rule, so a disagreement is
an error rather than a matter of order.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ktrain.api.meta import JsonValue

RUNTIME: Final = "runtime"
TRAIN_JOB: Final = "TrainJob"


class Author(NamedTuple):
    """Who writes: the runtime, the TrainJob, a patch manager, or a plugin (in one of its hooks)."""

    name: str
    hook: str = ""

    @property
    def is_plugin(self) -> bool:
        """Plugins write in hooks; nobody else does."""
        return bool(self.hook)

    def __str__(self) -> str:
        return f"plugin {self.name}" if self.is_plugin else self.name


class Patched(NamedTuple):
    """A patch, and whose it is."""

    author: Author
    patch: JsonValue


class FieldConflict(Exception):
    """Two plugins differ in a field. The runner turns it into a `PluginConflict` that also names hook and job."""

    def __init__(self, path: str, first: str, second: str) -> None:
        super().__init__(f"{path}: {first} and {second}")
        self.path, self.first, self.second = path, first, second


class Journal:
    """The last author of each written field. Fields nobody wrote come from the runtime."""

    __slots__ = ("_author", "_entries", "patches")

    def __init__(self) -> None:
        self._author = Author(RUNTIME)
        self.patches: list[Patched] = []
        """
        What others than plugins laid over everything before any plugin wrote; it must not change.

        A patch may have a hundred thousand fields, and hardly anybody asks who wrote them.
        """
        # `Any`: the written values are JSON.
        self._entries: dict[str, tuple[Author, Any]] = {}

    @contextmanager
    def writing_as(self, author: Author) -> Iterator[None]:
        """Let *author* write until the block ends; authors nest."""
        before = self.hand_to(author)
        try:
            yield
        finally:
            self.hand_to(before)

    def hand_to(self, author: Author) -> Author:
        """Let *author* write from now on; returns who did before."""
        before, self._author = self._author, author
        return before

    def record(self, path: str, value: object) -> None:
        """
        Note that the current author set *path* to *value*. Call before the write itself.

        Raises:
            FieldConflict: Another plugin set it to something else.
        """
        author, before = self._author, self._entries.get(path)
        if before and author.is_plugin and before[0].is_plugin and before[0].name != author.name and before[1] != value:
            raise FieldConflict(path, before[0].name, author.name)
        self._entries[path] = (author, value)

    @property
    def provenance(self) -> Mapping[str, str]:
        """Path of a field to its author, in the order of the writes."""
        patched = {path: str(author) for author, patch in self.patches for path, _ in leaves(patch)}
        return patched | {path: str(author) for path, (author, _) in self._entries.items()}


def leaves(patch: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    """Yield paths of what a patch sets, in the journal's spelling, and the values."""
    # No recursion: a patch may have a hundred thousand leaves, each of which every level above would hand on.
    waiting: list[tuple[str, JsonValue]] = [("", patch)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict) and value:
            before = f"{path}." if path else ""
            waiting += [(f"{before}{key}", inner) for key, inner in reversed(value.items())]
        elif isinstance(value, list) and value and all(isinstance(item, dict) and "name" in item for item in value):
            for item in reversed(value):
                rest = {key: inner for key, inner in item.items() if key != "name"}
                waiting.append((f"{path}[{item['name']}]", rest))
        else:
            yield path, value
