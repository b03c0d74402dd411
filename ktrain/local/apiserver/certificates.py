"""
A certificate for the loopback address, made anew for each server.

It is needed although nobody else can listen there: kubectl and client-go send a kubeconfig's bearer token only over
TLS, and silently leave it out over plain HTTP.
"""

from __future__ import annotations

import ipaddress
import ssl
import tempfile
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import datetime

LIFETIME: Final = timedelta(days=365)
LASTING: Final = timedelta(days=3650)
"""For a server whose kubeconfigs are kept: they name its certificate."""
_CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"
_SKEW: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """A self-signed certificate, which clients take as their CA, and its key; both as PEM."""

    certificate: bytes
    key: bytes

    @classmethod
    def of(cls, pem: bytes) -> ServerIdentity:
        """Read what `pem` wrote."""
        key, mark, certificate = pem.partition(_CERTIFICATE)
        return cls(mark + certificate, key)

    @property
    def pem(self) -> bytes:
        """Key and certificate in one text."""
        return self.key + self.certificate

    def context(self) -> ssl.SSLContext:
        """Return the context to serve with. The key touches the disk for a moment, readable by this user only."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        with tempfile.TemporaryDirectory(prefix="ktrain-tls-") as folder:
            # The standard library loads certificates from files only.
            path = Path(folder, "identity.pem")
            path.touch(mode=0o600)
            path.write_bytes(self.pem)
            context.load_cert_chain(path)
        return context


def self_signed(host: str, *, now: datetime, lifetime: timedelta = LIFETIME) -> ServerIdentity:
    """Make an identity for an IP address, the usual loopback addresses and `localhost`."""
    # Loading cryptography costs more than a start may take, and only servers with a socket need it.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "ktrain")])
    addresses = dict.fromkeys((host, "127.0.0.1", "::1"))
    names = [*(x509.IPAddress(ipaddress.ip_address(one)) for one in addresses), x509.DNSName("localhost")]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + lifetime)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    return ServerIdentity(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )
