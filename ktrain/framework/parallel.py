"""Several calls at once, with a bound; and the one error inside a group of errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable


async def run_all(calls: Iterable[Callable[[], Awaitable[Any]]], *, limit: int) -> None:
    """
    Run every call, at most `limit` at a time, and return when all are done; results are dropped.

    One failure does not stop the others: most writes of a pass are worth doing although one was refused. Afterwards
    the first error is raised as it is. Cancellation cancels all.
    """
    queue = list(calls)
    if len(queue) <= 1:  # most often there is nothing to do, or one thing: a task group costs more than that
        for call in queue:
            await call()
        return
    pending = iter(queue)
    errors: list[Exception] = []

    async def work() -> None:
        for call in pending:
            try:
                await call()
            except Exception as error:  # noqa: BLE001 - raised below, when the others have had their turn
                errors.append(error)

    async with anyio.create_task_group() as tasks:
        for _ in range(min(limit, len(queue)) - 1):
            tasks.start_soon(work)
        await work()  # the first call begins at once
    if errors:
        raise errors[0]


def unwrap(error: BaseException) -> BaseException:
    """
    Return the one error inside exception groups; a group of several as it is.

    Task groups wrap everything; callers want the error that they can catch by its type.
    """
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def first_cause(error: BaseException) -> BaseException:
    """
    Return the first error inside exception groups, also of a group of several.

    For whoever has one line to say why something ended: a command, the status of a pod.
    """
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
