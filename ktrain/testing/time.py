"""
Virtual time: an event loop on which waiting costs nothing.

When nothing is ready to run, the loop's clock jumps to the next timer. A run of hours takes milliseconds and repeats
itself exactly: the same code with the same seed does the same things in the same order. There is no outside: sockets,
threads and child processes would live in real time, so a loop with nothing to do and no timer is reported as the
deadlock that it is.

    async def scenario(env: Env) -> float:
        await env.clock.sleep(3600)
        return env.clock.monotonic()

    assert simulate(scenario) == 3600

Code can be stopped and continued as SIGSTOP and SIGCONT do with a process (`Stoppable`): time goes on, others run, and
everything that became due meanwhile happens at once afterwards, in the order in which it became due.
"""

from __future__ import annotations

import asyncio
import random
import selectors
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar, TypeVarTuple, Unpack

from ktrain.framework.env import Env

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

T = TypeVar("T")
H = TypeVar("H", bound=asyncio.Handle)
Ts = TypeVarTuple("Ts")

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
"""Wall time at the start of every simulation."""


class Deadlock(AssertionError):
    """Everybody waits for somebody: nothing is ready and no timer is set."""


class VirtualSelector(selectors.SelectSelector):
    """Instead of waiting, moves the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return at once; time goes on by what the loop wanted to wait."""
        if timeout is None:
            waiting = "\n".join(f"  {task!r}" for task in asyncio.all_tasks(asyncio.get_running_loop()))
            raise Deadlock(f"nothing is ready and no timer is set; waiting are:\n{waiting}")
        self.now_s += max(timeout, 0.0)
        return super().select(0)


class Stoppable:
    """
    Code on a `VirtualLoop` that can be stopped and continued from outside.

        process = Stoppable()
        with process.inside():
            task = asyncio.create_task(work())   # and every task that this one starts
        process.stop()
    """

    def __init__(self) -> None:
        self.stopped = False
        """Whether it stands still."""
        self._held: list[tuple[Callable[[], None], Context]] = []

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Tasks that are started in the block belong to it."""
        token = _running_in.set(self)
        try:
            yield
        finally:
            _running_in.reset(token)

    def stop(self) -> None:
        """Stand still: when the code that runs now waits for the next time, it does not go on. Idempotent."""
        self.stopped = True

    def resume(self) -> None:
        """Go on. What became due meanwhile happens first, in its order. Idempotent."""
        self.stopped = False
        held, self._held = self._held, []
        loop = asyncio.get_running_loop()
        for step, context in held:
            loop.call_soon(step, context=context)

    def hold(self, step: Callable[[], None], context: Context) -> None:
        """Keep a step until it goes on."""
        self._held.append((step, context))


_running_in: Final[ContextVar[Stoppable | None]] = ContextVar("ktrain_stoppable", default=None)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is virtual, and on which code can be stopped (`Stoppable`)."""

    def __init__(self) -> None:
        self._virtual = VirtualSelector()
        super().__init__(self._virtual)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._virtual.now_s

    # Everything a task does is a callback of one of these two.

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Call as soon as possible, and not while its `Stoppable` stands still."""
        owner = _running_in.get() if context is None else context.get(_running_in)
        if owner is None:
            return super().call_soon(callback, *args, context=context)
        return _guarded(super().call_soon, owner, partial(callback, *args), context or copy_context())

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call at a time, and not while its `Stoppable` stands still."""
        owner = _running_in.get() if context is None else context.get(_running_in)
        if owner is None:
            return super().call_at(when, callback, *args, context=context)
        schedule = partial(super().call_at, when)
        return _guarded(schedule, owner, partial(callback, *args), context or copy_context())


def _guarded(schedule: Callable[..., H], owner: Stoppable, callback: Callable[[], object], context: Context) -> H:
    def step() -> None:
        if owner.stopped:
            owner.hold(step, context)
        elif not handle.cancelled():
            # Cancelled while it was held: what ran before it after the stop had no more use for it.
            callback()

    handle = schedule(step, context=context)
    return handle


class VirtualClock:
    """
    The clock of a `VirtualLoop`, for `Env`.

    Attributes:
        skew_s: Moves its wall time, as a bad NTP server would.
        slept_s: How long its machine was suspended, which a monotonic clock does not count.
    """

    def __init__(self, *, skew_s: float = 0.0) -> None:
        self.skew_s = skew_s
        self.slept_s = 0.0

    def monotonic(self) -> float:
        """Virtual seconds."""
        return self.boottime() - self.slept_s

    def boottime(self) -> float:
        """Virtual seconds, those included in which its machine was suspended."""
        return asyncio.get_running_loop().time()

    def now(self) -> datetime:
        """Virtual wall time."""
        return EPOCH + timedelta(seconds=self.boottime() + self.skew_s)

    async def sleep(self, seconds: float) -> None:
        """Sleep in virtual time."""
        await asyncio.sleep(seconds)


def virtual_env(seed: int = 0) -> Env:
    """Make an environment with virtual time and seeded randomness."""
    return Env(VirtualClock(), random.Random(seed))  # noqa: S311 - repeatable on purpose


def simulate(scenario: Callable[[Env], Awaitable[T]], *, seed: int = 0) -> T:
    """
    Run a scenario to its end in virtual time.

    Raises:
        Deadlock: Nothing could ever happen any more.
    """

    async def main() -> T:
        return await scenario(virtual_env(seed))

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main())
