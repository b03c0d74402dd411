"""
Users, rights and tokens of one server: from a request to one whose user may do what it asks, or a refusal.

Administrators (`system:masters`) pass after one look at their groups, so nobody pays for rights who does not use them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

import msgspec
import structlog

from ktrain.local.apiserver.access import impersonation
from ktrain.local.apiserver.access.account_tokens import AccountTokens
from ktrain.local.apiserver.access.attributes import Attributes, attributes_of, refusal
from ktrain.local.apiserver.access.credentials import Credentials
from ktrain.local.apiserver.access.impersonation import Wanted
from ktrain.local.apiserver.access.rbac import MASTERS, Decision, Rbac, RoleMissing
from ktrain.local.apiserver.access.rules import Rule, missing_rule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ktrain.framework.env import Env
    from ktrain.local.apiserver.access.credentials import PeerCertificate
    from ktrain.local.apiserver.backend import Call
    from ktrain.local.apiserver.requests import Request, User
    from ktrain.local.apiserver.storage.store import Store

Authorization = Literal["RBAC", "AlwaysAllow"]
_REMEMBERED: Final = 1024
_STREAMS: Final = frozenset({"pods/exec", "pods/attach", "pods/portforward"})
_EVERYTHING: Final = (Rule(("*",), ("*",), ("*",)), Rule(("*",), urls=("*",)))

log = structlog.get_logger(__name__)


class Gate:
    """
    Who may enter.

    `authority` is the certificate, as PEM, that clients of this server trust; None while nobody outside this process
    can be one. `admits_accounts` is the ServiceAccount admission: whether new pods get it with a token of their
    account, which must exist. Where nobody runs pods it is off, as it is in envtest.
    """

    def __init__(
        self,
        store: Store,
        env: Env,
        *,
        authorization: Authorization = "RBAC",
        tokens: Mapping[str, User] | None = None,
        signing_key: bytes | None = None,
    ) -> None:
        self.rbac = Rbac(store)
        self.account_tokens = AccountTokens(store, env, signing_key=signing_key)
        # As upstream: where everybody may do everything, everybody has to be somebody.
        self.credentials = Credentials(self.account_tokens, tokens or {}, anonymous=authorization == "RBAC")
        self.authority: bytes | None = None
        self.admits_accounts = False
        self._allows_all = authorization == "AlwaysAllow"
        self._refused: dict[tuple[str, bytes], None] = {}

    def authenticate(self, authorization: str, certificate: PeerCertificate | None) -> User:
        """
        Return the user of a request with this Authorization header and verified client certificate.

        Raises:
            StatusError: 401.
        """
        return self.credentials.user(authorization, certificate)

    def enter(self, request: Request) -> Request:
        """
        Return the request as the user it is to be served for, who may do what it asks.

        Raises:
            StatusError: 403; 400 for an impersonation without a name.
        """
        if not request.impersonation and (self._allows_all or MASTERS in request.user.groups):
            return request
        asked = attributes_of(request)
        if request.impersonation and (wanted := Wanted.of(request.impersonation)) is not None:
            impersonation.authorize(wanted, request.user, asked, self.decide)
            request = replace(request, user=wanted.user(), impersonation=())
        self.require(request.user, asked)
        if asked.verb == "get" and asked.whole_resource in _STREAMS and "upgrade" in request.headers:
            # A WebSocket begins with GET, and reading is not what it is for.
            self.require(request.user, replace(asked, verb="create"))
        return request

    def decide(self, user: User, asked: Attributes) -> Decision:
        """Decide whether a user may do something."""
        if self._allows_all or MASTERS in user.groups:
            return Decision(allowed=True)
        return self.rbac.decide(user, asked)

    def require(self, user: User, asked: Attributes) -> None:
        """
        Refuse what a user may not do.

        Raises:
            StatusError: 403.
        """
        decision = self.decide(user, asked)
        if decision.allowed:
            return
        self._log_refusal(user, asked)
        raise refusal(user.name, asked, decision.reason)

    def require_creation(self, call: Call) -> None:
        """
        Refuse a PUT or an apply that would create, to users who may only change what is there.

        Raises:
            StatusError: 403.
        """
        self.require(call.request.user, replace(attributes_of(call.request), verb="create"))

    def rules_of(self, user: User, namespace: str) -> tuple[list[Rule], list[RoleMissing]]:
        """Return all rules that hold for a user in a namespace, and which roles bound to them do not exist."""
        if self._allows_all:
            return list(_EVERYTHING), []
        return self.rbac.rules_of(user, namespace)

    def is_unlimited(self, user: User) -> bool:
        """Whether a user may do everything, whatever roles say."""
        return self._allows_all or MASTERS in user.groups

    def _log_refusal(self, user: User, asked: Attributes) -> None:
        """Say once for each user what rule a role of theirs would need."""
        rule = msgspec.json.encode(missing_rule(asked))
        if (user.name, rule) in self._refused:
            return
        if len(self._refused) >= _REMEMBERED:
            self._refused.clear()
        self._refused[user.name, rule] = None
        log.warning("access.refused", user=user.name, namespace=asked.namespace, rule=rule.decode())
