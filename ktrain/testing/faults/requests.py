"""
What may happen to one call.

An effect gets the call and `send`, which passes it on (to the next effect, at last to the server) and returns the
answer; for a watch the answer is the open stream. Effects that let a caller wait simply wait: that it gives up at its
time-out is the transport's doing, in process as between sockets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import msgspec

from ktrain.framework.client.transport import Response, Stream
from ktrain.framework.errors import TransportError

from .calls import Call

if TYPE_CHECKING:
    from ktrain.framework.env import Env

Answer = Response | Stream
Send = Callable[[], Awaitable[Answer]]
RequestEffect = Callable[[Call, Send], Awaitable[Answer]]
Seconds = float | tuple[float, float]
"""A time, or the ends of a range that one is drawn from."""

REASONS: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


def delayed(env: Env, before_s: Seconds, after_s: Seconds) -> RequestEffect:
    """Wait before the call is sent, and again before its answer is given."""

    async def effect(_call: Call, send: Send) -> Answer:
        if before := _draw(env, before_s):
            await env.clock.sleep(before)
        answer = await send()
        if after := _draw(env, after_s):
            await env.clock.sleep(after)
        return answer

    return effect


def answered(code: int, *, reason: str, message: str, retry_after_s: int | None, committed: bool) -> RequestEffect:
    """Answer with a Status instead of the server; the server gets the call only if it is `committed`."""

    async def effect(_call: Call, send: Send) -> Answer:
        if committed:
            await send()
        headers = {"content-type": "application/json"}
        if retry_after_s is not None:
            headers["retry-after"] = str(retry_after_s)
        return Response(code, headers, status_body(code, reason, message, retry_after_s))

    return effect


def lost(*, committed: bool, at_once: bool) -> RequestEffect:
    """No answer: the connection fails (`at_once`), or nothing comes until the caller gives up."""

    async def effect(call: Call, send: Send) -> Answer:
        if committed:
            await send()
        if at_once:
            done = "reset" if committed else "refused"
            raise TransportError(f"{call.method} {call.path}: connection {done} (a fault of the test)")
        await asyncio.Event().wait()
        raise AssertionError("the time-out of the call ends this wait")

    return effect


def status_body(code: int, reason: str = "", message: str = "", retry_after_s: int | None = None) -> bytes:
    """Encode a metav1.Status; `reason` is by default the one that API servers give with the code."""
    return msgspec.json.encode(status(code, reason, message, retry_after_s))


def status(code: int, reason: str = "", message: str = "", retry_after_s: int | None = None) -> dict[str, object]:
    """Return a metav1.Status."""
    details = {} if retry_after_s is None else {"details": {"retryAfterSeconds": retry_after_s}}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message or "a fault of the test",
        "reason": reason or REASONS.get(code, ""),
        **details,
        "code": code,
    }


def _draw(env: Env, seconds: Seconds) -> float:
    return env.random.uniform(*seconds) if isinstance(seconds, tuple) else seconds
