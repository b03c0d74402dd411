"""
Certificates of our own making: a CA, and one serving certificate by it.

Each issue makes a new CA, signs one certificate and forgets the CA's key: it is written nowhere, so whoever reads the
Secret can pose as this webhook, but cannot issue certificates that API servers would trust. To renew is to issue again.
"""

from __future__ import annotations

import ipaddress
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from .certificates import KeyPair

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

SKEW: Final = timedelta(minutes=5)
"""Certificates begin this long before they are made: clocks differ."""


@dataclass(frozen=True, slots=True)
class Issue:
    """A CA's certificate (PEM), and the one pair that it signed."""

    ca: bytes
    pair: KeyPair


@dataclass(frozen=True, slots=True)
class Validity:
    """From when to when a certificate holds, and for which names."""

    begins: datetime
    ends: datetime
    names: frozenset[str]


def issue(names: Sequence[str], *, now: datetime, lifetime: timedelta) -> Issue:
    """
    Make a CA and a certificate for DNS names and IP addresses. Takes about a millisecond.

    Both end together. The CA's subject is new each time: clients look certificates up in a bundle by it.
    """
    # Loading cryptography costs more than a start may take, and only replicas that make certificates need it.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca_name = _name(f"ktrain webhook CA {secrets.token_hex(8)}")
    begins, ends = now - SKEW, now + lifetime
    ca_identifier = x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key())
    authority = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(ca_identifier)
    ca = (
        x509.CertificateBuilder(ca_name, ca_name, ca_key.public_key(), x509.random_serial_number(), begins, ends)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage("key_cert_sign", "crl_sign"), critical=True)
        .add_extension(ca_identifier, critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    serving = (
        x509.CertificateBuilder(
            ca_name, _name("ktrain webhook"), key.public_key(), x509.random_serial_number(), begins, ends
        )
        .add_extension(x509.SubjectAlternativeName([_alternative(one) for one in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage("digital_signature"), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(authority, critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    return Issue(_pem(ca), KeyPair(_pem(serving), _key_pem(key)))


def validity(certificate: bytes) -> Validity:
    """Read the first certificate of a PEM document. ValueError if there is none."""
    from cryptography import x509

    loaded = x509.load_pem_x509_certificate(certificate)
    names: frozenset[str] = frozenset()
    try:
        found = loaded.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names = frozenset(
            [
                *found.get_values_for_type(x509.DNSName),
                *map(str, found.get_values_for_type(x509.IPAddress)),
            ]
        )
    except x509.ExtensionNotFound:
        pass  # It is for nobody by name.
    return Validity(loaded.not_valid_before_utc, loaded.not_valid_after_utc, names)


def split_bundle(bundle: bytes) -> list[bytes]:
    """Return the certificates of a PEM document one by one. ValueError if it holds something else."""
    from cryptography import x509

    return [_pem(one) for one in x509.load_pem_x509_certificates(bundle)] if bundle.strip() else []


def is_signed(certificate: bytes, bundle: bytes) -> bool:
    """Whether a CA of a bundle signed the first certificate of a PEM document, or the bundle holds it itself."""
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature

    try:
        found = x509.load_pem_x509_certificate(certificate)
        authorities = x509.load_pem_x509_certificates(bundle)
    except ValueError:
        return False
    for one in authorities:
        try:
            found.verify_directly_issued_by(one)
        except (ValueError, TypeError, InvalidSignature):
            continue
        return True
    return found in authorities


def fits(pair: KeyPair) -> bool:
    """Whether the key is the certificate's."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(pair.key, None)
        return x509.load_pem_x509_certificate(pair.certificate).public_key() == key.public_key()
    except (ValueError, TypeError):
        return False


def problem(pair: KeyPair) -> tuple[str, str] | None:
    """Return which of the files `tls.crt` and `tls.key` is wrong, and how; None if a server can use them."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        x509.load_pem_x509_certificates(pair.certificate)
    except ValueError:
        return "tls.crt", "it holds no certificate in PEM form"
    try:
        load_pem_private_key(pair.key, None)
    except TypeError:
        return "tls.key", "the key is encrypted: store it without a password"
    except ValueError:
        return "tls.key", "it holds no private key in PEM form"
    return None if fits(pair) else ("tls.key", "it is not the key of the certificate in tls.crt")


def _name(common: str) -> x509.Name:
    from cryptography import x509

    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common)])


def _alternative(name: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _usage(*purposes: str) -> x509.KeyUsage:
    from cryptography import x509

    every = (
        *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
        *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
    )
    return x509.KeyUsage(**{one: one in purposes for one in every})


def _pem(certificate: x509.Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
