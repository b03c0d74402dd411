"""
Who may read an endpoint of ours: the API server says so, as for its own.

A bearer token is sent to a TokenReview (who is this?), and who it is to a SubjectAccessReview (may they `get` this
path?), for which RBAC has rules with `nonResourceURLs`. What was decided is remembered for a while, by token and by
user, verb *and* path, so that a scrape does not cost two calls. Nobody is let in because a review failed.

The client needs `create` on `tokenreviews` and `subjectaccessreviews` (the ClusterRole `system:auth-delegator`), and no
guard: every replica is scraped.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from ktrain.api.meta import Struct
from ktrain.api.rbac import Right, Rule
from ktrain.framework.backoff import Backoff
from ktrain.framework.errors import ApiError, FrameworkError, TooManyRequests

from .remembered import Remembered

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from ktrain.api.meta import Json
    from ktrain.framework.client.client import Client
    from ktrain.framework.env import Env

log: FilteringBoundLogger = structlog.get_logger("ktrain.framework.serving")

TOKEN_TTL_S: Final = 60.0
ALLOWED_TTL_S: Final = 300.0
DENIED_TTL_S: Final = 30.0
REMEMBERED: Final = 1024
"""Decisions of each kind; a flood of wrong tokens pushes others out and costs calls, no memory."""
MAX_TOKEN_CHARS: Final = 16 << 10
ATTEMPTS: Final = 5
REVIEW_TIMEOUT_S: Final = 10.0
_BEARER: Final = "bearer "
TOKEN_REVIEWS: Final = Rule(("authentication.k8s.io",), ("tokenreviews",), ("create",), reason="who a token belongs to")
_ACCESS_RULE: Final = Rule(
    ("authorization.k8s.io",), ("subjectaccessreviews",), ("create",), reason="whether its user may read metrics"
)
RIGHTS: Final = (Right("cluster", TOKEN_REVIEWS), Right("cluster", _ACCESS_RULE))
_TOKENREVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESSREVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class User(Struct, frozen=True):
    """Who somebody is, as a TokenReview says."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class _TokenReview(Struct, frozen=True):
    class Status(Struct, frozen=True):
        authenticated: bool = False
        user: User = User()

    status: Status = Status()


class _AccessReview(Struct, frozen=True):
    class Status(Struct, frozen=True):
        allowed: bool = False
        denied: bool = False

    status: Status = Status()


@dataclass(frozen=True, slots=True)
class Verdict:
    """An HTTP status (200, 401, 403, 500), and why."""

    code: int
    reason: str = ""


class Authorizer:
    """
    Asks the API server who may read. Remembers at most 1024 tokens, for a minute, and 1024 decisions: 5 minutes if they
    allow, 30 seconds if they do not. Tokens are remembered as their hash.

    Args:
        client: Creates the reviews; without a guard.
        env: Time.
    """

    def __init__(self, client: Client, env: Env) -> None:
        self._client = client
        self._env = env
        self._users: Remembered[User | None] = Remembered(env, REMEMBERED)
        self._decisions: Remembered[bool] = Remembered(env, REMEMBERED)

    async def check(self, authorization: str, method: str, path: str) -> Verdict:
        """
        Decide about one request.

        Args:
            authorization: Its Authorization header; empty if it has none.
            method: Its HTTP method; in lower case that is the verb to be allowed.
            path: Its path.
        """
        scheme, token = authorization[: len(_BEARER)], authorization[len(_BEARER) :].strip()
        if scheme.lower() != _BEARER or not 0 < len(token) <= MAX_TOKEN_CHARS:
            return Verdict(401, "a bearer token is needed")
        try:
            user = await self._user(token)
            if user is None:
                return Verdict(401, "the API server does not know this token")
            verb = method.lower()
            if not await self._may(user, verb, path):
                return Verdict(403, f"{user.username} may not {verb} {path}")
        except (FrameworkError, msgspec.MsgspecError) as error:
            log.warning("authorization.review_failed", path=path, error=str(error))
            return Verdict(500, "the API server could not be asked")
        return Verdict(200)

    async def _user(self, token: str) -> User | None:
        key = hashlib.sha256(token.encode()).digest()
        if key in self._users:
            return self._users[key]
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        status = msgspec.json.decode(await self._review(_TOKENREVIEWS, body), type=_TokenReview).status
        user = status.user if status.authenticated else None
        self._users.keep(key, user, TOKEN_TTL_S)
        return user

    async def _may(self, user: User, verb: str, path: str) -> bool:
        key = (user.username, user.uid, user.groups, tuple(sorted(user.extra.items())), verb, path)
        if key in self._decisions:
            return self._decisions[key]
        spec = {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups,
            "extra": user.extra,
            "nonResourceAttributes": {"path": path, "verb": verb},
        }
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        status = msgspec.json.decode(await self._review(_ACCESSREVIEWS, body), type=_AccessReview).status
        allowed = status.allowed and not status.denied
        self._decisions.keep(key, allowed, ALLOWED_TTL_S if allowed else DENIED_TTL_S)
        return allowed

    async def _review(self, path: str, body: Json) -> bytes:
        """Create a review, with a few attempts: half a second apart, then longer."""
        backoff = Backoff(self._env, base_s=0.5, cap_s=1.5)
        attempts_left = ATTEMPTS
        while True:
            attempts_left -= 1
            try:
                return (await self._client.raw("POST", path, body=body, timeout_s=REVIEW_TIMEOUT_S)).body
            except FrameworkError as error:
                is_final = isinstance(error, ApiError) and error.code < 500 and not isinstance(error, TooManyRequests)
                if is_final or not attempts_left:
                    raise
            await backoff.sleep()
