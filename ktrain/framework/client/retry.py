"""
When a call is sent again, and after how long.

Only failures are retried after which nothing can have happened twice: answers that say the server did nothing (429, and
any 5xx that carries Retry-After), and a lost connection if the call was a read. A call goes on for at most `budget_s`
after its first attempt; a longer wait is the workqueue's business, where it holds no worker. So one object that is
throttled for long costs its own key a worker for the budget, and no other key anything more.

A read that failed by its time-out is not tried again either: by then the budget is spent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ktrain.framework.errors import ApiError, FrameworkError, TransportError, error_from

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from ktrain.framework.env import Env

    from .transport import Response

MAX_ATTEMPTS = 10
FIRST_DELAY_S = 0.1

OnRetry = Callable[[str], None]
"""Told the code of each answer after which a call is sent again; `<error>` for a lost connection."""

NO_ANSWER = "<error>"
"""What stands in metrics for the code of an answer that did not come."""


async def send_with_retries(
    send: Callable[[], Awaitable[Response]], env: Env, *, method: str, path: str, budget_s: float, on_retry: OnRetry
) -> Response:
    """
    Call `send` until it succeeds, fails for good, or the budget is spent.

    Raises:
        ApiError, TransportError: The last failure; the earlier ones are at the end of its chain of causes.
    """
    give_up_at_s = env.clock.monotonic() + budget_s
    earlier: FrameworkError | None = None
    attempt = 0
    while True:
        failure: ApiError | TransportError
        try:
            response = await send()
        except TransportError as error:
            failure, code = error, NO_ANSWER
            delay = _backoff_s(attempt, env) if method == "GET" else None
        else:
            if response.status < 400:
                return response
            asked_s = retry_after_s(response.headers) or 0
            failure = error_from(response.status, response.body, method=method, path=path, retry_after_s=asked_s)
            code = str(response.status)
            delay = None if _is_disruption(failure) else _asked_delay_s(response, attempt, env)
        _chain(failure, earlier)
        attempt += 1
        if delay is None or attempt == MAX_ATTEMPTS or env.clock.monotonic() + delay > give_up_at_s:
            try:
                raise failure
            finally:
                del failure, earlier  # else error and frame hold each other until the garbage collector comes
        earlier = failure
        on_retry(code)
        await env.clock.sleep(delay)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """The Retry-After header in seconds, if there is a usable one; the API server never sends the date form."""
    text = headers.get("retry-after", "")
    return float(text) if text.isdecimal() else None


def _is_disruption(refusal: ApiError) -> bool:
    """Whether a budget forbids an eviction: that is a 429, too, but the server is not busy, and pods take long."""
    return any(cause.reason == "DisruptionBudget" for cause in refusal.status.details.causes)


def _asked_delay_s(response: Response, attempt: int, env: Env) -> float | None:
    """Seconds until the next attempt after a refusal; None if it is final."""
    asked = retry_after_s(response.headers)
    if response.status != 429 and (response.status < 500 or asked is None):
        return None
    # Jitter on top of what was asked: those who were throttled together must not come back together.
    return asked * env.random.uniform(1.0, 1.5) if asked else _backoff_s(attempt, env)


def _backoff_s(attempt: int, env: Env) -> float:
    return FIRST_DELAY_S * 2.0**attempt * env.random.uniform(1.0, 1.5)


def _chain(error: BaseException, earlier: BaseException | None) -> None:
    """Put an earlier failure behind the first cause of a later one."""
    chain = [error]
    while (cause := chain[-1].__cause__) is not None:
        chain.append(cause)
    before = earlier
    while before is not None:
        if before in chain:
            return  # a transport that raises one and the same error again: a chain must not become a ring
        before = before.__cause__
    chain[-1].__cause__ = earlier
