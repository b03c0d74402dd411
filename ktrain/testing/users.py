"""A throw-away authority whose client certificates are users of an API server (`--client-ca-file`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from pathlib import Path

_LIFETIME: Final = timedelta(days=7)
_SKEW: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Authority:
    """Issues client certificates: the common name is the user, organisations are the groups."""

    directory: Path
    certificate: Path
    key: ec.EllipticCurvePrivateKey = field(repr=False)

    @staticmethod
    def make(directory: Path) -> Authority:
        """Make a new one, and write its certificate into the directory."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("ktrain-test-users")
        basic = x509.BasicConstraints(ca=True, path_length=0)
        certificate = _builder(name, name, key.public_key()).add_extension(basic, critical=True)
        directory.mkdir(parents=True, exist_ok=True)
        file = directory / "ca.crt"
        file.write_bytes(certificate.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        return Authority(directory, file, key)

    def issue(self, user: str, groups: tuple[str, ...], directory: Path) -> tuple[Path, Path]:
        """Write certificate and key of a user into a new directory, and return both paths."""
        key = ec.generate_private_key(ec.SECP256R1())
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        builder = _builder(_name(user, *groups), _name("ktrain-test-users"), key.public_key())
        certificate = builder.add_extension(usage, critical=False).sign(self.key, hashes.SHA256())
        directory.mkdir(mode=0o700)
        files = directory / "user.crt", directory / "user.key"
        files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        pem, pkcs8, plain = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        files[1].write_bytes(key.private_bytes(pem, pkcs8, plain))
        return files


def _name(common: str, *organisations: str) -> x509.Name:
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, one) for one in organisations]
    return x509.Name([*names, x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    # Certificates are checked by other programs, in real time.
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + _LIFETIME)
    )
