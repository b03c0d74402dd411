"""
JSON Web Tokens signed with one elliptic key (ES256, RFC 7515 to 7518), and the key as others may check it.

Only what this key signed is ever accepted: the header's algorithm and key are compared, not followed, so neither
`none` nor a key of somebody else's choice means anything. Loading cryptography costs more than a start may take, so the
key is read or made when the first token is.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from functools import cached_property
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

    from ktrain.api.meta import Json

ALGORITHM: Final = "ES256"
MAX_TOKEN_BYTES: Final = 16 << 10
"""Longer ones are none of ours. A header may be longer."""
_PART_BYTES: Final = 32
"""Size of each half of a signature with P-256."""


class NotOurs(ValueError):
    """A token that nobody can say anything about: no JWT, or of another issuer or key."""


class BadSignature(ValueError):
    """A token that names our key, but was not signed with it."""


def new_signing_key() -> bytes:
    """Make a private key, as PEM. Whoever holds it can be any service account."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    pem, pkcs8, plain = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(pem, pkcs8, plain)


class Signer:
    """
    Signs claims and checks what it signed.

    `pem` is an unencrypted private key on P-256 (`new_signing_key`); None: a new one, forgotten with this object.
    """

    def __init__(self, pem: bytes | None = None) -> None:
        self._pem = pem

    def sign(self, claims: Json) -> str:
        """Return a JWT of these claims."""
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

        head = {"alg": ALGORITHM, "kid": self.key_id}
        signed = f"{_encode(msgspec.json.encode(head))}.{_encode(msgspec.json.encode(claims))}"
        halves = decode_dss_signature(self._key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{signed}.{_encode(b''.join(half.to_bytes(_PART_BYTES, 'big') for half in halves))}"

    def claims(self, token: str) -> Json:
        """
        Return the claims of a JWT that this key signed. Says nothing about whether they hold.

        Raises:
            NotOurs: It is no JWT of this key.
            BadSignature: It names this key, but something in it was changed.
        """
        parts = token.split(".")
        if len(parts) != 3 or len(token) > MAX_TOKEN_BYTES:
            raise NotOurs
        head, claims, signature = _document(parts[0]), _document(parts[1]), _decode(parts[2])
        if head.get("kid", self.key_id) != self.key_id:
            raise NotOurs
        if head.get("alg") != ALGORITHM or not self._is_signed(f"{parts[0]}.{parts[1]}", signature):
            raise BadSignature
        return claims

    @cached_property
    def key_id(self) -> str:
        """The key's name in headers and in the key set: its thumbprint (RFC 7638)."""
        required = {name: self._public[name] for name in ("crv", "kty", "x", "y")}
        return _encode(hashlib.sha256(msgspec.json.encode(required)).digest())

    def key_set(self) -> Json:
        """Return what others need to check tokens: a JSON Web Key Set (RFC 7517)."""
        return {"keys": [{"use": "sig", "kid": self.key_id, "alg": ALGORITHM, **self._public}]}

    @cached_property
    def _key(self) -> EllipticCurvePrivateKey:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        key = serialization.load_pem_private_key(self._pem or new_signing_key(), password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
            raise ValueError("the key that signs service account tokens must be an elliptic one on P-256")  # noqa: TRY004 - it is what the key says, not what it is
        return key

    @cached_property
    def _public(self) -> Json:
        numbers = self._key.public_key().public_numbers()
        point = {
            name: _encode(value.to_bytes(_PART_BYTES, "big")) for name, value in (("x", numbers.x), ("y", numbers.y))
        }
        return {"kty": "EC", "crv": "P-256", **point}

    def _is_signed(self, text: str, signature: bytes) -> bool:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

        if len(signature) != 2 * _PART_BYTES:
            return False
        halves = (int.from_bytes(signature[:_PART_BYTES], "big"), int.from_bytes(signature[_PART_BYTES:], "big"))
        try:
            self._key.public_key().verify(encode_dss_signature(*halves), text.encode(), ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            return False
        return True


def _document(part: str) -> Json:
    try:
        document = msgspec.json.decode(_decode(part))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotOurs from error
    if not isinstance(document, dict):
        raise NotOurs
    return document


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(part: str) -> bytes:
    if "=" in part:
        raise NotOurs
    try:
        return base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise NotOurs from error
