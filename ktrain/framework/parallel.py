"""Side by side, but only so many at a time: what a reconciler that makes many calls needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import anyio


async def run_all(calls: Sequence[Callable[[], Awaitable[object]]], *, limit: int) -> None:
    """
    Await all calls, at most `limit` at a time, in order of their start.

    The first error cancels the calls still running and is raised as it is; others that came with it are attached as
    its notes. Cancelling this cancels all of them.
    """
    if len(calls) == 1:
        await calls[0]()
        return
    slots = anyio.CapacityLimiter(limit)

    async def run(call: Callable[[], Awaitable[object]]) -> None:
        async with slots:
            await call()

    try:
        async with anyio.create_task_group() as group:
            for call in calls:
                group.start_soon(run, call)
    except BaseExceptionGroup as several:
        first, *others = _leaves(several)
        for other in others:
            first.add_note(f"and also: {other}")
        raise first from None


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    found: list[BaseException] = []
    for error in group.exceptions:
        found.extend(_leaves(error) if isinstance(error, BaseExceptionGroup) else [error])
    return found
