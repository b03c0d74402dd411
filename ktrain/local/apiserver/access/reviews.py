"""The reviews of identities: whose a token is (TokenReview), and who asks (SelfSubjectReview)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktrain.api.meta import format_time
from ktrain.local.apiserver.access.account_tokens import Refused
from ktrain.local.apiserver.access.asked import read_question
from ktrain.local.apiserver.errors import bad_request

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.local.apiserver.backend import Backend, Call


async def review_token(backend: Backend, call: Call) -> Json:
    """
    Say whose token it is.

    Raises:
        StatusError: There is no token in it, or it is no review.
    """
    review = read_question(backend, call)
    spec = review.get("spec") or {}
    if not spec.get("token"):
        raise bad_request("token is required for TokenReview in authentication")
    try:
        holder = backend.gate.credentials.holder(spec["token"], spec.get("audiences") or ())
    except Refused as error:
        because = f"[invalid bearer token, {error}]" if str(error) else "invalid bearer token"
        return {**review, "status": {"user": {}, "error": because}}
    status = {"authenticated": True, "user": holder.user.info(), "audiences": list(holder.audiences)}
    return {**review, "status": status}


async def review_self(backend: Backend, call: Call) -> Json:
    """
    Say who asks, impersonation included.

    Raises:
        StatusError: It is no review.
    """
    review = read_question(backend, call)
    meta = {"creationTimestamp": format_time(backend.now())}
    return {**review, "metadata": meta, "status": {"userInfo": call.request.user.info()}}
