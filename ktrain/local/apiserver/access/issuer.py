"""What others need to check service account tokens by themselves: OpenID Connect discovery (KEP-1393)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktrain.local.apiserver.access.signing import ALGORITHM
from ktrain.local.apiserver.requests import JSON_TYPE, Answer
from ktrain.local.apiserver.storage.store import encode

if TYPE_CHECKING:
    from ktrain.local.apiserver.access.account_tokens import AccountTokens
    from ktrain.local.apiserver.requests import Request


def document(tokens: AccountTokens, request: Request, segments: list[str]) -> Answer | None:
    """Answer a request for one of the two documents; None for any other path."""
    if request.method not in {"GET", "HEAD"}:
        return None
    if segments == [".well-known", "openid-configuration"]:
        found = {
            "issuer": tokens.issuer,
            "jwks_uri": f"https://{request.headers.get('host', 'kubernetes.default.svc')}/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [ALGORITHM],
        }
        return Answer(200, encode(found), (("content-type", JSON_TYPE),))
    if segments == ["openid", "v1", "jwks"]:
        return Answer(200, encode(tokens.signer.key_set()), (("content-type", "application/jwk-set+json"),))
    return None
