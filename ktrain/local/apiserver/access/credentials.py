"""
Who a request comes from: a client certificate, else a bearer token, else nobody.

A token that is given and not accepted ends the request at once (401), even where nobody at all might have asked.
Everything that is no bearer token in the header counts as nothing given, as it does upstream.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

from ktrain.local.apiserver.access.account_tokens import AccountTokens, Holder, Refused
from ktrain.local.apiserver.errors import StatusError
from ktrain.local.apiserver.requests import User

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ANONYMOUS: Final = User("system:anonymous", ("system:unauthenticated",))
AUTHENTICATED: Final = "system:authenticated"

PeerCertificate = dict[str, Any]
"""A verified client certificate as `ssl.SSLSocket.getpeercert` shows it."""


class Credentials:
    """
    The tokens and certificates that one server accepts.

    `static` are bearer tokens and their users; `anonymous` whether requests without credentials have a user at all.
    """

    def __init__(self, tokens: AccountTokens, static: Mapping[str, User], *, anonymous: bool) -> None:
        self._tokens = tokens
        self._static: dict[bytes, User] = {}
        self._anonymous = anonymous
        for token, user in static.items():
            self.add(token, user)

    def add(self, token: str, user: User) -> None:
        """
        Accept a bearer token from now on.

        Raises:
            ValueError: The token is empty or holds blanks, so no header could carry it.
        """
        if not token or token.split() != [token]:
            raise ValueError("a bearer token must be a word without blanks")
        self._static[_digest(token)] = user

    def user(self, authorization: str, certificate: PeerCertificate | None) -> User:
        """
        Return the user of a request with this Authorization header, empty if it has none.

        Raises:
            StatusError: 401.
        """
        if certificate and (found := _certified(certificate)):
            return found
        token = _bearer(authorization)
        if token:
            try:
                return self.holder(token).user
            except Refused as error:
                raise unauthorized() from error
        if not self._anonymous:
            raise unauthorized()
        return ANONYMOUS

    def holder(self, token: str, audiences: Sequence[str] = ()) -> Holder:
        """
        Return whose token it is, and for which of these audiences (by default: this server).

        Raises:
            Refused: Nobody's, or not for them.
        """
        user = self._static.get(_digest(token))
        if user is None:
            return self._tokens.holder(token, audiences)
        wanted = tuple(one for one in audiences or self._tokens.audiences if one in self._tokens.audiences)
        if not wanted:
            raise Refused("")
        return Holder(user, wanted)


def unauthorized() -> StatusError:
    """401."""
    return StatusError(401, "Unauthorized", "Unauthorized")


def _bearer(authorization: str) -> str:
    scheme, _, rest = authorization.strip().partition(" ")
    return rest.partition(" ")[0] if scheme.lower() == "bearer" else ""


def _digest(token: str) -> bytes:
    # Looked up by digest, how long it takes tells nothing about the token.
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()


def _certified(certificate: PeerCertificate) -> User | None:
    """Return the common name as user, the organisations as groups; None for a certificate that names nobody."""
    fields = [field for part in certificate.get("subject", ()) for field in part]
    name = next((value for kind, value in fields if kind == "commonName"), "")
    if not name:
        return None
    groups = [value for kind, value in fields if kind == "organizationName"]
    return User(name, tuple(dict.fromkeys([*groups, AUTHENTICATED])))
