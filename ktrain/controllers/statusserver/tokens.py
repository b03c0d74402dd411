"""
Who may report on a job: a pod of its namespace, with a token for the status of this job.

A projected token is bound to an audience, which names the job. What the token says of itself is looked at first, which
costs nothing and keeps most nonsense from the API server; whether it is true, the API server says (TokenReview). 10,000
jobs with one report each five seconds would be 2,000 reviews a second, so a verdict is remembered: good ones for five
minutes and never past the token's end, bad ones for 30 seconds. Tokens are remembered as their hash.

A token that is older than the job is of an earlier job of that name, whose pods may still be ending: no good.

Any pod of the namespace whose service account may be used for such a token passes, as in Kubeflow's Trainer.
"""

from __future__ import annotations

import binascii
import hashlib
import math
from base64 import urlsafe_b64decode
from typing import TYPE_CHECKING, Final

import anyio
import msgspec

from ktrain.api.meta import Struct
from ktrain.framework.serving.authorization import MAX_TOKEN_CHARS, User
from ktrain.framework.serving.remembered import Remembered

if TYPE_CHECKING:
    from datetime import datetime

    from ktrain.api.meta import Json
    from ktrain.framework.client.client import Client
    from ktrain.framework.env import Env

GOOD_S: Final = 300.0
BAD_S: Final = 30.0
REMEMBERED_GOOD: Final = 20_000
"""Twice the jobs that one replica is made for."""
REMEMBERED_BAD: Final = 1024
REVIEWS_AT_A_TIME: Final = 16
REVIEW_TIMEOUT_S: Final = 5.0
_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCOUNT: Final = "system:serviceaccount:"
_SKEW_S: Final = 60.0
"""By which the clocks of API servers may differ."""


class _Kubernetes(msgspec.Struct, frozen=True):
    namespace: str = ""


class _Claims(msgspec.Struct, frozen=True):
    """What a token says of itself."""

    aud: list[str] | str = ""
    exp: float = 0.0
    iat: float = math.inf
    kubernetes: _Kubernetes = msgspec.field(default=_Kubernetes(), name="kubernetes.io")

    def are_for(self, audience: str, namespace: str, since: datetime | None) -> bool:
        """Whether it was made for this audience and namespace, and not before `since`, but for clocks that differ."""
        audiences = [self.aud] if isinstance(self.aud, str) else self.aud
        is_older = since is not None and self.iat < since.timestamp() - _SKEW_S
        return audience in audiences and self.kubernetes.namespace == namespace and not is_older


class _Review(Struct, frozen=True):
    class Status(Struct, frozen=True):
        authenticated: bool = False
        user: User = User()
        audiences: tuple[str, ...] = ()

    status: Status = Status()


class Tokens:
    """
    Judges bearer tokens.

    Args:
        client: Creates the reviews; without a guard.
        env: Time.
    """

    def __init__(self, client: Client, env: Env) -> None:
        self._client = client
        self._env = env
        self._good: Remembered[bool] = Remembered(env, REMEMBERED_GOOD)
        self._bad: Remembered[bool] = Remembered(env, REMEMBERED_BAD)
        self._turns = anyio.Semaphore(REVIEWS_AT_A_TIME)

    async def admits(self, authorization: str, audience: str, namespace: str, *, since: datetime | None) -> bool:
        """
        Whether the bearer of this header may report with this audience from this namespace, on a job that is there
        *since* (None: none is).

        Raises:
            FrameworkError: The API server could not be asked.
            msgspec.MsgspecError: Its answer was none.
        """
        words = authorization.split()
        if len(words) != 2 or words[0].lower() != "bearer" or len(words[1]) > MAX_TOKEN_CHARS:
            return False
        token = words[1]
        claims = _claims(token)
        if claims is None or not claims.are_for(audience, namespace, since):
            return False
        left_s = claims.exp - self._env.clock.now().timestamp()
        if left_s <= 0:
            return False
        key = hashlib.sha256(f"{audience}\n{token}".encode()).digest()
        if key in self._good:
            return True
        if key in self._bad:
            return False
        async with self._turns:
            admitted = await self._review(token, audience, namespace)
        if admitted:
            self._good.keep(key, value=True, for_s=min(GOOD_S, left_s))
        else:
            self._bad.keep(key, value=True, for_s=BAD_S)
        return admitted

    async def _review(self, token: str, audience: str, namespace: str) -> bool:
        spec: Json = {"token": token, "audiences": [audience]}
        body: Json = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
        response = await self._client.raw("POST", _REVIEWS, body=body, timeout_s=REVIEW_TIMEOUT_S)
        status = msgspec.json.decode(response.body, type=_Review).status
        return (
            status.authenticated
            # An API server that knows nothing of audiences leaves this empty, and has not checked it.
            and audience in status.audiences
            and status.user.username.startswith(f"{_ACCOUNT}{namespace}:")
        )


def _claims(token: str) -> _Claims | None:
    """Read what a token says of itself, unproven; None if it is no JWT."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        return msgspec.json.decode(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)), type=_Claims)
    except (binascii.Error, ValueError, msgspec.MsgspecError, RecursionError):
        return None
