"""One AdmissionReview over HTTPS, and whether what comes back is an answer to it."""

from __future__ import annotations

import base64
import binascii
import io
import ssl
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ktrain.local.apiserver.requests import JSON_TYPE

if TYPE_CHECKING:
    from ktrain.api.meta import Json

_GROUP: Final = "admission.k8s.io"
_KNOWN: Final = ("v1", "v1beta1")
MAX_ANSWER_BYTES: Final = 16 << 20


class Failed(Exception):
    """The webhook could not be asked, or gave no valid answer: `failurePolicy` decides what that means."""


async def call_webhook(entry: Json, request: Json, uid: str, *, validating: bool) -> Json:
    """
    Send a request to a webhook of a configuration and return its response.

    Raises:
        Failed: With the API server's text for it.
    """
    offered = entry.get("admissionReviewVersions") or _KNOWN[:1]
    version = next((one for one in offered if one in _KNOWN), _KNOWN[0])
    head = {"kind": "AdmissionReview", "apiVersion": f"{_GROUP}/{version}"}
    body = await _post(entry, msgspec.json.encode({**head, "request": request}))
    try:
        return _checked(msgspec.json.decode(body), head, uid, validating=validating)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Failed(f"failed to call webhook: {error}") from error


async def _post(entry: Json, body: bytes) -> bytes:
    import aiohttp

    config: Json = entry["clientConfig"]
    limit_s = entry.get("timeoutSeconds", 10)
    url = f"{config['url']}?timeout={limit_s}s"
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(limit_s)) as session,
            session.post(
                url,
                data=io.BytesIO(body),
                headers={"Content-Type": JSON_TYPE},
                ssl=_trust(config),
                allow_redirects=False,
            ) as answer,
        ):
            if answer.status != 200:
                raise Failed(f"failed to call webhook: the server answered {answer.status} {answer.reason or ''}")
            content = bytearray()
            async for chunk in answer.content.iter_any():
                content += chunk
                if len(content) > MAX_ANSWER_BYTES:
                    raise Failed(f"failed to call webhook: the answer is larger than {MAX_ANSWER_BYTES} bytes")
            return bytes(content)
    except TimeoutError as error:
        raise Failed(f'failed to call webhook: Post "{url}": context deadline exceeded') from error
    except (aiohttp.ClientError, OSError, binascii.Error) as error:
        raise Failed(f'failed to call webhook: Post "{url}": {error}') from error


def _trust(config: Json) -> ssl.SSLContext:
    bundle = base64.b64decode(config.get("caBundle") or "")
    return (
        ssl.create_default_context(cadata=bundle.decode("ascii", "replace")) if bundle else ssl.create_default_context()
    )


def _checked(answer: Any, head: Json, uid: str, *, validating: bool) -> Json:  # noqa: ANN401 - anybody's JSON
    """Return the response in an answer, if the answer is a valid review."""
    invalid = "received invalid webhook response: "
    if not isinstance(answer, dict) or not isinstance(answer.get("response"), dict):
        raise Failed(f"{invalid}webhook response was absent")
    response: Json = answer["response"]
    found = {name: answer.get(name) for name in head}
    if found != head:
        raise Failed(f"{invalid}expected webhook response of {head}, got {found}")
    if response.get("uid") != uid:
        raise Failed(f'{invalid}expected response.uid="{uid}", got "{response.get("uid", "")}"')
    if not isinstance(response.get("allowed"), bool):
        raise Failed(f"{invalid}response.allowed is missing")
    if validating and (response.get("patch") or response.get("patchType")):
        field = "patch" if response.get("patch") else "patchType"
        raise Failed(f"{invalid}validating webhook may not return response.{field}")
    if response.get("patch") and response.get("patchType") != "JSONPatch":
        raise Failed(f"{invalid}webhook returned response.patch but not response.patchType")
    return response
