"""AdmissionReviews: one request to a webhook, and whether what comes back is an answer to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from ktrain.local.apiserver.admission.callouts import CallFailed, Callouts
from ktrain.local.apiserver.versions import in_version

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.local.apiserver.admission.chain import AdmissionRequest
    from ktrain.local.apiserver.conversion import Conversions
    from ktrain.local.apiserver.registry import ServedResource

_GROUP: Final = "admission.k8s.io"
_KNOWN: Final = ("v1", "v1beta1")
DEFAULT_LIMIT_S: Final = 10


class Failed(Exception):
    """The webhook could not be asked, or gave no valid answer: `failurePolicy` decides what that means."""


class Response(msgspec.Struct, frozen=True, rename="camel"):
    """What a webhook decided. `patch` is decoded base64."""

    uid: str = ""
    allowed: bool = False
    status: dict[str, Any] | None = None
    patch: bytes | None = None
    patch_type: str | None = None
    warnings: list[str] | None = None


class _Answer(msgspec.Struct, frozen=True, rename="camel"):
    kind: str = ""
    api_version: str = ""
    response: Response | None = None


async def call_webhook(callouts: Callouts, entry: Json, body: Json, limit_s: float, *, validating: bool) -> Response:
    """
    Send a request to a webhook of a configuration and return its response.

    Raises:
        Failed: With the API server's text for it.
    """
    offered = entry.get("admissionReviewVersions") or _KNOWN[:1]
    version = next((one for one in offered if one in _KNOWN), _KNOWN[0])
    head = {"kind": "AdmissionReview", "apiVersion": f"{_GROUP}/{version}"}
    limit_s = min(entry.get("timeoutSeconds", DEFAULT_LIMIT_S), limit_s)
    try:
        answer = await callouts.post(entry["clientConfig"], {**head, "request": body}, limit_s)
        review = msgspec.json.decode(answer, type=_Answer | None)
    except (CallFailed, msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise Failed(f"failed to call webhook: {error}") from error
    response = review.response if review else None
    if review is None or response is None:
        raise Failed("received invalid webhook response: webhook response was absent")
    problem = _problem(review, response, head, body["uid"]) or _patch_problem(response, validating=validating)
    if problem:
        raise Failed(f"received invalid webhook response: {problem}")
    return response


def _problem(review: _Answer, response: Response, head: Json, uid: str) -> str:
    """Say what makes an answer none to this request; nothing if it is one."""
    if response.uid != uid:
        return f'expected response.uid="{uid}", got "{response.uid}"'
    if (review.kind, review.api_version) != (head["kind"], head["apiVersion"]):
        group, slash, version = review.api_version.rpartition("/")
        found = f"{group}{slash or '/'}{version}, Kind={review.kind}"
        return f"expected webhook response of {head['apiVersion']}, Kind={head['kind']}, got {found}"
    return ""


def _patch_problem(response: Response, *, validating: bool) -> str:
    """Say what is wrong with a patch and its type."""
    if validating and (response.patch or response.patch_type is not None):
        return f"validating webhook may not return response.{'patch' if response.patch else 'patchType'}"
    if response.patch and not response.patch_type:
        return "webhook returned response.patch but not response.patchType"
    if response.patch_type and not response.patch:
        return "webhook returned response.patchType but not response.patch"
    if response.patch_type not in {None, "", "JSONPatch"}:
        return f"unsupported patch type {response.patch_type!r}"
    return ""


async def review_body(conversions: Conversions, request: AdmissionRequest, sent: ServedResource) -> Json:
    """
    Return `AdmissionReview.request` without its uid, as CEL expressions see it as well.

    `sent` is the version in which the webhook or policy wants to see the request.

    Raises:
        StatusError: The objects cannot be converted to that version.
    """

    async def seen(obj: Json | None) -> Json | None:
        if obj is None or request.view is not None:
            return obj
        return await in_version(conversions, sent, request.resource, obj)

    asked = request.resource
    kind = _kind(request.view or (sent.api_version, sent.kind))
    body: Json = {
        "kind": kind,
        "resource": {"group": sent.group, "version": sent.version, "resource": sent.plural},
        "requestKind": _kind(request.view or (asked.api_version, asked.kind)),
        "requestResource": {"group": asked.group, "version": asked.version, "resource": asked.plural},
        "operation": request.operation,
        "userInfo": request.user.info(),
        "object": await seen(request.object),
        "oldObject": await seen(request.old_object),
        "dryRun": request.dry_run,
        "options": request.options,
    }
    if request.subresource:
        body |= {"subResource": request.subresource, "requestSubResource": request.subresource}
    if request.name:
        body["name"] = request.name
    if asked.namespaced:
        body["namespace"] = request.namespace
    elif asked.collection == "namespaces":
        body["namespace"] = request.name
    return body


def _kind(named: tuple[str, str]) -> Json:
    group, _, version = named[0].rpartition("/")
    return {"group": group, "version": version, "kind": named[1]}
