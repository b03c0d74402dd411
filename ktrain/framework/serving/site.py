"""An aiohttp application on a socket, for a while. aiohttp is imported by those who serve, not by those who could."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator

    from aiohttp import web

SHUTDOWN_S = 5.0


@asynccontextmanager
async def serving(
    app: web.Application, host: str, port: int, *, tls: ssl.SSLContext | None = None, what: str = ""
) -> AsyncIterator[int]:
    """
    Serve during the block and yield the port, which is new if 0 was asked for.

    At the end requests under way have five seconds. `what` is served, for the text of the error.

    Raises:
        OSError: The address is taken, or not one of this machine; the text names it.
    """
    from aiohttp import web

    runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_S)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host or None, port, ssl_context=tls)
        try:
            await site.start()
        except OSError as error:
            purpose = f"{what}: " if what else ""
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise OSError(error.errno, f"{purpose}cannot listen on {host}:{port}: {reason}") from error
        yield runner.addresses[0][1]
    finally:
        with anyio.CancelScope(shield=True):
            await runner.cleanup()
