"""
When a refused call is sent again, and after how long.

Only answers are retried that say the server did nothing: 429, and any 5xx that carries Retry-After. The caller sleeps
at most `budget_s` in total; a longer wait is the workqueue's business, where it holds no worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ktrain.framework.env import Env

    from .transport import Response

MAX_ATTEMPTS = 10
FIRST_DELAY_S = 0.1


async def send_with_retries(send: Callable[[], Awaitable[Response]], env: Env, *, budget_s: float) -> Response:
    """Call `send` until its answer is not a plea to come back later, or the budget is spent; return the last answer."""
    left = budget_s
    for attempt in range(MAX_ATTEMPTS):
        response = await send()
        delay = _delay_s(response, attempt, env)
        if delay is None or delay > left:
            return response
        left -= delay
        await env.clock.sleep(delay)
    return response


def _delay_s(response: Response, attempt: int, env: Env) -> float | None:
    """Seconds until the next attempt; None if this answer is final."""
    asked = retry_after_s(response)
    if response.status != 429 and (response.status < 500 or asked is None):
        return None
    # Full jitter on top of what was asked: those who were throttled together must not come back together.
    return (asked or FIRST_DELAY_S * 2.0**attempt) * env.random.uniform(1.0, 1.5)


def retry_after_s(response: Response) -> float | None:
    """The Retry-After header in seconds, if there is a usable one; the API server never sends the date form."""
    text = response.headers.get("retry-after", "")
    return float(text) if text.isdecimal() else None
