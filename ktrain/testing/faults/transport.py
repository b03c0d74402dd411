"""
The rules between a client and its transport.

Works on any transport: the embedded server's, on virtual time as well, and HTTP. Time-outs are kept here, because a
fault may be that nothing ever comes: a call that waits longer than its `timeout_s`, and a stream that is silent longer
than its `idle_timeout_s`, end with TransportError as they would on a network.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from ktrain.framework.client.transport import Response, Stream
from ktrain.framework.errors import TransportError

from .calls import Call
from .revisions import Revisions
from .rules import Faults, Rule

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from ktrain.framework.client.transport import Query, Transport
    from ktrain.framework.env import Env

    from .requests import Answer, Send
    from .streams import Lines


class FaultTransport(Faults):
    """
    A transport with weather. See the package for its vocabulary.

    Args:
        inner: Where calls go that no rule keeps from it. Not closed with this one.
        env: Time and chance of the rules.
    """

    def __init__(self, inner: Transport, env: Env) -> None:
        super().__init__(env)
        self._inner = inner
        self._revisions = Revisions()
        self._open: set[_OpenStream] = set()
        self._on_added.append(self._join)

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout_s: float = 30.0,
    ) -> Response:
        """Send one request through the weather (see `Transport`)."""
        call = self._call(method, path, query, headers, body, timeout_s)
        rules = self.meeting(call)
        end_s = asyncio.get_running_loop().time() + timeout_s

        async def send() -> Answer:
            left_s = end_s - asyncio.get_running_loop().time()
            if left_s <= 0:
                # Due before the timer, in code that was stopped: a call that is late must not be sent (`Transport`).
                raise TransportError(f"{method} {path}: the time was over before the request could be sent")
            known = self._revisions
            asked, sent = known.in_query(query), known.in_body(body)
            answer = await self._inner.request(method, path, query=asked, headers=headers, body=sent, timeout_s=left_s)
            return answer._replace(body=known.in_answer(answer.body))

        try:
            async with asyncio.timeout_at(end_s):
                answer = await _through(rules, call, send)
        except TimeoutError as error:
            raise TransportError(f"{method} {path}: no answer within {timeout_s:g} s") from error
        call.status = answer.status
        return answer if isinstance(answer, Response) else await _whole(answer)

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Query = (), headers: Mapping[str, str] | None = None, idle_timeout_s: float = 75.0
    ) -> AsyncIterator[Stream]:
        """Open a stream through the weather (see `Transport`)."""
        call = self._call("GET", path, query, headers, None, idle_timeout_s)
        rules = self.meeting(call)
        async with AsyncExitStack() as stack:

            async def send() -> Answer:
                asked = self._revisions.in_query(query)
                opening = self._inner.stream(path, query=asked, headers=headers, idle_timeout_s=idle_timeout_s)
                return await stack.enter_async_context(opening)

            try:
                async with asyncio.timeout(idle_timeout_s):
                    answer = await _through(rules, call, send)
            except TimeoutError as error:
                raise TransportError(f"GET {path}: no answer within {idle_timeout_s:g} s") from error
            call.status = answer.status
            if isinstance(answer, Response):
                yield Stream(answer.status, answer.headers, _once(answer.body))
                return
            opened = _OpenStream(call, _forward(answer.lines, self._revisions))
            for rule in rules:
                opened.add(rule)
            self._open.add(opened)
            stack.callback(self._open.discard, opened)
            stack.push_async_callback(opened.aclose)
            opened.begin()
            lines = opened.lines(idle_timeout_s)
            await stack.enter_async_context(aclosing(lines))
            yield Stream(answer.status, answer.headers, lines)

    async def jump_revisions(self, by: int) -> None:
        """From now on every new resource version is higher by so much; those that are known stay as they are."""
        query = [("limit", "1")]
        answer = await self._inner.request("GET", "/api/v1/namespaces", query=query)
        current = msgspec.json.decode(answer.body)["metadata"]["resourceVersion"]
        self._revisions.jump(int(current), by)

    async def aclose(self) -> None:
        """Do nothing: connections belong to the inner transport."""

    def _call(
        self,
        method: str,
        path: str,
        query: Query,
        headers: Mapping[str, str] | None,
        body: bytes | None,
        timeout_s: float,
    ) -> Call:
        call = Call(self.env.clock.monotonic(), method, path, query, headers or {}, body, timeout_s)
        self.log.add(call)
        return call

    def _join(self, rule: Rule) -> None:
        """Lay a new rule around the streams that are open."""
        if rule.on_lines is None:
            return
        for opened in self._open:
            if rule.meets(opened.call):
                opened.call.faults.append(rule.text)
                opened.add(rule)


class _OpenStream:
    """Lines on their way through effects; more effects may come while somebody waits for the next line."""

    def __init__(self, call: Call, lines: Lines) -> None:
        self.call = call
        self._lines = lines
        self._added: list[Rule] = []
        self._changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._upcoming: set[asyncio.Task[bytes | None]] = set()
        self._first: asyncio.Task[bytes | None] | None = None

    def begin(self) -> None:
        """Let effects see lines as they come, not only as they are asked for."""
        if self._added:
            self._first = self._with_added(None)

    async def aclose(self) -> None:
        await _cancel(*self._upcoming)
        await self._lines.aclose()

    def add(self, rule: Rule) -> None:
        if rule.on_lines is not None:
            self._added.append(rule)
            if not self._changed.done():
                self._changed.set_result(None)

    async def lines(self, idle_timeout_s: float) -> Lines:
        """Yield what the effects let through; TransportError when that is nothing for `idle_timeout_s` seconds."""
        upcoming = self._first
        try:
            while True:
                upcoming = self._with_added(upcoming)
                waited: set[asyncio.Future[Any]] = {upcoming, self._changed}
                await asyncio.wait(waited, timeout=idle_timeout_s, return_when=asyncio.FIRST_COMPLETED)
                if upcoming.done():
                    line = upcoming.result()
                    upcoming = None
                    if line is None:
                        return
                    self.call.lines += 1
                    yield line
                elif not self._changed.done():
                    raise TransportError(f"GET {self.call.path}: nothing came for {idle_timeout_s:g} s")
        finally:
            await self.aclose()

    def _with_added(self, upcoming: asyncio.Task[bytes | None] | None) -> asyncio.Task[bytes | None]:
        """Lay the effects that came since around the lines; the next line, perhaps on its way, goes through them."""
        for rule in self._added:
            if rule.on_lines is not None:
                self._lines = rule.on_lines(self.call, _resumed(upcoming, self._lines), rule)
                upcoming = None
        self._added.clear()
        if self._changed.done():
            self._changed = asyncio.get_running_loop().create_future()
        if upcoming is None:
            upcoming = asyncio.create_task(_next(self._lines), name=f"faults: next line of {self.call.path}")
            self._upcoming.add(upcoming)
            upcoming.add_done_callback(self._upcoming.discard)
        return upcoming


async def _through(rules: list[Rule], call: Call, send: Send) -> Answer:
    for rule in reversed(rules):
        if rule.on_call is not None:
            send = partial(rule.on_call, call, send)
    return await send()


async def _forward(lines: AsyncIterator[bytes], revisions: Revisions) -> Lines:
    async for line in lines:
        yield revisions.in_answer(line)


async def _resumed(upcoming: asyncio.Task[bytes | None] | None, lines: Lines) -> Lines:
    """Lines whose next one is already on its way."""
    try:
        if upcoming is not None:
            line = await asyncio.shield(upcoming)
            if line is None:
                return
            yield line
        async for line in lines:
            yield line
    finally:
        await _cancel(*([upcoming] if upcoming else []))
        await lines.aclose()


async def _next(lines: Lines) -> bytes | None:
    return await anext(lines, None)


async def _cancel(*tasks: asyncio.Task[bytes | None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body


async def _whole(stream: Stream) -> Response:
    return Response(stream.status, stream.headers, b"\n".join([line async for line in stream.lines]))
