import asyncio
import os
import shutil
import signal
import ssl
import subprocess
import sys
import time
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from ktrain.api.core import CONFIG_MAPS
from ktrain.framework.client import pools
from ktrain.framework.client.client import Client
from ktrain.framework.client.credentials import Endpoint, StaticToken, TokenFile, find_endpoint, in_cluster
from ktrain.framework.client.http import HttpTransport, connect, proxy_from_environment
from ktrain.framework.env import system_env
from ktrain.framework.errors import ConfigError, NotFound, TransportError, Unauthorized
from ktrain.framework.serving import serving


@asynccontextmanager
async def server(handler, *, tls=None):
    app = web.Application(client_max_size=4 << 20)
    app.router.add_route("*", "/{path:.*}", handler)
    async with serving(app, "127.0.0.1", 0, tls=tls) as port:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}"


@asynccontextmanager
async def transport(handler, *, tls=None, **options):
    async with server(handler, tls=tls) as url:
        made = HttpTransport(Endpoint(url, **options))
        try:
            yield made
        finally:
            await made.aclose()
            await made.aclose()


async def test_a_request_arrives_as_it_was_made_and_so_does_the_answer():
    seen = {}

    async def handler(request):
        seen.update(
            method=request.method,
            path=request.raw_path,
            query=list(request.query.items()),
            headers=dict(request.headers),
            body=await request.read(),
        )
        return web.Response(status=418, body=b"tea", headers={"Retry-After": "7"})

    async with transport(handler, credentials=StaticToken("secret")) as http:
        query = [("a", "1"), ("a", "2 3")]
        answer = await http.request(
            "PUT", "/api/x%2Fy", query=query, headers={"Content-Type": "text/x"}, body=b"\x00hi"
        )

    assert (answer.status, answer.body, answer.headers["retry-after"]) == (418, b"tea", "7")
    assert (seen["method"], seen["body"], seen["query"]) == ("PUT", b"\x00hi", query)
    assert seen["path"].startswith("/api/x%2Fy?")
    assert seen["headers"]["Authorization"] == "Bearer secret"
    assert seen["headers"]["User-Agent"].startswith("ktrain/")
    assert seen["headers"]["Content-Type"] == "text/x"


async def test_lines_of_a_stream_come_as_they_are_sent_even_very_long_ones():
    async def handler(request):
        response = web.StreamResponse()
        await response.prepare(request)
        for line in (b"one\n", b"t", b"wo\n", b"x" * (5 << 20) + b"\n", b"rest"):
            await response.write(line)
        return response

    async with transport(handler) as http, http.stream("/watch") as stream:
        lines = [line async for line in stream.lines]

    assert [len(line) for line in lines] == [3, 3, 5 << 20, 4]


async def test_a_silent_stream_and_a_silent_call_end_with_a_transport_error():
    release = asyncio.Event()

    async def handler(request):
        if request.path == "/watch":
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b"first\n")
            await release.wait()
            return response
        await release.wait()
        return web.Response()

    async with transport(handler) as http:
        async with http.stream("/watch", idle_timeout_s=0.1) as stream:
            assert await anext(stream.lines) == b"first"
            with pytest.raises(TransportError, match="/watch"):
                await anext(stream.lines)
        with pytest.raises(TransportError, match="GET /call: no answer"):
            await http.request("GET", "/call", timeout_s=0.1)
        release.set()


async def test_a_refused_connection_is_a_transport_error():
    async def handler(request):
        return web.Response()

    async with server(handler) as url:
        pass
    http = HttpTransport(Endpoint(url))
    with pytest.raises(TransportError, match="no answer"):
        await http.request("GET", "/")
    await http.aclose()


