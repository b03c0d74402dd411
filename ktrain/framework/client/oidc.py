"""
Tokens of an OpenID Connect provider: `auth-provider: {name: oidc}` of a kubeconfig.

The kubeconfig holds an ID token and what is needed to get the next one: a refresh token, and who may use it. The next
refresh token, if the provider sends one, is kept in memory only: the user's file is not ours to write, so a provider
whose refresh tokens are good for one use wants a login again in the next process.

Why not by kubernetes_asyncio: 36.1 asks the provider without checking its certificate, and cannot use an authority of
the kubeconfig's; whoever is in between would get the client's secret and the refresh token. Other providers of old
(gcp, azure) are gone from kubectl as well; their successors are exec plugins.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

import anyio.to_thread
import msgspec

from ktrain.framework.errors import ConfigError
from ktrain.framework.trust import trusting

from .credentials import bearer
from .renewal import Grant, Renewed

if TYPE_CHECKING:
    import ssl

    import aiohttp

    from ktrain.framework.env import Env

T = TypeVar("T")

TIMEOUT_S: Final = 30.0
MIN_LIFE_S: Final = 10.0
BEFORE_END_S: Final = (60.0, 120.0)
"""How long before its end a token is replaced, between these at random."""


class OidcFields(msgspec.Struct, rename="kebab", gc=False):
    """The provider's `config` in a kubeconfig."""

    idp_issuer_url: str
    client_id: str
    client_secret: str = ""
    id_token: str = ""
    refresh_token: str = ""
    idp_certificate_authority: str = ""
    idp_certificate_authority_data: str = ""


class _Discovery(msgspec.Struct, gc=False):
    token_endpoint: str


class _Refusal(msgspec.Struct, gc=False):
    error: str = ""


class _Tokens(msgspec.Struct, gc=False):
    id_token: str = ""
    refresh_token: str = ""


class _Claims(msgspec.Struct, gc=False):
    exp: float | None = None


class OidcProvider(Renewed):
    """
    The ID token of a kubeconfig, refreshed before its end and after a 401.

    Args:
        fields: What the kubeconfig says.
        named_by: Where it says so, for errors.
        ca_file: Whom to trust instead of the system's authorities.
        ca_data: The same as PEM text.
        env: Time, and randomness for the moment of renewal.
    """

    refused_every_s: ClassVar[float] = 10.0

    def __init__(
        self, fields: OidcFields, named_by: str, *, ca_file: str | None, ca_data: str | None, env: Env | None = None
    ) -> None:
        super().__init__(env)
        self._fields = fields
        self._named_by = named_by
        self._ca = (ca_file, ca_data)
        self._refresh_token = fields.refresh_token

    async def obtain(self, last: Grant | None, *, refused: bool) -> Grant:  # the first is in the fields
        """Give the kubeconfig's token first, if it is still good, and then those of the provider."""
        if last is None and self._fields.id_token:
            grant = self._grant_of(self._fields.id_token)
            if grant.lasts_s > MIN_LIFE_S:
                return grant
        if not self._refresh_token:
            raise self._error("the ID token is over or refused, and there is no refresh-token: log in again")
        tokens = await self._refresh()
        self._refresh_token = tokens.refresh_token or self._refresh_token
        grant = self._grant_of(tokens.id_token)
        # Used for a moment even if by our clock it is over: clocks differ, and else every call would ask.
        return replace(grant, lasts_s=max(grant.lasts_s, MIN_LIFE_S))

    def _grant_of(self, token: str) -> Grant:
        end = self._end_of(token)
        headers = bearer(token)
        if end is None:
            return Grant(headers)
        # By the monotonic clock from here on: a step of the wall clock must not end it, nor prolong it.
        lasts_s = end - self._env.clock.now().timestamp()
        return Grant(headers, renew_after_s=lasts_s - self._env.random.uniform(*BEFORE_END_S), lasts_s=lasts_s)

    def _end_of(self, token: str) -> float | None:
        """Unix time; None if the token does not end."""
        try:
            _, claims, _ = token.split(".")
            text = base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4))
            return msgspec.json.decode(text, type=_Claims).exp
        except (ValueError, binascii.Error):  # msgspec's errors are ValueErrors
            raise self._error("the ID token is no JSON web token") from None

    async def _refresh(self) -> _Tokens:
        import aiohttp

        try:
            context = await anyio.to_thread.run_sync(self._ssl_context, abandon_on_cancel=True)
            async with aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=context),
                timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
                trust_env=True,
            ) as session:
                return await self._ask(session)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._error(f"cannot be reached: {str(error) or type(error).__name__}") from error

    async def _ask(self, session: aiohttp.ClientSession) -> _Tokens:
        fields = self._fields
        where = f"{fields.idp_issuer_url.rstrip('/')}/.well-known/openid-configuration"
        async with session.get(where) as answer:
            found = await self._read(answer, _Discovery)
        form = [("grant_type", "refresh_token"), ("refresh_token", self._refresh_token)]
        form += [("client_id", fields.client_id)]
        if fields.client_secret:
            form += [("client_secret", fields.client_secret)]
        # No redirects: the secrets are for the address that the provider itself names.
        async with session.post(found.token_endpoint, data=form, allow_redirects=False) as answer:
            tokens = await self._read(answer, _Tokens)
        if not tokens.id_token:
            raise self._error("gave no ID token: its client needs the scope openid")
        return tokens

    async def _read(self, answer: aiohttp.ClientResponse, type_: type[T]) -> T:
        body = await answer.read()
        if answer.status != 200:
            # A refusal holds an error code (RFC 6749, 5.2); anything else in it is not shown.
            raise self._error(f"refused with {answer.status}{_code_in(body)} at {answer.url.with_query(None)}")
        try:
            return msgspec.json.decode(body, type=type_)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise self._error(f"gave an answer that cannot be read: {error}") from None

    def _ssl_context(self) -> ssl.SSLContext:
        file, data = self._ca
        return trusting(file=None if data else file, data=data)

    def _error(self, what: str) -> ConfigError:
        return ConfigError(f"the OpenID provider {self._fields.idp_issuer_url} of {self._named_by}: {what}")


def _code_in(body: bytes) -> str:
    try:
        code = msgspec.json.decode(body, type=_Refusal).error
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""
    return f" ({code[:80]})" if code else ""
