"""
Admission (admission.k8s.io): handlers that allow, change or refuse what the API server is about to do.

A handler is a function from an `AdmissionRequest` to `Allowed` or `Denied`; if it has to wait for something, a
coroutine function, whose time ends before the API server's does. A mutating one returns the object as it should be,
and the patch is computed from the object *as it came*, so fields that nobody here knows survive.

Whatever goes wrong, the answer is a valid review with the request's UID and HTTP status 200: the API server reads a
code inside the review as a refusal with a reason, but anything else as a webhook that is down. A handler that crashes
or runs out of time therefore refuses, also where `failurePolicy` is Ignore: that is for webhooks that cannot be
reached, not for those with a bug.

    def check(request: AdmissionRequest) -> Verdict:
        website = request.decode(WEBSITES)          # a 400 with the path of the field, if it does not fit
        return Allowed() if website.spec.replicas < 10 else Denied("spec.replicas: at most 9", 422, "Invalid")

    WebhookServer({"/mutate": defaulter(add_defaults), "/validate": [check, check_quota]}, ...)
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeVar

import anyio
import msgspec
import structlog

from ktrain.api.meta import Json, Struct
from ktrain.framework.client.codec import UNFIT, codec_for
from ktrain.framework.deepjson import cut
from ktrain.framework.errors import ApiError, DecodeError, FrameworkError
from ktrain.framework.jsondiff import json_diff

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from ktrain.api.meta import Resource
    from ktrain.framework.metrics.registry import Add

T = TypeVar("T")

log: FilteringBoundLogger = structlog.get_logger("ktrain.framework.webhook")

GROUP: Final = "admission.k8s.io"
KIND: Final = "AdmissionReview"
VERSIONS: Final = ("v1", "v1beta1")
HANDLER_LIMIT_S: Final = 9.0
"""The API server waits 10 s unless its configuration says otherwise; a refusal that says why must arrive before."""
_LEVELS_TO_UID: Final = 2
"""The review, and its request."""


class GroupVersionKind(Struct, frozen=True):
    """What kind a request is about."""

    group: str = ""
    version: str = ""
    kind: str = ""


class GroupVersionResource(Struct, frozen=True):
    """Under what name a kind is served."""

    group: str = ""
    version: str = ""
    resource: str = ""


class UserInfo(Struct, frozen=True):
    """Who asked."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class AdmissionRequest(Struct, frozen=True):
    """
    One request that the API server is about to carry out. Objects are dicts; None where there is none.

    `kind` and `resource` are what the webhook's rules matched; `request_kind` and `request_resource` what the user
    asked for, in another version perhaps.
    """

    uid: str = ""
    kind: GroupVersionKind = GroupVersionKind()
    resource: GroupVersionResource = GroupVersionResource()
    sub_resource: str = ""
    request_kind: GroupVersionKind | None = None
    request_resource: GroupVersionResource | None = None
    request_sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    operation: str = ""
    user_info: UserInfo = UserInfo()
    object: Json | None = None
    old_object: Json | None = None
    dry_run: bool = False
    options: Json | None = None

    def decode(self, resource: Resource[T]) -> T:
        """Return the object as the resource's type. `Refused` (400, with the path of the field) if it does not fit."""
        return _decode(resource, self.object, "object")

    def decode_old(self, resource: Resource[T]) -> T:
        """Return the object as it was before, as the resource's type; raises `Refused` like `decode`."""
        return _decode(resource, self.old_object, "oldObject")


@dataclass(frozen=True, slots=True)
class Allowed:
    """
    Carry it out; `object` replaces the one in the request, `warnings` are shown to the user.

    A DELETE has no object to replace, so `object` is ignored there.
    """

    object: Json | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Denied:
    """Refuse it, with a sentence for the user, an HTTP code, and optionally the causes of a 422, with their object."""

    message: str
    code: int = 403
    reason: str = ""
    causes: tuple[Json, ...] = field(default=())
    warnings: tuple[str, ...] = ()
    details: Json = field(default_factory=dict)
    """Name, group and kind, as `Status.details` has them."""


Verdict = Allowed | Denied
"""The answer of an admission handler."""

AdmissionHandler = Callable[[AdmissionRequest], Verdict | Awaitable[Verdict]]
"""Plain functions run on the event loop and must not wait; coroutine functions may, for `HANDLER_LIMIT_S`."""

Handlers = AdmissionHandler | Sequence[AdmissionHandler]
"""The handlers of one path, in order: each sees what the one before made of the object, the first denial ends."""


class Refused(FrameworkError):
    """Raised anywhere inside a handler: the answer is its `verdict`."""

    def __init__(self, verdict: Denied) -> None:
        self.verdict = verdict
        super().__init__(verdict.message)


class Review(Struct, frozen=True):
    """What the API server sends."""

    api_version: str = ""
    kind: str = ""
    request: AdmissionRequest | None = None


class _Envelope(Struct, frozen=True):
    """The part of a review that its answer must repeat."""

    class Request(Struct, frozen=True):
        uid: str = ""

    api_version: str = ""
    request: Request | None = None


def defaulter(default: Callable[[Json], Json | None]) -> AdmissionHandler:
    """
    Make a mutating handler of a function that fills in what an object does not say.

    `default` may change its argument and return None, or return another object. It is not called for requests without
    an object to come (DELETE, CONNECT).
    """

    def handler(request: AdmissionRequest) -> Verdict:
        if request.object is None or request.operation == "DELETE":
            return Allowed()
        changed = default(request.object)
        return Allowed(request.object if changed is None else changed)

    return handler