async def test_a_password_in_netrc_is_nobodys_business(tmp_path, monkeypatch):
    (tmp_path / "netrc").write_text("default login somebody password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    seen = []

    async def handler(request):
        seen.append(request.headers["Authorization"])
        return web.Response()

    async with transport(handler, credentials=StaticToken("token")) as http:
        await http.request("GET", "/")
        async with http.stream("/"):
            pass

    assert seen == ["Bearer token"] * 2


async def test_requests_go_through_the_proxy_of_the_environment(monkeypatch):
    seen = []

    async def proxy(request):
        seen.append((str(request.url), request.headers.get("Proxy-Authorization")))
        return web.Response()

    async with server(proxy) as url:
        monkeypatch.setenv("HTTP_PROXY", url.replace("http://", "http://user:word@"))
        monkeypatch.setenv("NO_PROXY", "direct.example")
        http = HttpTransport(Endpoint("http://api.example:81"))
        await http.request("GET", "/version")
        await http.aclose()

    assert seen == [("http://api.example:81/version", "Basic dXNlcjp3b3Jk")]
    assert proxy_from_environment("http://direct.example") is None
    assert proxy_from_environment("http://127.0.0.1:8080") is None
    assert proxy_from_environment("http://localhost:8080") is None


async def test_many_watches_do_not_keep_a_call_from_being_sent():
    release = asyncio.Event()

    async def handler(request):
        if request.path == "/watch":
            response = web.StreamResponse()
            await response.prepare(request)
            await release.wait()
            return response
        return web.Response(text="ok")

    async with transport(handler) as http, asyncio.TaskGroup() as tasks:
        opened = asyncio.Semaphore(0)

        async def watch():
            async with http.stream("/watch"):
                opened.release()
                await release.wait()

        for _ in range(120):
            tasks.create_task(watch())
        for _ in range(120):
            await opened.acquire()
        assert (await http.request("GET", "/call", timeout_s=5)).body == b"ok"
        release.set()


async def test_nothing_is_sent_when_the_time_is_over_before_it_could_be():
    """A process that is stopped while it connects finds the connection ready and its time gone: it must not write."""
    arrived = []

    async def handler(request):
        arrived.append(request.path)
        return web.Response()

    async with transport(handler) as http:
        call = asyncio.create_task(http.request("POST", "/write", timeout_s=0.2))
        await asyncio.sleep(0)
        time.sleep(0.3)  # noqa: ASYNC251 - the loop stands still, as after SIGSTOP
        with pytest.raises(TransportError):
            await call
        assert (await http.request("GET", "/read")).status == 200

    assert arrived == ["/read"]


async def test_a_request_that_a_process_was_stopped_before_sending_is_not_sent_after_its_time(monkeypatch):
    """
    Fencing must hold at the last step. The process gets its turn on a free connection, is stopped, and goes on when the
    time is over: the connection is served before the time-out that expired meanwhile.
    """
    monkeypatch.setattr(pools, "MAX_CALLS", 1)
    waiting, release, arrived = asyncio.Event(), asyncio.Event(), []

    async def handler(request):
        arrived.append(request.path)
        waiting.set()
        await release.wait()
        return web.Response()

    async with transport(handler) as http:

        async def first():
            await http.request("GET", "/first")
            time.sleep(0.4)  # noqa: ASYNC251 - the loop stands still, as after SIGSTOP; "/write" has the connection

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(first())
            await waiting.wait()
            write = tasks.create_task(_error_of(http.request("POST", "/write", timeout_s=0.3)))
            await asyncio.sleep(0.05)
            release.set()
        assert (await http.request("GET", "/read")).status == 200

    assert isinstance(write.result(), TransportError)
    assert arrived == ["/first", "/read"]


async def _error_of(call):
    try:
        await call
    except TransportError as error:
        return error


class Hanging:
    """Credentials that never come."""

    can_refresh = True

    async def headers(self, *, fresh=False):
        await asyncio.Event().wait()


async def test_credentials_that_do_not_come_cost_a_call_no_more_than_its_time():
    async def handler(request):
        return web.Response()

    async with transport(handler, credentials=Hanging()) as http:
        with pytest.raises(TransportError, match="no credentials"):
            await http.request("GET", "/", timeout_s=0.05)
        with pytest.raises(TransportError, match="no credentials"):
            async with http.stream("/", idle_timeout_s=0.05):
                pass


async def test_what_is_left_after_the_credentials_came_is_the_time_of_the_call():
    class Slow(Hanging):
        async def headers(self, *, fresh=False):
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


def mutual_tls(server, *clients):
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(server / "tls.crt", server / "tls.key")
    if clients:
        tls.verify_mode = ssl.CERT_REQUIRED
        for client in clients:
            tls.load_verify_locations(client / "tls.crt")
    return tls


async def test_a_renewed_certificate_is_used_at_once_and_streams_under_the_old_one_go_on(tmp_path, issue, monkeypatch):
    monkeypatch.setattr(pools, "LOOK_S", 0.0)
    for name in ("server", "one", "two"):
        issue(tmp_path / name, name)
    mine = tmp_path / "mine"
    shutil.copytree(tmp_path / "one", mine)
    go_on = asyncio.Event()

    async def handler(request):
        name = request.transport.get_extra_info("peercert")["subject"][0][0][1]
        if request.path != "/watch":
            return web.Response(text=name)
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"first\n")
        await go_on.wait()
        await response.write(b"second\n")
        return response

    tls = mutual_tls(tmp_path / "server", tmp_path / "one", tmp_path / "two")
    options = {"client_cert": (str(mine / "tls.crt"), str(mine / "tls.key")), "verify": False}
    async with transport(handler, tls=tls, **options) as http, http.stream("/watch") as stream:

        async def seen():
            return (await http.request("GET", "/")).body

        assert (await anext(stream.lines), await seen()) == (b"first", b"one")
        shutil.copy(tmp_path / "two" / "tls.crt", mine)  # half of the pair: it does not fit
        assert await seen() == b"one"
        shutil.copy(tmp_path / "two" / "tls.key", mine)
        assert await seen() == b"two"
        go_on.set()
        assert [line async for line in stream.lines] == [b"second"]


