"""
Admission webhooks (admission.k8s.io/v1) over TLS.

A handler is a plain function from an `AdmissionRequest` to `Allowed` or `Denied`. A mutating one returns the object as
it should be, and the patch is computed from the object *as it came*, so fields that nobody here knows survive. Whatever
goes wrong, the answer is a valid review with the request's UID and HTTP status 200: the API server reads a code inside
the review as a refusal with a reason, but anything else as a webhook that is down.

Certificates are read from a directory, as Secrets and cert-manager mount them, and again when they change; a pair that
does not fit is ignored, and the last good one goes on serving.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread
import msgspec
import structlog

from ktrain.api.meta import Json, Struct

from .deepjson import cut
from .jsondiff import json_diff
from .metrics import Metrics
from .metrics.webhook import WebhookMetrics
from .serving import serving

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from aiohttp import web
    from anyio.abc import TaskStatus

    from .env import Env

log = structlog.get_logger("ktrain.framework.webhook")

MAX_BODY_BYTES: Final = 7 << 20
"""Old and new object of 3 MB each, and room for the envelope."""
RELOAD_S: Final = 10.0
_LEVELS_TO_UID: Final = 2
"""The review, and its request."""


class GroupVersionKind(Struct, frozen=True):
    """What kind a request is about."""

    group: str = ""
    version: str = ""
    kind: str = ""


class UserInfo(Struct, frozen=True):
    """Who asked."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()


class AdmissionRequest(Struct, frozen=True):
    """One request that the API server is about to carry out. Objects are dicts; None where there is none."""

    uid: str = ""
    kind: GroupVersionKind = GroupVersionKind()
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    operation: str = ""
    user_info: UserInfo = UserInfo()
    object: Json | None = None
    old_object: Json | None = None
    dry_run: bool = False
    options: Json | None = None


@dataclass(frozen=True, slots=True)
class Allowed:
    """Carry it out; `object` replaces the one in the request, `warnings` are shown to the user."""

    object: Json | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Denied:
    """Refuse it, with a sentence for the user, an HTTP code, and optionally the causes of a 422."""

    message: str
    code: int = 403
    reason: str = ""
    causes: tuple[Json, ...] = field(default=())


AdmissionHandler = Callable[[AdmissionRequest], Allowed | Denied]


class _Review(Struct, frozen=True):
    api_version: str = ""
    kind: str = ""
    request: AdmissionRequest | None = None


class _Named(Struct, frozen=True):
    """The part of a review that its answer must repeat."""

    class Request(Struct, frozen=True):
        uid: str = ""

    request: Request = Request()


