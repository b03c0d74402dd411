"""
Waiting for a fact that no event tells of: what another process, a thread or a server has come to by now.

What is in one process with the test has an event, or runs on virtual time, and is not asked again and again.
"""

import asyncio
import inspect


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
        raise TimeoutError(f"not within {within_s:g} s; the last answer: {answer!r}") from None


def anything(_answer):
    """Fits every answer: it is waited until there is one."""
    return True
