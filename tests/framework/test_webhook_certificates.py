import asyncio
import shutil
import ssl
from contextlib import asynccontextmanager

import anyio
import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from prometheus_client import CollectorRegistry

from ktrain.framework.env import Env, SystemClock, system_env
from ktrain.framework.metrics import Metrics
from ktrain.framework.serving.health import MetricsServer
from ktrain.framework.webhook import (
    Allowed,
    CertificateDirectory,
    KeyPair,
    ServingContext,
    SharedCertificates,
    WebhookServer,
)
from ktrain.testing.time import simulate


class SteppedClock(SystemClock):
    """Sleeps until it is told to go on."""

    def __init__(self):
        self.step = anyio.Event()
        self.asleep = anyio.Event()

    async def sleep(self, seconds):
        self.asleep.set()
        await self.step.wait()

    async def advance(self):
        """Let one sleep end, and wait for the next."""
        step, self.step, self.asleep = self.step, anyio.Event(), anyio.Event()
        step.set()
        await self.asleep.wait()


@asynccontextmanager
async def serving(directory, registry=None, **options):
    clock = SteppedClock()
    source = CertificateDirectory(directory, Env(clock), metrics=Metrics(registry))
    server = WebhookServer({"/": lambda _: Allowed()}, source, system_env(), host="127.0.0.1", port=0, **options)
    async with anyio.create_task_group() as tasks:
        await tasks.start(server.run)
        yield server, clock
        tasks.cancel_scope.cancel()


async def common_name(server):
    pem = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", server.port))
    return x509.load_pem_x509_certificate(pem.encode()).subject.rfc4514_string()


async def test_a_new_certificate_is_served_without_a_restart_and_a_broken_one_is_not(tmp_path, issue):
    registry = CollectorRegistry()
    issue(tmp_path, "one")
    async with serving(tmp_path, registry) as (server, clock):
        assert await common_name(server) == "CN=one"
        (tmp_path / "tls.crt").write_text("half a fi")
        await clock.advance()
        assert await common_name(server) == "CN=one"
        issue(tmp_path, "two")
        await clock.advance()
        assert await common_name(server) == "CN=two"
    assert registry.get_sample_value("certwatcher_read_certificate_total") == 3
    assert registry.get_sample_value("certwatcher_read_certificate_errors_total") == 1


async def test_a_half_written_pair_waits_for_its_other_half(tmp_path, issue):
    issue(tmp_path, "one")
    issue(tmp_path / "new", "two")
    async with serving(tmp_path) as (server, clock):
        shutil.copy(tmp_path / "new" / "tls.crt", tmp_path / "tls.crt")
        await clock.advance()
        assert await common_name(server) == "CN=one"
        shutil.copy(tmp_path / "new" / "tls.key", tmp_path / "tls.key")
        await clock.advance()
        assert await common_name(server) == "CN=two"


async def test_a_mounted_secret_changes_by_a_symlink_to_another_directory(tmp_path, issue):
    for name in ("one", "two"):
        issue(tmp_path / name, name)
    mount, data = tmp_path / "mount", tmp_path / "mount" / "..data"
    mount.mkdir()
    data.symlink_to(tmp_path / "one")
    for name in ("tls.crt", "tls.key"):
        (mount / name).symlink_to(data / name)
    async with serving(mount) as (server, clock):
        swap = mount / "..data_tmp"
        swap.symlink_to(tmp_path / "two")
        swap.replace(data)
        await clock.advance()
        assert await common_name(server) == "CN=two"


async def test_files_that_vanish_leave_the_last_pair_serving(tmp_path, issue):
    issue(tmp_path, "one")
    async with serving(tmp_path) as (server, clock):
        (tmp_path / "tls.key").unlink()
        await clock.advance()
        assert await common_name(server) == "CN=one"


async def test_without_a_usable_pair_at_the_start_nothing_is_served(tmp_path):
    with pytest.raises(ExceptionGroup) as raised:
        async with serving(tmp_path):
            raise AssertionError("not reached")
    assert raised.group_contains(FileNotFoundError, match="tls.crt and tls.key must be there: mount a Secret, or")


@pytest.mark.parametrize(
    ("file", "content", "text"),
    [
        ("tls.crt", "junk", "tls.crt: it holds no certificate in PEM form"),
        ("tls.crt", "", "tls.crt: it holds no certificate in PEM form"),
        ("tls.key", "junk", "tls.key: it holds no private key in PEM form"),
        ("tls.key", "another's", "tls.key: it is not the key of the certificate in tls.crt"),
        ("tls.key", "encrypted", "tls.key: the key is encrypted: store it without a password"),
    ],
)
async def test_a_pair_that_cannot_be_served_is_refused_by_its_file(tmp_path, issue, file, content, text):
    issue(tmp_path, "one")
    if content == "another's":
        issue(tmp_path / "other", "two")
        content = (tmp_path / "other" / "tls.key").read_text()
    elif content == "encrypted":
        key = serialization.load_pem_private_key((tmp_path / "tls.key").read_bytes(), None)
        cipher = serialization.BestAvailableEncryption(b"secret")
        form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        content = key.private_bytes(*form, cipher).decode()
    (tmp_path / file).write_text(content)

    with pytest.raises(ExceptionGroup) as raised:
        async with serving(tmp_path):
            raise AssertionError("not reached")

    assert raised.group_contains(OSError, match=f"{tmp_path}/{text}")


