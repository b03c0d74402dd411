import asyncio
import base64
import ssl
import time
from contextlib import asynccontextmanager

import msgspec
import pytest
import trustme
from aiohttp import web
from cryptography.hazmat.primitives import serialization

from ktrain.api.core import CONFIG_MAPS
from ktrain.framework.client.client import Client
from ktrain.framework.client.credentials import BasicLogin, Credentials, Endpoint, StaticToken, bearer
from ktrain.framework.client.finding import in_cluster, read_endpoint
from ktrain.framework.client.http import HttpTransport
from ktrain.framework.client.renewal import TOKEN_AGE_S, Grant, Renewed, TokenFile
from ktrain.framework.env import Env, SystemClock, system_env
from ktrain.framework.errors import ConfigError, TransportError, Unauthorized
from ktrain.framework.trust import trusting

from ..waiting import until


class Hanging(Credentials):
    """Credentials that never come."""

    can_refresh = True

    async def headers(self, *, refused=None):
        await asyncio.Event().wait()


async def test_credentials_that_do_not_come_cost_a_call_no_more_than_its_time(transport):
    async def handler(request):
        return web.Response()

    async with transport(handler, credentials=Hanging()) as http:
        with pytest.raises(TransportError, match="no credentials"):
            await http.request("GET", "/", timeout_s=0.05)
        with pytest.raises(TransportError, match="no credentials"):
            async with http.stream("/", idle_timeout_s=0.05):
                pass


async def test_what_is_left_after_the_credentials_came_is_the_time_of_the_call(transport):
    class Slow(Hanging):
        async def headers(self, *, refused=None):
            await asyncio.sleep(0.2)
            return {}

    release = asyncio.Event()

    async def handler(request):
        await release.wait()
        return web.Response()

    async with transport(handler, credentials=Slow()) as http:
        started = time.monotonic()
        with pytest.raises(TransportError, match="no answer"):
            await http.request("GET", "/", timeout_s=0.3)
        assert time.monotonic() - started < 0.45
        release.set()


async def test_a_token_file_is_read_again_after_a_401(transport, tmp_path):
    token = tmp_path / "token"
    token.write_text("old\n")

    async def handler(request):
        return web.Response(status=200 if request.headers["Authorization"] == "Bearer new" else 401)

    async with transport(handler, credentials=TokenFile(token)) as http:
        assert (await http.request("GET", "/")).status == 401
        token.write_text("new\n")
        assert (await http.request("GET", "/")).status == 200
        token.unlink()
        async with http.stream("/") as stream:
            assert stream.status == 200


async def test_a_static_token_that_is_refused_is_not_tried_twice(transport):
    calls = 0

    async def handler(request):
        nonlocal calls
        calls += 1
        return web.json_response({"kind": "Status", "code": 401, "message": "Unauthorized"}, status=401)

    async with transport(handler, credentials=StaticToken("x")) as http:
        with pytest.raises(Unauthorized):
            await Client(http, system_env(), field_manager="test").get(CONFIG_MAPS, "a", "ns")

    assert calls == 1


def test_secrets_are_not_in_the_text_of_an_endpoint():
    assert "hunter2" not in repr(Endpoint("https://x", credentials=StaticToken("hunter2")))


def test_a_pod_finds_its_cluster(tmp_path, monkeypatch):
    for name, text in {"token": "t", "ca.crt": "c", "namespace": "team\n"}.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")

    found = in_cluster(tmp_path)

    assert (found.url, found.namespace, found.ca_file) == ("https://[fd00::1]:6443", "team", str(tmp_path / "ca.crt"))


