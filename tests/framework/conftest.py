"""A scripted API server behind the transport seam, and certificates."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import ssl
from collections import deque
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ktrain.framework import Tracing
from ktrain.framework.client.credentials import Endpoint
from ktrain.framework.client.http import HttpTransport
from ktrain.framework.client.transport import Response, Stream
from ktrain.framework.errors import TransportError
from ktrain.framework.serving.site import serving

from .traced import provider_for


@dataclass
class Call:
    """One request as it reached the transport."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes | None
    timeout_s: float


@dataclass
class Script:
    """
    A transport that plays prepared answers, one list for requests and one for streams.

    A stream is a list of lines; an exception in it is raised there, a number is a pause in seconds. When the streams
    are used up, the next one stays silent for ever.
    """

    answers: deque = field(default_factory=deque)
    streams: deque = field(default_factory=deque)
    calls: list[Call] = field(default_factory=list)

    async def request(self, method, path, *, query=(), headers=None, body=None, timeout_s=30.0):
        self.calls.append(Call(method, path, dict(query), dict(headers or {}), body, timeout_s))
        await asyncio.sleep(0)
        answer = self.answers.popleft()
        if isinstance(answer, Exception):
            raise answer
        status, document, *rest = answer
        return Response(status, rest[0] if rest else {}, msgspec.json.encode(document))

    @asynccontextmanager
    async def stream(self, path, *, query=(), headers=None, idle_timeout_s=75.0):
        self.calls.append(Call("WATCH", path, dict(query), dict(headers or {}), None, idle_timeout_s))
        await asyncio.sleep(0)
        lines = self.streams.popleft() if self.streams else [float("inf")]
        if isinstance(lines, tuple):
            status, document, *rest = lines
            yield Stream(status, rest[0] if rest else {}, _play([document], idle_timeout_s))
        else:
            yield Stream(200, {}, _play(lines, idle_timeout_s))

    async def aclose(self):
        pass


async def _play(lines, idle_timeout_s):
    for line in lines:
        if isinstance(line, Exception):
            raise line
        if isinstance(line, int | float):
            await asyncio.sleep(min(line, idle_timeout_s))
            if line > idle_timeout_s:
                raise TransportError("nothing came")
            continue
        yield line if isinstance(line, bytes) else msgspec.json.encode(line)


@pytest.fixture
def script():
    return Script()


@pytest.fixture
def issue():
    """Write a self-signed pair for 127.0.0.1 under a common name, as Secrets mount it."""

    def write(directory, name):
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        certificate = (
            builder.not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(hours=1))
            .add_extension(here, critical=False)
            .sign(key, hashes.SHA256())
        )
        pem = serialization.Encoding.PEM
        directory.mkdir(exist_ok=True)
        (directory / "tls.crt").write_bytes(certificate.public_bytes(pem))
        (directory / "tls.key").write_bytes(
            key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        )

    return write


@asynccontextmanager
async def _server(handler, *, tls=None):
    app = web.Application(client_max_size=4 << 20)
    app.router.add_route("*", "/{path:.*}", handler)
    async with serving(app, "127.0.0.1", 0, tls=tls) as port:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}"


@asynccontextmanager
async def _transport(handler, *, tls=None, keepalive=None, **options):
    async with _server(handler, tls=tls) as url:
        made = HttpTransport(Endpoint(url, **options), keepalive=keepalive)
        try:
            yield made
        finally:
            await made.aclose()
            await made.aclose()


@pytest.fixture
def server():
    """Serve a handler on a real socket; gives the URL."""
    return _server


@pytest.fixture
def transport():
    """A transport to a handler on a real socket; options are the endpoint's."""
    return _transport


def _mutual_tls(server, *clients):
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(server / "tls.crt", server / "tls.key")
    if clients:
        tls.verify_mode = ssl.CERT_REQUIRED
        for client in clients:
            tls.load_verify_locations(client / "tls.crt")
    return tls


@pytest.fixture
def mutual_tls():
    """A server's TLS settings with a pair that `issue` wrote; it trusts the clients given, and asks for one of them."""
    return _mutual_tls


@pytest.fixture
def exporter():
    """Return the spans that have ended."""
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    return InMemorySpanExporter()


@pytest.fixture
def tracing(exporter):
    """Trace into the exporter."""
    return Tracing.on(provider_for(exporter))


@pytest.fixture
def environment(monkeypatch):
    """Set OTEL_* variables, of which there are no others."""
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)

    def put(**variables):
        for name, value in variables.items():
            monkeypatch.setenv(f"OTEL_{name}", value)

    return put