async def respond(
    handlers: Handlers,
    body: bytes,
    content_type: str = "application/json",
    *,
    limit_s: float = HANDLER_LIMIT_S,
    on_panic: Add = lambda: None,
) -> Json:
    """
    Answer one AdmissionReview, in the version it came in.

    Never raises but for cancellation: what goes wrong is a refusal inside a valid review. 400 for a body that is no
    review, 504 for a coroutine that took longer than `limit_s`, 500 for an exception, of which `on_panic` is told. An
    `ApiError` that passes through keeps its code.
    """
    if content_type != "application/json":
        return refusal(body, Denied(f"the content type is {content_type}, not application/json", 400))
    if not body:
        return refusal(body, Denied("the request has no body", 400))
    try:
        review = msgspec.json.decode(body, type=Review)
    except UNFIT as error:
        what = "is nested too deeply" if isinstance(error, RecursionError) else f"is no {KIND}: {error}"
        return refusal(body, Denied(f"the request {what}", 400))
    problem = _problem(review)
    if problem is not None or review.request is None:
        return refusal(body, Denied(problem or f"the {KIND} has no request", 400))
    chain = [handlers] if callable(handlers) else handlers
    try:
        verdict = await _decide(chain, review.request, limit_s)
        patch: list[Json] = []
        if isinstance(verdict, Allowed) and verdict.object is not None:
            # Decoded again: a handler may have built its answer by changing the object it was given.
            original = msgspec.json.decode(body, type=Review).request
            patch = json_diff(original and original.object, verdict.object)
        return answer(review.api_version, review.request.uid, verdict, patch)
    except Exception as error:
        # The boundary to handlers: their bugs are this request's refusal, not a dead server.
        on_panic()
        request = review.request
        log.exception(
            "webhook.crashed", operation=request.operation, kind=request.kind.kind, name=request.name, uid=request.uid
        )
        return answer(review.api_version, request.uid, Denied(f"the webhook failed: {error!r}", 500))


def refusal(body: bytes, verdict: Denied) -> Json:
    """Refuse a request of which nothing is known but its bytes: in its version and under its UID, if it has them."""
    return answer(*envelope_of(body), verdict)


def envelope_of(body: bytes) -> tuple[str, str]:
    """Find version and UID of a review, of either kind, that cannot be decoded whole; empty where it has none."""
    shallow, _ = cut(body, _LEVELS_TO_UID)
    try:
        envelope = msgspec.json.decode(shallow, type=_Envelope)
    except UNFIT:
        return "", ""
    return envelope.api_version, envelope.request.uid if envelope.request else ""


def answer(api_version: str, uid: str, verdict: Verdict, patch: Sequence[Json] = ()) -> Json:
    """Build a review that carries a verdict."""
    response: Json = {"uid": uid, "allowed": isinstance(verdict, Allowed)}
    if verdict.warnings:
        response["warnings"] = list(verdict.warnings)
    if isinstance(verdict, Denied):
        status: Json = {"status": "Failure", "message": verdict.message, "code": verdict.code}
        if verdict.reason:
            status["reason"] = verdict.reason
        if verdict.causes or verdict.details:
            status["details"] = {**verdict.details, "causes": list(verdict.causes)}
        response["status"] = status
    elif patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = msgspec.json.encode(patch)  # bytes become base64, as the API wants
    group, _, version = api_version.partition("/")
    known = group == GROUP and version in VERSIONS
    return {"apiVersion": api_version if known else f"{GROUP}/{VERSIONS[0]}", "kind": KIND, "response": response}


async def _decide(chain: Sequence[AdmissionHandler], request: AdmissionRequest, limit_s: float) -> Verdict:
    """Ask the handlers in order, all within one limit."""
    warnings: list[str] = []
    changed: Json | None = None
    with anyio.move_on_after(limit_s):
        for handler in chain:
            verdict = await _ask(handler, request)
            warnings += verdict.warnings
            if isinstance(verdict, Denied):
                return replace(verdict, warnings=tuple(warnings))
            if verdict.object is not None and request.object is not None and request.operation != "DELETE":
                changed = verdict.object
                request = msgspec.structs.replace(request, object=changed)
        return Allowed(changed, tuple(warnings))
    log.warning("webhook.timeout", operation=request.operation, kind=request.kind.kind, limit_s=limit_s)
    return Denied(f"the webhook did not decide in {limit_s:g} s", 504, "Timeout", warnings=tuple(warnings))


async def _ask(handler: AdmissionHandler, request: AdmissionRequest) -> Verdict:
    try:
        verdict = handler(request)
        return await verdict if inspect.isawaitable(verdict) else verdict
    except Refused as refused:
        return refused.verdict
    except ApiError as error:
        return Denied(str(error), error.code, error.reason)


def _problem(review: Review) -> str | None:
    group, _, version = review.api_version.partition("/")
    if review.kind != KIND or group != GROUP:
        return f"the request is a {review.kind or '?'} of {review.api_version or '?'}, no {KIND} of {GROUP}"
    if version not in VERSIONS:
        return f"{KIND} {version} is not known here; known are {' and '.join(VERSIONS)}"
    return None


def _decode(resource: Resource[T], document: Json | None, name: str) -> T:
    if document is None:
        raise Refused(Denied(f"the request has no {name}", 400, "BadRequest"))
    try:
        return codec_for(resource).decode(msgspec.json.encode(document))
    except DecodeError as error:
        raise Refused(Denied(str(error), 400, "BadRequest")) from error
