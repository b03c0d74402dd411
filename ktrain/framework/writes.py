"""
What a reconcile has written, so that its key's next pass waits until the cache shows it.

Without this a controller reads its own past: it does not see the child it has just created, and creates another (the
most reported class of controller bug; Kubernetes' own controllers do the same since KEP-5647). `Client` notes each
successful write here, `Controller` opens one log per reconcile and hands it to the cache. A context variable carries
it, so tasks that a reconcile starts write into the same log.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ktrain.api.meta import Key


@dataclass(frozen=True, slots=True)
class Write:
    """One write that the API server confirmed."""

    group: str
    plural: str
    key: Key
    uid: str
    version: int
    """The object's new resource version; 0 for a deletion, whose version the server does not tell."""
    labels: Mapping[str, str]
    """As stored by this write: informers with a label selector see the object only if they match."""
    cluster: str = ""
    """Whose API server it was; a cache waits for those of its own."""


class _Log(list[Write]):
    """The writes of one block; tasks that outlive it keep the context, and with it this."""

    is_open = True


_current: Final[ContextVar[_Log | None]] = ContextVar("ktrain_writes", default=None)


@contextmanager
def recording() -> Iterator[list[Write]]:
    """Collect the writes made in this context, and in tasks started from it, until the block ends."""
    writes = _Log()
    token = _current.set(writes)
    try:
        yield writes
    finally:
        writes.is_open = False
        _current.reset(token)


def record(write: Write) -> None:
    """Note a write, if somebody collects."""
    writes = _current.get()
    if writes is not None and writes.is_open:
        writes.append(write)