async def test_renewed_authorities_are_trusted_and_looked_for_only_now_and_then(tmp_path, issue, monkeypatch):
    for name in ("server", "other"):
        issue(tmp_path / name, name)
    trusted = tmp_path / "ca.crt"
    shutil.copy(tmp_path / "other" / "tls.crt", trusted)

    async def handler(request):
        return web.Response()

    async with transport(handler, tls=mutual_tls(tmp_path / "server"), ca_file=str(trusted)) as http:
        with pytest.raises(TransportError, match="certificate"):
            await http.request("GET", "/")
        shutil.copy(tmp_path / "server" / "tls.crt", trusted)
        with pytest.raises(TransportError, match="certificate"):
            await http.request("GET", "/")
        monkeypatch.setattr(pools, "LOOK_S", 0.0)
        assert (await http.request("GET", "/")).status == 200


async def test_certificates_that_cannot_be_loaded_are_named(tmp_path):
    http = HttpTransport(Endpoint("https://127.0.0.1:1", ca_file=str(tmp_path / "missing.crt")))
    with pytest.raises(ConfigError, match=r"missing\.crt"):
        await http.request("GET", "/")


async def test_a_token_file_is_read_again_after_a_401(tmp_path):
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


async def test_a_static_token_that_is_refused_is_not_tried_twice():
    calls = 0

    async def handler(request):
        nonlocal calls
        calls += 1
        return web.json_response({"kind": "Status", "code": 401, "message": "Unauthorized"}, status=401)

    async with transport(handler, credentials=StaticToken("x")) as http:
        with pytest.raises(Unauthorized):
            await Client(http, system_env(), field_manager="test").get(CONFIG_MAPS, "a", "ns")

    assert calls == 1


async def test_errors_of_the_api_are_sentences_with_the_request():
    async def handler(request):
        body = {"kind": "Status", "code": 404, "reason": "NotFound", "message": 'configmaps "a" not found'}
        return web.json_response(body, status=404)

    async with transport(handler) as http:
        with pytest.raises(NotFound) as caught:
            await Client(http, system_env(), field_manager="test").get(CONFIG_MAPS, "a", "ns")

    assert str(caught.value) == 'GET /api/v1/namespaces/ns/configmaps/a: configmaps "a" not found (404)'


