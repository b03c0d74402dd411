"""
Things that run, and groups of them that start together and stop together.

A member that fails does not take its group down: it tells whoever made the group, who stops everything in order. So the
passes of other controllers may still end while their cache lives.
"""

from __future__ import annotations

import asyncio
import math
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

import anyio

from ktrain.framework.parallel import unwrap

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from anyio.abc import TaskGroup, TaskStatus

NEVER: Final = math.inf


class Runnable(Protocol):
    """
    Something that runs until it is cancelled and says when it is ready.

    One with an attribute `needs_leader = False` runs in every replica; without that attribute it waits for leadership,
    as a replica that does something twice is worse than one that does it late.
    """

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Run; call `task_status.started()` when ready."""


@runtime_checkable
class Drains(Protocol):
    """A runnable that is asked to end, and not cancelled before the grace period is over. A controller does."""

    def shut_down(self) -> None:
        """Begin nothing new; `run` returns when what is under way has ended."""


class Group:
    """
    Runnables of one step of the start.

    Args:
        failed: Told of each error of a member, except of errors that come after its cancellation.
        members: The first ones; more can be added at any time before the stop.
    """

    def __init__(self, failed: Callable[[Runnable, Exception, bool], None], members: Iterable[Runnable] = ()) -> None:
        self._failed = failed
        self._members = [_Member(runnable) for runnable in members]
        self._tasks: TaskGroup | None = None
        self._grace = anyio.CancelScope()
        self.overdue: list[str] = []
        """Members that were cancelled because the time that `shut_down` gave them was over."""

    @property
    def names(self) -> list[str]:
        """Of the members that have not ended."""
        return [member.name for member in self._members]

    def add(self, runnable: Runnable) -> None:
        """Add a member; if the group runs already, it starts at once."""
        member = _Member(runnable)
        self._members.append(member)
        if self._tasks is not None:
            self._tasks.start_soon(self._run, member, name=member.name)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the members around the block. After it they are asked to end; an error in it cancels them at once."""
        with self._grace:
            try:
                async with anyio.create_task_group() as self._tasks:
                    for member in self._members:
                        self._tasks.start_soon(self._run, member, name=member.name)
                    yield
                    self.shut_down()
            finally:
                self._tasks = None

    async def started(self) -> None:
        """Wait until each member is ready or has failed."""
        for member in list(self._members):
            await member.ready.wait()

    def shut_down(self, deadline: float = NEVER) -> None:
        """Ask the members to end; those that are left at the deadline (on the loop's clock) are cancelled."""
        self._grace.deadline = min(self._grace.deadline, deadline)
        for member in self._members:
            member.shut_down()

    async def _run(self, member: _Member) -> None:
        try:
            with member.scope:
                await member.runnable.run(task_status=member)
        except Exception as error:  # noqa: BLE001 - the boundary to what runs: the owner of the group decides
            was_cancelled = anyio.current_effective_deadline() == -math.inf
            self._failed(member.runnable, _one(error), was_cancelled)
        finally:
            member.ready.set()
            self._members.remove(member)
            if self._grace.cancel_called:
                self.overdue.append(member.name)


class _Member:
    """One runnable; it is also the `task_status` that its `run` reports to, and forgives one that reports nothing."""

    def __init__(self, runnable: Runnable) -> None:
        self.runnable = runnable
        self.name: str = getattr(runnable, "name", "") or type(runnable).__name__
        self.scope = anyio.CancelScope()
        self.ready = asyncio.Event()

    def started(self, value: None = None) -> None:
        """Note that it is ready."""
        self.ready.set()

    def shut_down(self) -> None:
        """Ask it to end, in its own way if it has one."""
        if isinstance(self.runnable, Drains):
            self.runnable.shut_down()
        else:
            self.scope.cancel()


def _one(error: Exception) -> Exception:
    """The one error in a group of one."""
    found = unwrap(error)
    return found if isinstance(found, Exception) else error
