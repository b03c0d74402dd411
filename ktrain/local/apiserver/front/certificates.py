"""
A certificate for the loopback address, made anew for each server; and those of users that it issues.

It is needed although nobody else can listen there: kubectl and client-go send a kubeconfig's bearer token only over
TLS, and silently leave it out over plain HTTP.

One certificate is both what the server shows and what signs its users': clients trust exactly one server, which trusts
exactly its own users, so an authority apart from it would only be one more key to keep.
"""

from __future__ import annotations

import ipaddress
import ssl
import tempfile
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from datetime import datetime

    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

LIFETIME: Final = timedelta(days=365)
LASTING: Final = timedelta(days=3650)
"""For a server whose kubeconfigs are kept: they name its certificate."""
_CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"
_SKEW: Final = timedelta(minutes=5)
_NAME: Final = "ktrain"


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """A self-signed certificate, which clients take as their CA, and its key; both as PEM."""

    certificate: bytes
    key: bytes = field(repr=False)

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
        """
        Return the context to serve with. The key touches the disk for a moment, readable by this user only.

        Clients may show a certificate that this identity issued; any other ends the handshake.
        """
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=self.certificate.decode())
        context.verify_mode = ssl.CERT_OPTIONAL
        with tempfile.TemporaryDirectory(prefix="ktrain-tls-") as folder:
            # The standard library loads certificates from files only.
            path = Path(folder, "identity.pem")
            path.touch(mode=0o600)
            path.write_bytes(self.pem)
            context.load_cert_chain(path)
        return context

    def issue(self, user: str, *groups: str, now: datetime) -> UserIdentity:
        """Make the certificate of a user, who is then in these groups."""
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        own = cast("ec.EllipticCurvePrivateKey", serialization.load_pem_private_key(self.key, password=None))
        key = ec.generate_private_key(ec.SECP256R1())
        organisations = [x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*organisations, x509.NameAttribute(x509.NameOID.COMMON_NAME, user)])
        usage = x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH])
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(own.public_key())
        certificate = (
            _builder(subject, key.public_key(), now, LIFETIME)
            .add_extension(usage, critical=False)
            .add_extension(issuer, critical=False)
            .sign(own, hashes.SHA256())
        )
        return UserIdentity(*_as_pem(certificate, key))


@dataclass(frozen=True, slots=True)
class UserIdentity:
    """A client certificate and its key, both as PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


def self_signed(host: str, *, now: datetime, lifetime: timedelta = LIFETIME) -> ServerIdentity:
    """Make an identity for an IP address, the usual loopback addresses and `localhost`."""
    # Loading cryptography costs more than a start may take, and only servers with a socket need it.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    from ktrain.local.sandbox.ns import SERVICE_NAMES, NamespaceExecutor

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, _NAME)])
    addresses = dict.fromkeys((host, "127.0.0.1", "::1", NamespaceExecutor.gateway))
    known = (*(x509.DNSName(name) for name in ("localhost", *SERVICE_NAMES)),)
    names = [*(x509.IPAddress(ipaddress.ip_address(one)) for one in addresses), *known]
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        _builder(subject, key.public_key(), now, lifetime)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return ServerIdentity(*_as_pem(certificate, key))


def _builder(
    subject: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, lifetime: timedelta
) -> x509.CertificateBuilder:
    from cryptography import x509

    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, _NAME)]))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + lifetime)
    )


def _as_pem(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> tuple[bytes, bytes]:
    from cryptography.hazmat.primitives import serialization

    pem, pkcs8, plain = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return certificate.public_bytes(pem), key.private_bytes(pem, pkcs8, plain)