class WebhookServer:
    """
    Serves admission handlers. A service of the manager.

    Args:
        handlers: By URL path.
        cert_dir: Holds `tls.crt` and `tls.key`.
        env: Time, for looking at the certificates.
        host: Address to listen on; empty for all.
        port: 0 chooses one; see `port` after the start.
        metrics: For latency and answers.
    """

    def __init__(
        self,
        handlers: Mapping[str, AdmissionHandler],
        cert_dir: Path,
        env: Env,
        *,
        host: str = "",
        port: int = 9443,
        metrics: Metrics | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self._handlers = handlers
        self._cert_dir = cert_dir
        self._env = env
        metrics = metrics or Metrics()
        self._metrics = {path: WebhookMetrics.of(metrics, path) for path in handlers}

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled. OSError if the port is taken or the first certificate cannot be read."""
        from aiohttp import web

        app = web.Application(client_max_size=MAX_BODY_BYTES)
        for path in self._handlers:
            app.router.add_post(path, self._answer)
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.minimum_version = ssl.TLSVersion.TLSv1_2
        stamp = await anyio.to_thread.run_sync(self._load, tls)
        async with serving(app, self.host, self.port, tls=tls) as self.port:
            task_status.started()
            while True:
                await self._env.clock.sleep(RELOAD_S)
                stamp = await anyio.to_thread.run_sync(self._reload, tls, stamp)

    async def _answer(self, request: web.Request) -> web.Response:
        from aiohttp import web

        metrics = self._metrics[request.path]
        started = self._env.clock.monotonic()
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            answer = _review("", Denied(f"the request is larger than {MAX_BODY_BYTES} bytes", 413))
        else:
            answer = respond(self._handlers[request.path], body, request.content_type)
        metrics.latency(self._env.clock.monotonic() - started)
        metrics.requests("200")
        return web.Response(body=msgspec.json.encode(answer), content_type="application/json")

    def _load(self, tls: ssl.SSLContext) -> tuple[int, int]:
        crt, key = self._cert_dir / "tls.crt", self._cert_dir / "tls.key"
        # The stamp is taken first: a change while loading is then seen the next time.
        stamp = (crt.stat().st_mtime_ns, key.stat().st_mtime_ns)
        tls.load_cert_chain(crt, key)
        return stamp

    def _reload(self, tls: ssl.SSLContext, stamp: tuple[int, int]) -> tuple[int, int]:
        """Load the pair again if it changed. New connections get it at once."""
        try:
            crt, key = self._cert_dir / "tls.crt", self._cert_dir / "tls.key"
            if (crt.stat().st_mtime_ns, key.stat().st_mtime_ns) == stamp:
                return stamp
            # A pair that does not fit must not touch the live settings.
            self._load(ssl.create_default_context(ssl.Purpose.CLIENT_AUTH))
            stamp = self._load(tls)
        except OSError as error:  # ssl.SSLError is one
            log.warning("webhook.certificate_unreadable", directory=str(self._cert_dir), error=str(error))
        else:
            log.info("webhook.certificate_reloaded", directory=str(self._cert_dir))
        return stamp


def respond(handler: AdmissionHandler, body: bytes, content_type: str = "application/json") -> Json:
    """Answer one AdmissionReview. Never raises: what goes wrong is a refusal inside a valid review."""
    if content_type != "application/json":
        return _review("", Denied(f"the content type is {content_type}, not application/json", 400))
    try:
        review = msgspec.json.decode(body, type=_Review)
    except (msgspec.MsgspecError, RecursionError) as error:
        what = "is nested too deeply" if isinstance(error, RecursionError) else f"is no AdmissionReview: {error}"
        return _review(_uid_of(body), Denied(f"the request {what}", 400))
    request = review.request
    if request is None:
        return _review("", Denied("the AdmissionReview has no request", 400))
    try:
        verdict = handler(request)
        if isinstance(verdict, Denied) or verdict.object is None:
            return _review(request.uid, verdict)
        # Decoded again: the handler may have built its answer by changing the object it was given.
        original = msgspec.json.decode(body, type=_Review).request
        return _review(request.uid, verdict, json_diff(original and original.object, verdict.object))
    except Exception as error:
        # The boundary to handlers: their bugs are this request's refusal, not a dead server.
        log.exception("webhook.crashed", operation=request.operation, kind=request.kind.kind, name=request.name)
        return _review(request.uid, Denied(f"the webhook failed: {error!r}", 500))


def _uid_of(body: bytes) -> str:
    """Find the UID of a request that cannot be decoded whole: an answer without it counts as none."""
    shallow, _ = cut(body, _LEVELS_TO_UID)
    try:
        return msgspec.json.decode(shallow, type=_Named).request.uid
    except msgspec.MsgspecError:
        return ""


def _review(uid: str, verdict: Allowed | Denied, patch: Sequence[Json] = ()) -> Json:
    response: Json = {"uid": uid, "allowed": isinstance(verdict, Allowed)}
    if isinstance(verdict, Denied):
        status: Json = {"status": "Failure", "message": verdict.message, "code": verdict.code}
        if verdict.reason:
            status["reason"] = verdict.reason
        if verdict.causes:
            status["details"] = {"causes": list(verdict.causes)}
        response["status"] = status
    else:
        if verdict.warnings:
            response["warnings"] = list(verdict.warnings)
        if patch:
            response["patchType"] = "JSONPatch"
            response["patch"] = msgspec.json.encode(patch)  # bytes become base64, as the API wants
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
