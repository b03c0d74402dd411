"""
What probes and Prometheus ask for, over HTTP: `/healthz`, `/readyz` and `/metrics`.

A check is a function that returns None if all is well, or says what is wrong. `/readyz/NAME` runs one check alone,
`?verbose` lists all, `?exclude=NAME` leaves one out, as the API server's own endpoints do.

There is one rule for detail: what a check says is always shown, by the aggregate and alone. Whoever debugs at night
needs it, and it is no secret: checks name kinds, leases and errors of the API server, no content of objects.

Checks of one request run at the same time, and each has less time than a kubelet waits for the whole answer (a second),
so that one that hangs is named and the others are heard.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import anyio
import structlog

from ktrain.framework.metrics.exposition import expose

from .site import serving

if TYPE_CHECKING:
    import ssl

    from aiohttp import web
    from anyio.abc import TaskStatus
    from prometheus_client import CollectorRegistry
    from structlog.typing import FilteringBoundLogger

    from ktrain.framework.cache.cache import Cache
    from ktrain.framework.webhook.certificates import CertificateSource

    from .authorization import Authorizer

log: FilteringBoundLogger = structlog.get_logger("ktrain.framework.serving")

METRICS: Final = "/metrics"
CHECK_TIMEOUT_S: Final = 0.8
_ADVICE: Final = "; grant this identity `list` and `watch` on the kind, and it goes on without a restart"
_ADVICE_IN: Final = "; grant this identity `list` and `watch` there, or watch this namespace no more"

Check = Callable[[], "str | Awaitable[str | None] | None"]
"""None if healthy, else what is wrong; a `Note` is healthy and has something to say. One that waits may take 0.8 s."""

Route = Callable[["web.Request"], "Awaitable[web.StreamResponse]"]


class Note(str):
    """What a check that succeeds has to say, for `?verbose`."""

    __slots__ = ()


def cache_check(cache: Cache) -> Check:
    """
    Return a check for readiness: every informer has its content and may go on reading, or why not.

    One whose kind is missing does not fail it, since the CRD may come later, but is named (`Note`). One that
    the API server refuses (403) fails it, also if it has content: that grows old. If it refuses some of the namespaces
    that are watched, these are named: a namespace that somebody deleted is no reason to stop the work in the others.
    """

    def check() -> str | None:
        looks = cache.statistics()
        notes = [
            f"{name}: {s.last_error}{_ADVICE_IN if s.shut else ''}" for name, s in looks.items() if s.missing or s.shut
        ]
        problems = [
            f"{name}: {s.last_error or 'no answer yet'}{_ADVICE if s.forbidden else ''}"
            for name, s in looks.items()
            if s.forbidden or not (s.synced or s.missing)
        ]
        if problems:
            return "; ".join([*problems, *(f"(note) {text}" for text in notes)])
        return Note("; ".join(notes)) if notes else None

    return check


class HealthServer:
    """
    Serves probes. A service of the manager.

    Args:
        host: Address to listen on; empty for all.
        port: 0 chooses one; see `port` after the start.
        live: Checks of `/healthz`: failing ones ask for a restart. Without any there is one called `ping`.
        ready: Checks of `/readyz`; the same.
        aliases: More names of `healthz` and `readyz`. These two themselves stay what they are.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        live: Mapping[str, Check] | None = None,
        ready: Mapping[str, Check] | None = None,
        aliases: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.host = host
        self.port: int = port
        self._aliases = aliases
        self._checks: dict[str, Mapping[str, Check]] = {}
        self.use(live=live or {}, ready=ready or {})

    def use(self, *, live: Mapping[str, Check], ready: Mapping[str, Check]) -> None:
        """Ask these checks from now on."""
        known = {"healthz": live or {"ping": _ping}, "readyz": ready or {"ping": _ping}}
        self._checks = {**{alias: known[name] for alias, name in self._aliases.items()}, **known}

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled. OSError if the port is taken."""
        from aiohttp import web

        app = web.Application()
        for endpoint in self._checks:
            app.router.add_get(f"/{endpoint}", self._answer)
            app.router.add_get(f"/{endpoint}/{{check}}", self._answer)
        async with serving(app, self.host, self.port, what="probes") as self.port:
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
        said = await answers({one: checks[one] for one in chosen})
        lines = [_line(one, said[one]) for one in chosen]
        if unknown := sorted(excluded - set(checks)):
            lines.append(f"there is no check named {', '.join(unknown)} to exclude")
        if any(_is_problem(one) for one in said.values()):
            return web.Response(status=500, text="\n".join([*lines, "not healthy\n"]))
        return web.Response(text="\n".join([*lines, "ok\n"]) if "verbose" in request.query or unknown else "ok")


def _ping() -> None:
    """All is well if this can be asked."""


async def answers(checks: Mapping[str, Check]) -> dict[str, str | None]:
    """Return what each check says, all asked at the same time; one that hangs or raises fails."""
    said: dict[str, str | None] = {}

    async def ask(name: str, check: Check) -> None:
        try:
            async with asyncio.timeout(CHECK_TIMEOUT_S):
                answer = check()
                said[name] = await answer if inspect.isawaitable(answer) else answer
        except TimeoutError:
            said[name] = f"no answer in {CHECK_TIMEOUT_S:g} s"
        except Exception as error:  # the boundary to checks: one that is broken fails, and says how
            log.exception("health.check_crashed", check=name)
            said[name] = repr(error)

    async with anyio.create_task_group() as tasks:
        for name, check in checks.items():
            tasks.start_soon(ask, name, check, name=f"check {name}")
    return said


def _is_problem(said: str | None) -> bool:
    return said is not None and not isinstance(said, Note)


def _line(name: str, said: str | None) -> str:
    if _is_problem(said):
        return f"[-]{name} failed: {said}"
    return f"[+]{name} ok: {said}" if said else f"[+]{name} ok"


class MetricsServer:
    """
    Serves a prometheus registry at `/metrics`, as text or as OpenMetrics (with exemplars), as the scraper asks for it.

    A service of the manager.

    Args:
        host: Address to listen on; empty for all.
        port: 0 chooses one; see `port` after the start.
        registry: What is served.
        certificates: Serve by TLS, with these.
        tls_minimum: The oldest version of TLS that is spoken. Default: 1.2.
        authorizer: Who may read; without one everybody may. It wants TLS: it is shown tokens.
        routes: More paths to serve, on the same terms. ValueError for `/metrics` itself.
    """

    def __init__(
        self,
        host: str,
        port: int,
        registry: CollectorRegistry,
        *,
        certificates: CertificateSource | None = None,
        tls_minimum: ssl.TLSVersion | None = None,
        authorizer: Authorizer | None = None,
        routes: Mapping[str, Route] | None = None,
    ) -> None:
        self.host = host
        self.port: int = port
        self._registry = registry
        self._certificates = certificates
        self._tls_minimum = tls_minimum
        self._authorizer = authorizer
        self._routes = dict(routes or {})
        for path in self._routes:
            if path == METRICS or not path.startswith("/"):
                raise ValueError(f"{path!r} cannot be served beside {METRICS}: it must be another path, from /")

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled. OSError if the port is taken, or the first certificate cannot be read."""
        from aiohttp import web

        app = web.Application()
        for path, route in {METRICS: self._answer, **self._routes}.items():
            app.router.add_get(path, self._authorized(route))
        async with anyio.create_task_group() as tasks:
            tls: ssl.SSLContext | None = None
            if self._certificates is not None:
                from ktrain.framework.webhook.certificates import ServingContext

                context = ServingContext(tls_minimum=self._tls_minimum) if self._tls_minimum else ServingContext()
                await tasks.start(self._certificates.run, context.use, name="metrics certificates")
                tls = context.context
            async with serving(app, self.host, self.port, tls=tls, what="metrics") as self.port:
                task_status.started()
                await anyio.sleep_forever()

    def _authorized(self, route: Route) -> Route:
        authorizer = self._authorizer
        if authorizer is None:
            return route

        async def ask_first(request: web.Request) -> web.StreamResponse:
            from aiohttp import web

            verdict = await authorizer.check(request.headers.get("Authorization", ""), request.method, request.path)
            if verdict.code != 200:
                return web.Response(status=verdict.code, text=f"{verdict.reason}\n")
            return await route(request)

        return ask_first

    async def _answer(self, request: web.Request) -> web.Response:
        from aiohttp import web

        body, content_type = expose(self._registry, request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})
