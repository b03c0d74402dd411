"""A scripted API server behind the transport seam."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec
import pytest

from ktrain.framework.client.transport import Response, Stream
from ktrain.framework.errors import TransportError


@dataclass
class Call:
    """One request as it reached the transport."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes | None
    timeout_s: float


@dataclass
class Script:
    """
    A transport that plays prepared answers, one list for requests and one for streams.

    A stream is a list of lines; an exception in it is raised there, a number is a pause in seconds. When the streams
    are used up, the next one stays silent for ever.
    """

    answers: deque = field(default_factory=deque)
    streams: deque = field(default_factory=deque)
    calls: list[Call] = field(default_factory=list)

    async def request(self, method, path, *, query=(), headers=None, body=None, timeout_s=30.0):
        self.calls.append(Call(method, path, dict(query), dict(headers or {}), body, timeout_s))
        await asyncio.sleep(0)
        answer = self.answers.popleft()
        if isinstance(answer, Exception):
            raise answer
        status, document, *rest = answer
        return Response(status, rest[0] if rest else {}, msgspec.json.encode(document))

    @asynccontextmanager
    async def stream(self, path, *, query=(), headers=None, idle_timeout_s=75.0):
        self.calls.append(Call("WATCH", path, dict(query), dict(headers or {}), None, idle_timeout_s))
        await asyncio.sleep(0)
        lines = self.streams.popleft() if self.streams else [float("inf")]
        if isinstance(lines, tuple):
            yield Stream(lines[0], {}, _play([lines[1]], idle_timeout_s))
        else:
            yield Stream(200, {}, _play(lines, idle_timeout_s))

    async def aclose(self):
        pass


async def _play(lines, idle_timeout_s):
    for line in lines:
        if isinstance(line, Exception):
            raise line
        if isinstance(line, int | float):
            await asyncio.sleep(min(line, idle_timeout_s))
            if line > idle_timeout_s:
                raise TransportError("nothing came")
            continue
        yield line if isinstance(line, bytes) else msgspec.json.encode(line)


@pytest.fixture
def script():
    return Script()