async def test_a_body_of_three_megabytes_arrives_whole():
    async def handler(request):
        return web.Response(text=str(len(await request.read())))

    async with transport(handler) as http:
        assert (await http.request("PUT", "/", body=b"x" * (3 << 20))).body == str(3 << 20).encode()


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


KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: one
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1/", tls-server-name: other}}]
users:
- {name: u, user: {token: abc}}
- {name: x, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: EXEC}}}
contexts:
- {name: one, context: {cluster: c, user: u, namespace: team}}
- {name: two, context: {cluster: c, user: x}}
"""


async def test_a_kubeconfig_names_server_user_and_namespace(tmp_path):
    path = tmp_path / "config"
    path.write_text(KUBECONFIG)

    http = await connect(str(path))

    endpoint = http.endpoint
    assert (endpoint.url, endpoint.namespace, endpoint.server_name) == ("http://127.0.0.1:1", "team", "other")
    assert await endpoint.credentials.headers() == {"Authorization": "Bearer abc"}


async def test_an_exec_plugin_is_asked_again_when_its_token_is_refused(tmp_path):
    plugin = tmp_path / "plugin"
    status = '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"t%s"}}'
    plugin.write_text(f"#!/bin/sh\necho x >> {tmp_path}/runs\nprintf '{status}' $(wc -l < {tmp_path}/runs)\n")
    plugin.chmod(0o755)
    path = tmp_path / "config"
    path.write_text(KUBECONFIG.replace("EXEC", str(plugin)))

    endpoint = await find_endpoint(str(path), "two")

    assert await endpoint.credentials.headers() == {"Authorization": "Bearer t1"}
    both = await asyncio.gather(*(endpoint.credentials.headers(fresh=True) for _ in range(2)))
    assert both == [{"Authorization": "Bearer t2"}] * 2


async def test_a_plugin_that_hangs_is_waited_for_in_the_time_of_each_call_and_started_once(tmp_path):
    plugin, runs = tmp_path / "plugin", tmp_path / "runs"
    status = '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"old"}}'
    plugin.write_text(f"#!/bin/sh\ntest -e {runs} && echo $$ >> {runs} && exec sleep 60\nprintf '{status}'\n")
    plugin.chmod(0o755)

    async def handler(request):
        return web.Response(status=401)

    async with server(handler) as url:
        path = tmp_path / "config"
        path.write_text(KUBECONFIG.replace("EXEC", str(plugin)).replace("http://127.0.0.1:1/", url))
        http = await connect(str(path), "two")
        runs.touch()
        calls = [http.request("GET", "/", timeout_s=0.3) for _ in range(3)]
        errors = [*await asyncio.gather(*map(_error_of, calls)), await _error_of(http.request("GET", "/", timeout_s=1))]
        (process,) = runs.read_text().split()
        os.kill(int(process), signal.SIGKILL)
        with pytest.raises(ConfigError, match="exec"):
            await http.endpoint.credentials.headers(fresh=True)
        await http.aclose()

    assert ["no credentials" in str(error) for error in errors] == [True] * 4


@pytest.mark.parametrize("text", ["", "contexts: [", "{}", KUBECONFIG])
async def test_a_kubeconfig_that_cannot_be_used_says_so(tmp_path, text):
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"kubeconfig .*config"):
        await find_endpoint(str(path), "unknown")
    with pytest.raises(ConfigError, match="cannot be used"):
        await find_endpoint(str(tmp_path / "missing"), None)


def test_importing_the_framework_loads_nothing_heavy():
    modules = "aiohttp kubernetes_asyncio prometheus_client cryptography"
    code = f"""
import sys
from ktrain import framework
for name in framework.__all__: getattr(framework, name)
print([name for name in {modules.split()} if name in sys.modules])"""

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