def test_outside_of_a_pod_there_is_no_cluster_to_be_in(tmp_path, monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ConfigError, match="no pod"):
        in_cluster(tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    with pytest.raises(ConfigError, match="no service account"):
        in_cluster(tmp_path)


@pytest.mark.parametrize("token", ["", "a\nb: c", "a\r", "a\0", "ä"])
async def test_a_token_that_would_break_a_header_is_refused_without_showing_it(token, tmp_path):
    with pytest.raises(ConfigError) as caught:
        bearer(token)
    (tmp_path / "token").write_text(f"{token}\n{token}")
    with pytest.raises(ConfigError, match="token file"):
        await TokenFile(tmp_path / "token").headers()

    assert token == "" or token not in str(caught.value)


class SetClock(SystemClock):
    """Goes on when the test says so: files are read in threads, which virtual time does not know."""

    def __init__(self):
        self.now_s = 0.0

    def monotonic(self):
        return self.now_s


async def test_a_token_file_is_read_once_a_minute_and_what_cannot_be_used_changes_nothing(tmp_path):
    file, clock = tmp_path / "token", SetClock()
    credentials, seen = TokenFile(file, Env(clock=clock)), []

    for content, later_s in [
        ("one", 0),
        ("two\n", TOKEN_AGE_S - 1),
        ("two\n", 1),
        ("", TOKEN_AGE_S),
        (None, TOKEN_AGE_S),
        ("a\nb", TOKEN_AGE_S),
        ("three", TOKEN_AGE_S),
    ]:
        file.unlink(missing_ok=True)
        if content is not None:
            file.write_text(content)
        clock.now_s += later_s
        seen.append((await credentials.headers())["Authorization"])

    assert seen == [f"Bearer {name}" for name in ("one", "one", "two", "two", "two", "two", "three")]


async def test_a_401_for_an_older_token_does_not_drop_the_newer_one(tmp_path):
    file = tmp_path / "token"
    file.write_text("one")
    credentials = TokenFile(file)
    old = await credentials.headers()
    file.write_text("two")
    newer = await credentials.headers(refused=old)
    file.write_text("three")

    assert await credentials.headers(refused=old) is newer
    assert await credentials.headers(refused=newer) == {"Authorization": "Bearer three"}


async def test_credentials_that_did_not_change_are_the_same_object_and_the_call_is_not_repeated(tmp_path, transport):
    (tmp_path / "token").write_text("x")
    calls = 0

    async def handler(request):
        nonlocal calls
        calls += 1
        return web.Response(status=401)

    async with transport(handler, credentials=TokenFile(tmp_path / "token")) as http:
        assert (await http.request("GET", "/")).status == 401
        async with http.stream("/") as stream:
            assert stream.status == 401

    assert calls == 2


async def test_what_is_impersonated_arrives_group_by_group(transport):
    seen = []

    async def handler(request):
        seen.append([(name, value) for name, value in request.headers.items() if name.startswith("Imp")])
        seen.append(request.headers["Authorization"])
        return web.Response()

    as_jane = (("Impersonate-User", "jane"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b,c"))
    async with transport(handler, credentials=BasicLogin("me", "w"), headers=as_jane) as http:
        await http.request("GET", "/", headers={"Accept": "x"})
        async with http.stream("/"):
            pass

    assert seen == [list(as_jane), "Basic bWU6dw=="] * 2


def test_no_repr_shows_a_secret(tmp_path):
    (tmp_path / "token").write_text("hunter2")

    async def used():
        credentials = TokenFile(tmp_path / "token", token="hunter2")
        await credentials.headers()
        return credentials

    credentials = asyncio.run(used())
    pair = (b"hunter2", b"hunter2")
    endpoint = Endpoint("https://x", credentials, client_cert=pair, ca_data="hunter2", proxy="http://a:hunter2@b")

    for shown in (endpoint, credentials, credentials._grant, BasicLogin("a", "hunter2"), StaticToken("hunter2")):
        assert "hunter2" not in repr(shown)


class Cluster:
    """A real TLS server with an authority of its own, which trusts the clients of that authority."""

    def __init__(self):
        self.authority = trustme.CA()
        self.valid = "Bearer one"
        self.seen = []

    async def answer(self, request):
        subject = request.transport.get_extra_info("peercert")["subject"]
        self.seen.append(dict(pair for (pair,) in subject)["commonName"])
        if request.headers.get("Authorization") != self.valid:
            return web.Response(status=401)
        if request.path != "/watch":
            return web.Response()
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"event\n")
            await asyncio.sleep(0.005)

    def tls(self):
        context = trusting(ssl.Purpose.CLIENT_AUTH)
        self.authority.issue_cert("cluster.example").configure_cert(context)
        self.authority.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
        return context

    def kubeconfig(self, path, url, **user):
        client = self.authority.issue_cert(common_name="jane", organization_name="x")
        pem = {
            "certificate-authority-data": self.authority.cert_pem.bytes(),
            "client-certificate-data": client.cert_chain_pems[0].bytes(),
            "client-key-data": client.private_key_pem.bytes(),
        }
        encoded = {name: base64.b64encode(data).decode() for name, data in pem.items()}
        ca = encoded.pop("certificate-authority-data")
        cluster = {"server": url, "tls-server-name": "cluster.example", "certificate-authority-data": ca}
        content = {
            "current-context": "one",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {**encoded, **user}}],
            "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
        }
        path.write_bytes(msgspec.json.encode(content))
        return str(path)

    @asynccontextmanager
    async def serving(self, server, path, **user):
        async with server(self.answer, tls=self.tls()) as url:
            http = HttpTransport(read_endpoint(self.kubeconfig(path, url, **user)))
            try:
                yield http
            finally:
                await http.aclose()


