"""
The key pair with which the launcher's ssh enters the nodes: ECDSA on the curve P-521, as Kubeflow's.

The private number is drawn from the context's entropy, uniformly below the group's order, and the key is derived from
it. In production that source is the operating system's cryptographic generator (`Env.random`); in a simulation it is
seeded, and the same run has the same keys. A generator inside of the cryptography library would be as good in
production, and would make no two simulations equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from random import Random

# The order of P-521's base point (SEC 2, section 2.9.1).
ORDER: Final = int(
    "01FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF"
    "FA51868783BF2F966B7FCC0148F709A5D03BB5C9B8899C47AEBB6FB71E91386409",
    16,
)


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
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.derive_private_key(random.randrange(1, ORDER), ec.SECP521R1())
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
        public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        return cls(private, public + b"\n")
