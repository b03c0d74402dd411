"""The start of an operator, before it has a manager: what it waits for, and how it is stopped then."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from ktrain.framework.parallel import unwrap

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from ktrain.framework.manager.groups import Runnable


class Startup:
    """
    Runs the setup of an operator.

    Attributes:
        waits_for: What the setup waits for now, in words for `/readyz`.
        began: Whether `run` was called.
    """

    def __init__(self) -> None:
        self.waits_for: str = "its setup"
        self.began: bool = False
        self._scope: anyio.CancelScope | None = None

    async def run(self, setup: Callable[[], Awaitable[None]] | None) -> bool:
        """Run the setup to its end; return False if `stop` was called instead."""
        self.began = True
        with anyio.CancelScope() as self._scope:
            if setup is not None:
                await setup()
        return not self._scope.cancel_called

    def stop(self) -> None:
        """Cancel the setup. Without effect before and after it."""
        if self._scope is not None:
            self._scope.cancel()

    def check(self) -> str:
        """Return what `/readyz` says until the setup is done."""
        return f"the operator starts and waits for {self.waits_for}"


@asynccontextmanager
async def running(service: Runnable) -> AsyncIterator[None]:
    """Run a service around the block. Its error cancels the block and is raised as it is, as is the block's own."""
    try:
        async with anyio.create_task_group() as tasks:
            await tasks.start(service.run, name="probes")
            yield
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise unwrap(group) from None
