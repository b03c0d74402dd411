"""A look at a TLS server of our own from outside: does it answer, and with the certificate that it should have?"""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from ktrain.framework.webhook.certificates import ServingContext

log: FilteringBoundLogger = structlog.get_logger("ktrain.framework.serving")

DIAL_S: Final = 10.0
"""Between looks at ourselves, and for one of them."""


async def dial(host: str, port: int, tls: ServingContext) -> str | None:
    """Connect as a client would. Returns what is wrong; None if the latest certificate was met."""
    context = ssl.create_default_context()
    # What is checked is which certificate is served, not who vouches for it.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    before = tls.certificate
    try:
        async with asyncio.timeout(DIAL_S):
            _, writer = await asyncio.open_connection(host or "localhost", port, ssl=context)
    except (OSError, TimeoutError) as error:
        log.warning("serving.unreachable", port=port, error=str(error))
        return f"no TLS connection to port {port}: {error or 'timeout'}"
    served = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    good = served in {ssl.PEM_cert_to_DER_cert(_first(one)) for one in (before, tls.certificate)}
    return None if good else f"port {port} serves another certificate than it should"


def _first(pem: bytes) -> str:
    """The first certificate of a chain."""
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    return begin + pem.decode("ascii", "replace").partition(begin)[2].partition(end)[0] + end
