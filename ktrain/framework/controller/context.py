"""
Which pass of a controller the running code belongs to: for log lines, and for whoever wants to know.

A context variable holds the pass, so that tasks which a reconcile starts belong to it, too. Nothing is formatted until
somebody asks: most passes log nothing. `add_reconcile` is the structlog processor that asks; `logging.configure` has
it, and a log configuration of your own should.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import MutableMapping

    from ktrain.api.meta import Key


class Pass:
    """One call of a reconcile function."""

    __slots__ = ("_number", "cancellations", "controller", "key", "reason", "reported", "started_s", "task")

    def __init__(
        self, controller: str, key: Key, reason: str, *, number: int, started_s: float, task: asyncio.Task[None]
    ) -> None:
        self.controller: str = controller
        self.key: Key = key
        self.reason: str = reason
        self.started_s: float = started_s
        self.task: asyncio.Task[None] = task
        self.cancellations: int = 0
        """How often its deadline cancelled it."""
        self.reported: bool = False
        """Whether it was reported as stuck."""
        self._number = number

    @property
    def reconcile_id(self) -> str:
        """16 hexadecimal digits, drawn anew for each pass."""
        return f"{self._number:016x}"


current_pass: Final[ContextVar[Pass | None]] = ContextVar("ktrain_pass", default=None)


def current_reason() -> str:
    """
    Why this reconcile runs: which event of which object, `retry`, `requeued`, or what `enqueue` was given.

    Empty outside of a reconcile. Several events are one pass: this is the last one of them. For people, not for
    decisions: a reconcile that acts on events is one that forgets when it misses one.
    """
    running = current_pass.get()
    return running.reason if running else ""


def current_reconcile_id() -> str:
    """Return the id of this reconcile, as in its log lines and its span; empty outside of one."""
    running = current_pass.get()
    return running.reconcile_id if running else ""


def add_reconcile(_logger: object, _method: str, event: MutableMapping[str, object]) -> MutableMapping[str, object]:
    """Add `controller`, `object`, `reconcile_id` and `reason` to a log line of a reconcile. A structlog processor."""
    running = current_pass.get()
    if running is not None:
        event.setdefault("controller", running.controller)
        event.setdefault("object", str(running.key))
        event.setdefault("reconcile_id", running.reconcile_id)
        event.setdefault("reason", running.reason)
    return event
