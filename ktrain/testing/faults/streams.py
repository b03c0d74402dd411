"""
What may happen to the lines of a watch.

An effect is an async generator around the lines: it may hold them back, repeat, drop or replace them. It is laid
around a stream when that opens, or in mid-stream when a rule is added later. `rule.active` tells whether the rule is
still wanted; an effect whose rule was removed passes everything on.

A line that was cut in the middle is a `PartialLine`: nothing follows it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from ktrain.framework.errors import TransportError

from .calls import Call
from .requests import status

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ktrain.framework.env import Env

Lines = AsyncGenerator[bytes, None]
Event = dict[str, Any]
"""A watch event as JSON."""


class Wanted(Protocol):
    """The rule behind an effect."""

    @property
    def active(self) -> bool:
        """Whether it still takes effect."""

    async def removed(self) -> None:
        """Wait until it takes effect no more."""


StreamEffect = Callable[[Call, Lines, Wanted], Lines]


class PartialLine(bytes):
    """The beginning of a line whose end never comes."""

    __slots__ = ()


def cut(env: Env, *, after_lines: int | None, every_s: float | None, mid_line: bool, clean: bool) -> StreamEffect:
    """End the stream after a number of lines or a time, whichever is first; neither is set: now."""

    async def effect(call: Call, lines: Lines, rule: Wanted) -> Lines:
        count = 0
        end_s = None if every_s is None else env.clock.monotonic() + every_s
        limit = 0 if after_lines is None and every_s is None else after_lines
        async with aclosing(lines):
            while not rule.active or limit is None or count < limit:
                try:
                    async with asyncio.timeout(None if end_s is None else end_s - env.clock.monotonic()):
                        line = await anext(lines, None)
                except TimeoutError:
                    break
                if line is None:
                    return
                count += 1
                if mid_line and rule.active and count == limit:
                    yield PartialLine(line[: len(line) // 2])
                    break
                yield line
        if not clean and not mid_line:
            raise TransportError(f"{call.method} {call.path}: connection reset (a fault of the test)")

    return effect


def silence(*, after_lines: int) -> StreamEffect:
    """After some lines nothing comes any more, and nothing ends, until the rule is removed."""

    async def effect(_call: Call, lines: Lines, rule: Wanted) -> Lines:
        count = 0
        async with aclosing(lines):
            while True:
                if rule.active and count >= after_lines:
                    await rule.removed()
                line = await anext(lines, None)
                if line is None:
                    return
                if rule.active and count >= after_lines:
                    await rule.removed()
                count += 1
                yield line

    return effect


def lag(env: Env, seconds: float) -> StreamEffect:
    """Deliver each line so much later than it came."""

    async def effect(_call: Call, lines: Lines, rule: Wanted) -> Lines:
        async with aclosing(lines), _read_ahead(env, lines) as arrived:
            while (found := await arrived.get()) is not None:
                line, came_s = found
                late_s = came_s + seconds - env.clock.monotonic()
                if late_s > 0 and rule.active:
                    await env.clock.sleep(late_s)
                if isinstance(line, Exception):
                    raise line
                yield line

    return effect


def slow(env: Env, seconds_per_line: float) -> StreamEffect:
    """Read the server's stream slowly: what it sends piles up at its end."""

    async def effect(_call: Call, lines: Lines, rule: Wanted) -> Lines:
        async with aclosing(lines):
            async for line in lines:
                if rule.active:
                    await env.clock.sleep(seconds_per_line)
                yield line

    return effect


def duplicate(times: int) -> StreamEffect:
    """Deliver each event several times."""

    async def effect(_call: Call, lines: Lines, rule: Wanted) -> Lines:
        async with aclosing(lines):
            async for line in lines:
                for _ in range(times if rule.active else 1):
                    yield line

    return effect


def replay(last: int) -> StreamEffect:
    """Begin each stream with the last lines of the one before it on the same path: delivery goes back in time."""
    seen: dict[str, deque[bytes]] = {}

    async def effect(call: Call, lines: Lines, rule: Wanted) -> Lines:
        before = seen.setdefault(call.path, deque(maxlen=last))
        if rule.active and "initial" not in call.verbs:
            for line in list(before):
                yield line
        async with aclosing(lines):
            async for line in lines:
                before.append(line)
                yield line

    return effect


def changed(change: Callable[[Event], Event | None]) -> StreamEffect:
    """Put each event through a function; None drops it."""

    async def effect(_call: Call, lines: Lines, rule: Wanted) -> Lines:
        async with aclosing(lines):
            async for line in lines:
                if not rule.active:
                    yield line
                elif (event := change(msgspec.json.decode(line))) is not None:
                    yield msgspec.json.encode(event)

    return effect


def error_event(code: int, *, after_lines: int, reason: str, message: str) -> StreamEffect:
    """After some lines send an ERROR event, and end."""
    error = msgspec.json.encode({"type": "ERROR", "object": status(code, reason, message)})

    async def effect(_call: Call, lines: Lines, rule: Wanted) -> Lines:
        count = 0
        async with aclosing(lines):
            while not rule.active or count < after_lines:
                line = await anext(lines, None)
                if line is None:
                    return
                count += 1
                yield line
        yield error

    return effect


Arrived = tuple[bytes | Exception, float] | None
"""What came from the server, and when; None is the end."""


@asynccontextmanager
async def _read_ahead(env: Env, lines: Lines) -> AsyncIterator[asyncio.Queue[Arrived]]:
    """Note when lines come, however late they are taken. Not bounded: a test's stream fits into memory."""
    arrived: asyncio.Queue[Arrived] = asyncio.Queue()

    async def read() -> None:
        try:
            async for line in lines:
                arrived.put_nowait((line, env.clock.monotonic()))
        except TransportError as error:
            arrived.put_nowait((error, env.clock.monotonic()))
        else:
            arrived.put_nowait(None)

    reader = asyncio.create_task(read(), name="fault: read ahead")
    try:
        yield arrived
    finally:
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)
