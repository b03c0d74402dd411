"""What a controller waits for before its workers begin: the content of everything it watches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import anyio
import structlog

from ktrain.framework.errors import CacheSyncTimeout

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from structlog.typing import FilteringBoundLogger

    from ktrain.framework.cache.cache import Cache
    from ktrain.framework.cache.informer import Informer

WhileMissing: TypeAlias = "Callable[[Sequence[Informer[Any]]], Coroutine[Any, Any, None]]"
"""Runs while kinds are missing, whose informers it gets; it is cancelled when all are there."""

log: FilteringBoundLogger = structlog.get_logger("ktrain.framework.controller")


async def wait_for_content(
    name: str,
    cache: Cache,
    informers: Sequence[Informer[Any]],
    timeout_s: float,
    started: Callable[[], None],
    while_missing: WhileMissing | None = None,
) -> None:
    """
    Wait for the first content of the informers that the controller `name` watches.

    Kinds that the API server does not have are waited for without limit, after `started` was called: their CRDs may
    come with the next apply, or with this operator itself; others go on meanwhile. `while_missing` gets the informers
    of those kinds, and runs until all are there.

    Raises:
        CacheSyncTimeout: One got no content in time.
    """
    try:
        await cache.wait_for_sync(timeout_s, informers=informers)
    except CacheSyncTimeout as error:
        raise CacheSyncTimeout(f"controller {name}: {error}") from None
    # Each once, though it may be watched for several reasons.
    missing = [informer for informer in dict.fromkeys(informers) if informer.missing]
    if not missing:
        return
    log.warning("controller.waiting", controller=name, missing=[one.resource.qualified_name for one in missing])
    started()
    async with anyio.create_task_group() as tasks:
        if while_missing is not None:
            tasks.start_soon(while_missing, missing, name=f"{name} while kinds are missing")
        for informer in missing:
            await informer.wait_for_sync()
        tasks.cancel_scope.cancel()


def once(call: Callable[[], None]) -> Callable[[], None]:
    """Return a function that makes this call the first time only."""
    calls = [call]
    return lambda: calls.pop()() if calls else None