async def test_no_handshake_fails_while_certificates_are_exchanged(tmp_path, issue):
    tls = ServingContext()
    pairs = []
    for name in ("one", "two"):
        issue(tmp_path / name, name)
        pairs.append(KeyPair((tmp_path / name / "tls.crt").read_bytes(), (tmp_path / name / "tls.key").read_bytes()))
    await tls.use(pairs[0])
    listener = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=tls.context)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    done = anyio.Event()

    async def exchange():
        for n in range(100):
            await tls.use(pairs[n % 2])
        done.set()

    handshakes = 0
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(exchange)
        while not done.is_set():
            _, writer = await asyncio.open_connection(*listener.sockets[0].getsockname(), ssl=context)
            writer.transport.abort()
            handshakes += 1
    assert handshakes > 20


async def test_with_a_client_ca_only_its_clients_are_served(tmp_path, issue):
    issue(tmp_path, "one")
    authority, other = trustme.CA(), trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "clients.crt")

    async def talk(server, ca):
        context = ssl.create_default_context(cafile=tmp_path / "tls.crt")
        if ca is not None:
            ca.issue_cert("api-server").configure_cert(context)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
        try:
            writer.write(b"GET / HTTP/1.0\r\n\r\n")
            return await reader.readline()
        except OSError:
            return b""  # refused after the hello: whether an alert or a reset comes first is chance
        finally:
            writer.transport.abort()

    async with serving(tmp_path, client_ca=tmp_path / "clients.crt") as (server, clock):
        for _ in range(2):
            assert b"405" in await talk(server, authority)
            for stranger in (None, other):
                assert await talk(server, stranger) == b""
            assert server.check() is None
            issue(tmp_path, "two")
            await clock.advance()


def test_a_key_is_in_no_repr():
    assert "secret" not in repr(KeyPair(b"public", b"secret"))


def test_a_source_that_is_shared_is_run_once_and_each_server_gets_each_pair():
    pairs = [KeyPair(b"first", b"1"), KeyPair(b"second", b"2")]

    class InTime:
        runs = 0

        def __init__(self, clock):
            self.clock = clock

        async def run(self, use, *, task_status):
            self.runs += 1
            for pair in pairs:
                await self.clock.sleep(60)
                await use(pair)
                task_status.started()
                task_status = anyio.TASK_STATUS_IGNORED
            await anyio.sleep_forever()

    async def scenario(env):
        source, served = InTime(env.clock), {}

        def server(name):
            async def use(pair):
                served.setdefault(name, []).append(pair)

            return use

        shared = SharedCertificates(source)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(shared.follower().run, server("early"))
            await tasks.start(shared.run, server("main"))
            await tasks.start(shared.follower().run, server("late"))
            await env.clock.sleep(120)
            tasks.cancel_scope.cancel()
        assert served == {"main": pairs, "early": pairs, "late": pairs}
        assert source.runs == 1

    simulate(scenario)


@pytest.mark.parametrize("kind", ["webhooks", "metrics"])
@pytest.mark.parametrize(
    ("least", "spoken"), [(ssl.TLSVersion.TLSv1_2, ["TLSv1.2", "TLSv1.3"]), (ssl.TLSVersion.TLSv1_3, ["TLSv1.3"])]
)
async def test_no_version_of_tls_is_spoken_below_the_least(tmp_path, issue, kind, least, spoken):
    issue(tmp_path, "localhost")
    source = CertificateDirectory(tmp_path, system_env())
    if kind == "webhooks":
        server = WebhookServer({}, source, system_env(), host="127.0.0.1", port=0, tls_minimum=least)
    else:
        server = MetricsServer("127.0.0.1", 0, CollectorRegistry(), certificates=source, tls_minimum=least)
    async with anyio.create_task_group() as tasks:
        await tasks.start(server.run)
        found = [name for version in ssl.TLSVersion if (name := await _spoken(server.port, version))]
        tasks.cancel_scope.cancel()

    assert found == spoken


async def _spoken(port, version):
    """Return the version that a client which speaks no other gets; nothing if it is refused."""
    if version not in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        return ""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = context.maximum_version = version
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    except (ssl.SSLError, ConnectionError):
        return ""
    try:
        return writer.get_extra_info("ssl_object").version()
    finally:
        writer.transport.abort()
