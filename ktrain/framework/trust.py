"""
Whom TLS believes: the same on every Python, and what Go's crypto/x509 believes.

Authorities of clusters were often made by older tools and lack fields (RFC 5280's key identifiers, critical basic
constraints) on which Python 3.13 began to insist; kubectl and the API server never did. And whoever is named as an
authority is one, also an intermediate whose own issuer is not at hand, which Python accepts since 3.13 only.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def trusting(
    purpose: ssl.Purpose = ssl.Purpose.SERVER_AUTH, *, file: str | Path | None = None, data: str | None = None
) -> ssl.SSLContext:
    """
    Build TLS settings that believe these authorities.

    Args:
        purpose: Who is looked at: servers, or clients (who then need no certificate unless `verify_mode` asks for it).
        file: PEM; neither this nor `data` means the system's authorities.
        data: PEM.

    Raises:
        OSError: The file cannot be read, or there is no certificate in it (`ssl.SSLError`).
    """
    context = ssl.create_default_context(purpose, cafile=file, cadata=data)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context
