"""
Waiting for a fact that no event tells of: what another process, a thread or a server has come to by now.

What is in one process with the test has an event, or runs on virtual time, and is not asked again and again.
"""

import asyncio
import inspect
import time

TOO_LATE = "not within {:g} s; the last answer: {!r}"


async def until(ask, fits=bool, *, despite=(), within_s=20.0, every_s=0.05):
    """
    Ask, by a function or a coroutine function, until the answer fits; returns it.

    Errors of the kinds in `despite` are answers that do not fit. TimeoutError, with the last answer, if none does.
    """
    answer = "there was none"
    try:
        async with asyncio.timeout(within_s):
            while True:
                try:
                    answer = ask()
                    if inspect.isawaitable(answer):
                        answer = await answer
                except despite as error:
                    answer = error
                else:
                    if fits(answer):
                        return answer
                await asyncio.sleep(every_s)
    except TimeoutError:
        raise TimeoutError(TOO_LATE.format(within_s, answer)) from None


def eventually(ask, fits=bool, *, despite=(), within_s=20.0, every_s=0.05):
    """As `until`, for tests and threads without an event loop."""
    deadline_s = time.monotonic() + within_s
    while True:
        try:
            answer = ask()
        except despite as error:
            answer = error
        else:
            if fits(answer):
                return answer
        if time.monotonic() > deadline_s:
            raise TimeoutError(TOO_LATE.format(within_s, answer))
        time.sleep(every_s)


def anything(_answer):
    """Fits every answer: it is waited until there is one."""
    return True