async def test_a_token_rotates_over_tls_while_calls_and_watches_run_and_none_of_them_notices(server, tmp_path):
    cluster, token = Cluster(), tmp_path / "token"
    token.write_text("one")
    statuses, events = [], []

    async def call():
        for _ in range(60):
            statuses.append((await http.request("GET", "/")).status)  # noqa: PERF401 - one after the other

    async def watch():
        async with http.stream("/watch") as stream:
            async for line in stream.lines:
                events.append(line)
                if len(statuses) >= 240:
                    return

    async with cluster.serving(server, tmp_path / "config", tokenFile="token") as http, asyncio.timeout(30):
        async with asyncio.TaskGroup() as tasks:
            for _ in range(4):
                tasks.create_task(call())
            tasks.create_task(watch())
            for rotation in ("two", "three"):
                enough = 60 if rotation == "two" else 120
                await until(lambda enough=enough: len(statuses) >= enough, every_s=0.001)
                token.write_text(rotation)
                cluster.valid = f"Bearer {rotation}"
        async with http.stream("/watch") as stream:
            last = stream.status

    assert statuses == [200] * 240
    assert (last, len(events) > 1) == (200, True)
    assert set(cluster.seen) == {"jane"}


async def test_an_authority_that_is_not_the_clusters_gets_no_token(server, tmp_path):
    cluster, other = Cluster(), Cluster()
    (tmp_path / "token").write_text("one")
    async with server(cluster.answer, tls=cluster.tls()) as url:
        http = HttpTransport(read_endpoint(other.kubeconfig(tmp_path / "config", url, tokenFile="token")))
        with pytest.raises(TransportError, match="certificate verify failed"):
            await http.request("GET", "/")
        await http.aclose()

    assert cluster.seen == []


def test_a_key_with_a_password_is_an_error_not_a_question_to_the_terminal(tmp_path):
    pair = trustme.CA().issue_cert("me")
    key = serialization.load_pem_private_key(pair.private_key_pem.bytes(), None)
    locked = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"hunter2"),
    )
    endpoint = Endpoint("https://x", client_cert=(pair.cert_chain_pems[0].bytes(), locked))
    with pytest.raises(ConfigError, match="encrypted"):
        endpoint.ssl_context()


class Slow(Renewed):
    """Credentials whose first grant comes when it is released."""

    def __init__(self):
        super().__init__()
        self.asked, self.released = asyncio.Event(), asyncio.Event()

    async def obtain(self, last, *, refused):
        self.asked.set()
        await self.released.wait()
        return Grant({"Authorization": "Bearer x"})


async def test_a_transport_that_closes_leaves_the_credentials_to_the_one_it_shares_them_with(server):
    slow = Slow()

    async def answer(request):
        return web.Response(text=request.headers["Authorization"])

    async with server(answer) as url:
        endpoint = Endpoint(url, credentials=slow)
        calls, election = HttpTransport(endpoint), HttpTransport(endpoint)
        call = asyncio.create_task(calls.request("GET", "/"))
        await slow.asked.wait()
        await election.aclose()
        await election.aclose()
        slow.released.set()
        answered = (await call).body
        await calls.aclose()

    assert answered == b"Bearer x"


async def test_with_the_last_transport_ends_what_runs_for_the_credentials():
    slow = Slow()
    endpoint = Endpoint("http://127.0.0.1:9", credentials=slow)
    transports = HttpTransport(endpoint), HttpTransport(endpoint)
    call = asyncio.create_task(slow.headers())
    await slow.asked.wait()
    for transport in transports:
        await transport.aclose()

    with pytest.raises(ConfigError, match="closed"):
        await call
