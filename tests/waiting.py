"""
Waiting for a fact that no event tells of: what another process, a thread or a server has come to by now.

What is in one process with the test has an event, or runs on virtual time, and is not asked again and again.
"""

import asyncio
import inspect


async def until(ask, fits=bool, *, within_s=20.0, every_s=0.05):
    """Ask, by a function or a coroutine function, until the answer fits; returns it. TimeoutError if none does."""
    async with asyncio.timeout(within_s):
        while True:
            answer = ask()
            if inspect.isawaitable(answer):
                answer = await answer
            if fits(answer):
                return answer
            await asyncio.sleep(every_s)
