"""
What probes and Prometheus ask for, over plain HTTP: `/healthz`, `/readyz` and `/metrics`.

A check is a function that returns None if all is well, or says what is wrong. `/readyz/NAME` runs one check alone,
`?verbose` lists all, `?exclude=NAME` leaves one out, as the API server's own endpoints do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import anyio

from .serving import serving

if TYPE_CHECKING:
    from aiohttp import web
    from anyio.abc import TaskStatus
    from prometheus_client import CollectorRegistry

    from .cache.cache import Cache

Check = Callable[[], str | None]
"""None if healthy, else what is wrong. Must not wait."""


def cache_check(cache: Cache) -> Check:
    """
    Return a check for readiness: every informer has its content and may go on reading, or why not.

    One whose kind is missing does not fail it, since the CRD may come later, but is named beside what does. One that
    the API server refuses (403) fails it, also if it has content: that grows old.
    """

    def check() -> str | None:
        looks = cache.statistics()
        missing = [f"{name}: {s.last_error}" for name, s in looks.items() if s.missing]
        problems = [
            f"{name}: {s.last_error or 'no answer yet'}"
            for name, s in looks.items()
            if s.forbidden or not (s.synced or s.missing)
        ]
        return "; ".join([*problems, *(f"(note) {text}" for text in missing)]) if problems else None

    return check


class HealthServer:
    """
    Serves probes. A service of the manager.

    Args:
        host: Address to listen on; empty for all.
        port: 0 chooses one; see `port` after the start.
        live: Checks of `/healthz`: failing ones ask for a restart.
        ready: Checks of `/readyz`.
    """

    def __init__(
        self, host: str, port: int, *, live: Mapping[str, Check] | None = None, ready: Mapping[str, Check] | None = None
    ) -> None:
        self.host = host
        self.port = port
        self._checks = {"healthz": live or {}, "readyz": ready or {}}

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled. OSError if the port is taken."""
        from aiohttp import web

        app = web.Application()
        for endpoint in self._checks:
            app.router.add_get(f"/{endpoint}", self._answer)
            app.router.add_get(f"/{endpoint}/{{check}}", self._answer)
        async with serving(app, self.host, self.port) as self.port:
            task_status.started()
            await anyio.sleep_forever()

    async def _answer(self, request: web.Request) -> web.Response:
        from aiohttp import web

        checks = self._checks[request.path.split("/")[1]]
        name = request.match_info.get("check")
        if name is not None and name not in checks:
            return web.Response(status=404, text=f"there is no check named {name}\n")
        excluded = set(request.query.getall("exclude", []))
        chosen = [name] if name else [one for one in checks if one not in excluded]
        problems = {one: problem for one in chosen if (problem := checks[one]()) is not None}
        lines = [f"[-]{one} failed: {problems[one]}" if one in problems else f"[+]{one} ok" for one in chosen]
        if problems:
            return web.Response(status=500, text="\n".join([*lines, "not healthy\n"]))
        return web.Response(text="\n".join([*lines, "ok\n"]) if "verbose" in request.query else "ok")


class MetricsServer:
    """Serves a prometheus registry at `/metrics`. A service of the manager."""

    def __init__(self, host: str, port: int, registry: CollectorRegistry) -> None:
        self.host = host
        self.port = port
        self._registry = registry

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled. OSError if the port is taken."""
        from aiohttp import web

        app = web.Application()
        app.router.add_get("/metrics", self._answer)
        async with serving(app, self.host, self.port) as self.port:
            task_status.started()
            await anyio.sleep_forever()

    async def _answer(self, request: web.Request) -> web.Response:
        from aiohttp import web
        from prometheus_client.exposition import choose_encoder

        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(self._registry), headers={"Content-Type": content_type})
