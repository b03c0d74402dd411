"""An aiohttp application on a socket, for a while. aiohttp is imported by those who serve, not by those who could."""

from __future__ import annotations

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
    app: web.Application, host: str, port: int, *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """
    Serve during the block and yield the port, which is new if 0 was asked for.

    At the end requests under way have five seconds.

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
            raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror or error}") from error
        yield runner.addresses[0][1]
    finally:
        with anyio.CancelScope(shield=True):
            await runner.cleanup()
