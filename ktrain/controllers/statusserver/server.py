"""
The HTTPS server that takes reports. Requests are looked at in the order, and answered in the words, of Kubeflow's.

    size -> route -> token -> body -> job -> schema -> 200

The answer says that the report will be stored, not that it has been. What a request may cost is bounded: connections,
their silence, the body, and reviews of tokens.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread
import msgspec
import structlog

from ktrain.api.meta import Key
from ktrain.framework.errors import FrameworkError
from ktrain.framework.serving.dial import DIAL_S, dial
from ktrain.framework.webhook.certificates import ServingContext
from ktrain.plugins import trainjobstatus

from .report import NoReport, decode, problem

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from aiohttp import web
    from anyio.abc import TaskStatus
    from structlog.typing import FilteringBoundLogger

    from ktrain.api import trainer as api
    from ktrain.framework.cache.informer import Informer
    from ktrain.framework.env import Env
    from ktrain.framework.serving.connections import Limits
    from ktrain.framework.webhook.certificates import CertificateSource

    from .tokens import Tokens
    from .writer import Writer

log: FilteringBoundLogger = structlog.get_logger(__name__)

MAX_BODY_BYTES: Final = 64 << 10
BODY_S: Final = 10.0
_PATH: Final = re.compile(
    trainjobstatus.path(Key("NAMESPACE", "NAME")).replace("NAMESPACE", "([^/]+)").replace("NAME", "([^/]+)")
)


class Refused(Exception):
    """The answer to a request that gets no other."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = int(code)
        self.reason = reason
        self.message = message

    @property
    def body(self) -> bytes:
        """As Kubeflow's server writes it: a Status without its kind."""
        said = {"status": "Failure", "message": self.message, "reason": self.reason, "code": self.code}
        return msgspec.json.encode({"metadata": {}, **said})


class StatusServer:
    """
    Serves reports. A service of the manager, in every replica.

    Args:
        jobs: Which TrainJobs there are.
        tokens: Who may report.
        writer: Where reports go. Run and closed here.
        certificates: To serve with.
        env: Time.
        host: Address to listen on; empty for all.
        port: 0 chooses one; see `port` after the start.
        sockets: To serve on, bound already; the first is at `host`. Closed at the end.
        tls_minimum: The oldest version of TLS that is spoken.
        limits: What clients may cost.
    """

    needs_leader: Final = False

    def __init__(
        self,
        jobs: Informer[api.TrainJob],
        tokens: Tokens,
        writer: Writer,
        certificates: CertificateSource,
        env: Env,
        *,
        host: str = "",
        port: int = 10443,
        sockets: Sequence[socket.socket] = (),
        tls_minimum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2,
        limits: Limits | None = None,
    ) -> None:
        self.host = host
        self.port: int = port
        self._sockets = sockets
        self._jobs = jobs
        self._tokens = tokens
        self._writer = writer
        self._certificates = certificates
        self._env = env
        self._context = partial(ServingContext, tls_minimum=tls_minimum)
        self._limits = limits
        self._problem: str | None = "the status server does not listen yet"

    def check(self) -> str | None:
        """Say what is wrong, for probes; None if a TLS connection to ourselves met the latest certificate."""
        return self._problem

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """
        Serve until cancelled; then requests under way are answered, and what waits is stored, for five seconds each.

        Raises:
            OSError: The port is taken, or the first certificate cannot be read.
        """
        from ktrain.framework.serving.connections import Limits, listening

        tls = await anyio.to_thread.run_sync(self._context)
        async with anyio.create_task_group() as tasks:
            await tasks.start(self._writer.run, name="trainer status writer")
            try:
                await tasks.start(self._certificates.run, tls.use, name="status server certificates")
                serving = listening(
                    self._answer,
                    self.host,
                    self.port,
                    limits=self._limits or Limits(),
                    tls=tls.context,
                    sockets=self._sockets,
                )
                async with serving as self.port:
                    while True:
                        self._problem = await dial(self.host, self.port, tls)
                        task_status.started()
                        task_status = anyio.TASK_STATUS_IGNORED
                        await self._env.clock.sleep(DIAL_S)
            finally:
                self._writer.close()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        from aiohttp import web

        try:
            code, body = HTTPStatus.OK.value, await self._take(request)
        except Refused as refused:
            code, body = refused.code, refused.body
        except ConnectionError:
            raise
        except Exception:  # the boundary to the network: whatever it is, it costs this request only
            log.exception("statusserver.crashed", path=request.path)
            crash = Refused(HTTPStatus.INTERNAL_SERVER_ERROR, "InternalError", "Internal Server Error")
            code, body = crash.code, crash.body
        return web.Response(status=code, body=body, content_type="application/json")

    async def _take(self, request: web.BaseRequest) -> bytes:
        """
        Take a report; returns what is answered.

        Raises:
            Refused: It is not taken.
        """
        if (request.content_length or 0) > MAX_BODY_BYTES:
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "RequestEntityTooLarge", "Payload too large")
        match = _PATH.fullmatch(request.path)
        if match is None or request.method != "POST":
            raise Refused(HTTPStatus.NOT_FOUND, "NotFound", "Not found")
        key = Key(match[1], match[2])
        await self._authorize(request.headers.get("Authorization", ""), key)
        try:
            report = decode(await _read(request))
        except (NoReport, TimeoutError) as error:
            log.debug("statusserver.no_report", trainjob=str(key), error=str(error))
            raise _invalid("Invalid payload") from error
        answer = report.as_json()
        if report.trainer_status is not None:
            job = self._jobs.get(key)
            if job is None:
                raise Refused(HTTPStatus.NOT_FOUND, "NotFound", "Train job not found")
            if wrong := problem(key, answer):
                raise _invalid(wrong)
            # The schema wants it.
            when = report.trainer_status.last_updated_time or self._env.clock.now()
            self._writer.put(key, job.metadata.uid, answer, when=when, terminal=report.is_terminal)
        return msgspec.json.encode(answer)

    async def _authorize(self, authorization: str, key: Key) -> None:
        job = self._jobs.get(key)
        since = job.metadata.creation_timestamp if job else None
        try:
            audience = trainjobstatus.audience(key)
            admitted = await self._tokens.admits(authorization, audience, key.namespace, since=since)
        except (FrameworkError, msgspec.MsgspecError) as error:
            log.warning("statusserver.review_failed", trainjob=str(key), error=str(error))
            raise Refused(HTTPStatus.INTERNAL_SERVER_ERROR, "InternalError", "Internal error") from error
        if not admitted:
            raise Refused(HTTPStatus.FORBIDDEN, "Forbidden", "Forbidden")


def _invalid(message: str) -> Refused:
    return Refused(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid", message)


async def _read(request: web.BaseRequest) -> bytes:
    """
    Read the body; not much more than may be in it is ever kept.

    Raises:
        NoReport: It is too large, which only a body that does not say its length can be by now.
        TimeoutError: It does not come.
    """
    body = bytearray()
    async with asyncio.timeout(BODY_S):
        if request.headers.get("Expect", "").lower() == "100-continue":  # some curls ask before they send
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0
        while chunk := await request.content.readany():
            body += chunk
            if len(body) > MAX_BODY_BYTES:
                raise NoReport(f"more than {MAX_BODY_BYTES} bytes")
    return bytes(body)
