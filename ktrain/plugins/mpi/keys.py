"""
The key pair with which the launcher's ssh enters the nodes: ECDSA on the curve P-521, as Kubeflow's.

In production, where the context's entropy is the operating system's (`Env.random`), the cryptography library draws the
pair. From a seeded source, a simulation's, the private number is drawn uniformly below the group's order and the pair
derived from it, which takes twice as long: the same run has the same keys.

Both halves are written from one serialization of the key. To ask the library for each text costs as much again.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from random import SystemRandom
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from random import Random

    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

# The order of P-521's base point (SEC 2, section 2.9.1).
ORDER: Final = int(
    "01FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF"
    "FA51868783BF2F966B7FCC0148F709A5D03BB5C9B8899C47AEBB6FB71E91386409",
    16,
)

_ALGORITHM: Final = b"ecdsa-sha2-nistp521"
_CURVE: Final = b"nistp521"
_POINT_BYTES: Final = 1 + 2 * 66
"""Of the public key, not compressed, with which the private key's DER ends (RFC 5915, section 3)."""


@dataclass(frozen=True, slots=True, repr=False)
class KeyPair:
    """Both halves as ssh reads them."""

    private: bytes
    """PEM, `EC PRIVATE KEY`."""
    public: bytes
    """One line of `authorized_keys`."""

    @classmethod
    def draw(cls, random: Random) -> KeyPair:
        """Make a new pair."""
        from cryptography.hazmat.primitives.asymmetric import ec

        if isinstance(random, SystemRandom):
            return cls._of(ec.generate_private_key(ec.SECP521R1()))
        return cls._of(ec.derive_private_key(random.randrange(1, ORDER), ec.SECP521R1()))

    @classmethod
    def _of(cls, key: EllipticCurvePrivateKey) -> KeyPair:
        from cryptography.hazmat.primitives import serialization as form

        der = key.private_bytes(form.Encoding.DER, form.PrivateFormat.TraditionalOpenSSL, form.NoEncryption())
        return cls(_pem(der), _authorized(point=der[-_POINT_BYTES:]))


def _pem(der: bytes) -> bytes:
    """Write a private key as text (RFC 7468)."""
    text = b64encode(der)
    lines = (text[start : start + 64] for start in range(0, len(text), 64))
    return b"\n".join((b"-----BEGIN EC PRIVATE KEY-----", *lines, b"-----END EC PRIVATE KEY-----", b""))


def _authorized(point: bytes) -> bytes:
    """Write a public key as a line of `authorized_keys` (RFC 5656, section 3.1): its parts, each after its length."""
    parts = (_ALGORITHM, _CURVE, point)
    return b"%s %s\n" % (_ALGORITHM, b64encode(b"".join(len(part).to_bytes(4) + part for part in parts)))
