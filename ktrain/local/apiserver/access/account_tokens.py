"""
Tokens of service accounts: JWTs that say whose they are, for whom and until when, and that die with what they are for.

A token is checked at each use against the store: the account, and the pod, secret or node that it is bound to, must
still be the ones it was made for. Only the signature's verdict is remembered, in a bounded cache, because that alone
costs anything and never changes.

Source of the rules: KEP-1205 (bound tokens), KEP-4193 (jti, nodes), `pkg/serviceaccount` of Kubernetes.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from ktrain.api.meta import Key
from ktrain.local.apiserver.access.quoting import quote, quote_all
from ktrain.local.apiserver.access.signing import MAX_TOKEN_BYTES, BadSignature, NotOurs, Signer
from ktrain.local.apiserver.requests import User

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.meta import Json
    from ktrain.framework.env import Env
    from ktrain.local.apiserver.storage.store import Store

ISSUER: Final = "https://kubernetes.default.svc.cluster.local"
KUBELET_LIFETIME_S: Final = 3607
"""What the mounted tokens of pods ask for. Old clients read theirs once only, so such a token really lasts a year."""
_EXTENDED: Final = timedelta(days=365)
_LEEWAY: Final = timedelta(seconds=60)
"""For clocks that disagree; also how long a token outlives the deletion of what it is bound to."""
_CACHE_SIZE: Final = 1024
_PRIVATE: Final = "kubernetes.io"
_AUTHENTICATION: Final = "authentication.kubernetes.io"
BOUND_KINDS: Final = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}


class Refused(Exception):
    """A token is not accepted; the text says why, empty if it is not even one of ours."""


class Holder(NamedTuple):
    """Whose token it is, and which of the audiences asked for it is meant for."""

    user: User
    audiences: tuple[str, ...]


class Issued(NamedTuple):
    """A token, and when it ends as far as its owner needs to know."""

    token: str
    expires: datetime


class AccountTokens:
    """Issues and checks the tokens of one server."""

    def __init__(self, store: Store, env: Env, *, signing_key: bytes | None = None, issuer: str = ISSUER) -> None:
        self._store = store
        self._env = env
        self.signer = Signer(signing_key)
        self.issuer = issuer
        self._known: OrderedDict[str, Json] = OrderedDict()

    @property
    def audiences(self) -> tuple[str, ...]:
        """Whom a token is for that names nobody: this server."""
        return (self.issuer,)

    def issue(
        self, account: Json, bound: Sequence[tuple[str, Json]], audiences: Sequence[str], lifetime_s: int
    ) -> Issued:
        """
        Make a token of a service account.

        `bound` are the objects it is bound to, by kind in lower case; with `pod` may come the pod's `node`.
        """
        now = self._env.clock.now().replace(microsecond=0)
        expires = now + timedelta(seconds=lifetime_s)
        meta = account["metadata"]
        private: Json = {"namespace": meta["namespace"], "serviceaccount": _reference(account)}
        private |= {kind: _reference(obj) for kind, obj in bound}
        ends = expires
        if lifetime_s == KUBELET_LIFETIME_S and "pod" in private and set(audiences) <= set(self.audiences):
            ends = now + _EXTENDED
            private["warnafter"] = _seconds(expires)
        claims = {
            "aud": list(audiences),
            "exp": _seconds(ends),
            "iat": _seconds(now),
            "iss": self.issuer,
            "jti": str(uuid.UUID(int=self._env.random.getrandbits(128), version=4)),
            _PRIVATE: dict(sorted(private.items())),
            "nbf": _seconds(now),
            "sub": account_name(meta["namespace"], meta["name"]),
        }
        return Issued(self.signer.sign(claims), expires)

    def holder(self, token: str, audiences: Sequence[str] = ()) -> Holder:
        """
        Return whose token this is, if it is for one of these audiences (by default: this server).

        Raises:
            Refused: It is not accepted.
        """
        claims = self._claims(token)
        meant, wanted = claims.get("aud") or (), tuple(audiences) or self.audiences
        fitting = tuple(one for one in wanted if one in meant)
        if not fitting:
            raise Refused(f"token audiences {quote_all(meant)} is invalid for the target audiences {quote_all(wanted)}")
        now = self._env.clock.now()
        if _time(claims["exp"]) + _LEEWAY < now:
            raise Refused("service account token has expired")
        if _time(claims["nbf"]) - _LEEWAY > now:
            raise Refused("service account token is not valid yet")
        return Holder(self._user(claims, now), fitting)

    def _claims(self, token: str) -> Json:
        known = self._known.get(token)
        if known is not None:
            self._known.move_to_end(token)
            return known
        # Cheaper than loading cryptography, which a server without such tokens never needs.
        if token.count(".") != 2 or len(token) > MAX_TOKEN_BYTES:
            raise Refused("")
        try:
            claims = self.signer.claims(token)
        except NotOurs as error:
            raise Refused("") from error
        except BadSignature as error:
            raise Refused("invalid signature") from error
        if claims.get("iss") != self.issuer:
            raise Refused("")
        self._known[token] = claims
        if len(self._known) > _CACHE_SIZE:
            self._known.popitem(last=False)
        return claims

    def _user(self, claims: Json, now: datetime) -> User:
        private: Json = claims[_PRIVATE]
        namespace = private["namespace"]
        account = private["serviceaccount"]
        stored = self._find("serviceaccounts", Key(namespace, account["name"]))
        if stored is None:
            raise Refused(f"serviceaccounts {quote(account['name'])} not found")
        if stored["metadata"]["uid"] != account["uid"]:
            raise Refused(f"service account UID ({stored['metadata']['uid']}) does not match claim ({account['uid']})")
        extra = {"credential-id": (f"JTI={claims['jti']}",)}
        alive = not _is_over(stored, now)
        for kind in ("pod", "secret", "node"):
            bound = private.get(kind)
            if bound is None:
                continue
            # A pod's node is only told: the pod is what the token lives and dies with.
            if kind != "node" or "pod" not in private:
                obj = self._find(
                    BOUND_KINDS[kind.capitalize()], Key("" if kind == "node" else namespace, bound["name"])
                )
                alive = alive and obj is not None and obj["metadata"]["uid"] == bound["uid"] and not _is_over(obj, now)
            if kind != "secret":
                extra[f"{kind}-name"] = (bound["name"],)
                if bound.get("uid"):
                    extra[f"{kind}-uid"] = (bound["uid"],)
        if not alive:
            raise Refused("service account token has been invalidated")
        name = account_name(namespace, account["name"])
        shown = tuple((f"{_AUTHENTICATION}/{key}", values) for key, values in sorted(extra.items()))
        return User(name, (*account_groups(namespace), "system:authenticated"), account["uid"], shown)

    def _find(self, collection: str, key: Key) -> Json | None:
        item = self._store.collection(collection).get(key)
        return item.obj if item else None


def account_name(namespace: str, name: str) -> str:
    """Return the user that a service account is."""
    return f"system:serviceaccount:{namespace}:{name}"


def account_groups(namespace: str) -> tuple[str, str]:
    """Return the groups of all accounts, and of all of a namespace."""
    return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")


def _reference(obj: Json) -> Json:
    meta = obj["metadata"]
    return {"name": meta["name"], "uid": meta["uid"]} if meta.get("uid") else {"name": meta["name"]}


def _is_over(obj: Json, now: datetime) -> bool:
    deleted = obj["metadata"].get("deletionTimestamp")
    return deleted is not None and datetime.fromisoformat(deleted) + _LEEWAY < now


def _seconds(moment: datetime) -> int:
    return int(moment.timestamp())


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
