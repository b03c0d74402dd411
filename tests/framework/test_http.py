import asyncio
import subprocess
import sys
import time

import pytest
from aiohttp import web

from ktrain.api.core import CONFIG_MAPS
from ktrain.framework.client import pools
from ktrain.framework.client.client import Client
from ktrain.framework.client.connector import Connector
from ktrain.framework.client.credentials import Endpoint, StaticToken
from ktrain.framework.client.http import HttpTransport, proxy_from_environment
from ktrain.framework.env import system_env
from ktrain.framework.errors import NotFound, TransportError


async def test_a_request_arrives_as_it_was_made_and_so_does_the_answer(transport):
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


async def test_lines_of_a_stream_come_as_they_are_sent_even_very_long_ones(transport):
    async def handler(request):
        response = web.StreamResponse()
        await response.prepare(request)
        for line in (b"one\n", b"t", b"wo\n", b"x" * (5 << 20) + b"\n", b"rest"):
            await response.write(line)
        return response

    async with transport(handler) as http, http.stream("/watch") as stream:
        lines = [line async for line in stream.lines]

    assert [len(line) for line in lines] == [3, 3, 5 << 20, 4]


async def test_lines_that_come_together_are_told_apart_also_with_carriage_returns(transport):
    async def handler(request):
        response = web.StreamResponse()
        await response.prepare(request)
        for part in (b"one\r\ntwo\n\nth", b"ree\nfo", b"ur\nfive"):
            await response.write(part)
            await asyncio.sleep(0.01)
        return response

    async with transport(handler) as http, http.stream("/watch") as stream:
        assert [line async for line in stream.lines] == [b"one", b"two", b"", b"three", b"four", b"five"]


async def test_a_line_that_does_not_end_is_a_transport_error_before_it_fills_the_memory(transport, monkeypatch):
    monkeypatch.setattr("ktrain.framework.client.lines.MAX_LINE_BYTES", 100_000)

    async def handler(request):
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(100):
            await response.write(b"x" * 10_000)
        return response

    async with transport(handler) as http, http.stream("/watch") as stream:
        with pytest.raises(TransportError, match="more than 100000 bytes"):
            await anext(stream.lines)


async def test_a_silent_stream_and_a_silent_call_end_with_a_transport_error(transport):
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


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_stream_follows_no_redirect_so_nobody_else_learns_whom_we_act_for(server, transport, status):
    elsewhere = []

    async def other(request):
        elsewhere.append(request.headers)
        return web.Response()

    async with server(other) as url:

        async def handler(request):
            return web.Response(status=status, headers={"Location": f"{url}/watch"})

        async with transport(handler, headers=(("Impersonate-User", "jane"),)) as http:
            with pytest.raises(TransportError, match=f"GET /watch: .* sends us to {url}/watch"):
                async with http.stream("/watch"):
                    pass

    assert not elsewhere


async def test_a_refused_connection_is_a_transport_error(server):
    async def handler(request):
        return web.Response()

    async with server(handler) as url:
        pass
    http = HttpTransport(Endpoint(url))
    with pytest.raises(TransportError, match="no answer"):
        await http.request("GET", "/")
    await http.aclose()


async def test_a_password_in_netrc_is_nobodys_business(transport, tmp_path, monkeypatch):
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


async def test_requests_go_through_the_proxy_of_the_environment(server, monkeypatch):
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


async def test_many_watches_do_not_keep_a_call_from_being_sent(transport):
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


async def test_nothing_is_sent_when_the_time_is_over_before_it_could_be(transport):
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


async def test_a_request_that_a_process_was_stopped_before_sending_is_not_sent_after_its_time(transport, monkeypatch):
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


async def test_errors_of_the_api_are_sentences_with_the_request(transport):
    async def handler(request):
        body = {"kind": "Status", "code": 404, "reason": "NotFound", "message": 'configmaps "a" not found'}
        return web.json_response(body, status=404)

    async with transport(handler) as http:
        with pytest.raises(NotFound) as caught:
            await Client(http, system_env(), field_manager="test").get(CONFIG_MAPS, "a", "ns")

    assert str(caught.value) == 'GET /api/v1/namespaces/ns/configmaps/a: configmaps "a" not found (404)'


async def test_a_body_of_three_megabytes_arrives_whole(transport):
    async def handler(request):
        return web.Response(text=str(len(await request.read())))

    async with transport(handler) as http:
        assert (await http.request("PUT", "/", body=b"x" * (3 << 20))).body == str(3 << 20).encode()


def test_importing_the_framework_loads_nothing_heavy():
    modules = "aiohttp kubernetes_asyncio prometheus_client cryptography"
    code = f"""
import sys
from ktrain import framework
for name in framework.__all__: getattr(framework, name)
print([name for name in {modules.split()} if name in sys.modules])"""

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


async def test_a_name_that_does_not_resolve_is_no_answer_and_is_looked_up_again_each_time():
    http = HttpTransport(Endpoint("https://api.cluster.invalid:6443"))
    try:
        for _ in range(2):
            with pytest.raises(TransportError, match="no answer from the API server"):
                await http.request("GET", "/version", timeout_s=5)
    finally:
        await http.aclose()


async def test_nothing_is_sent_by_a_process_that_stands_still_between_the_connection_and_the_first_byte(
    transport, monkeypatch
):
    """Stopped with a connection in its hands, it goes on after its time: it must not write."""
    seen = []

    async def handler(request):
        seen.append(request.method)
        return web.Response(body=await request.read())

    connect = Connector.connect

    async def connect_and_stand_still(self, *args, **named):
        connection = await connect(self, *args, **named)
        time.sleep(0.3)  # noqa: ASYNC251 - the loop stands still, as after SIGSTOP
        return connection

    async with transport(handler) as http:
        await http.request("POST", "/", body=b"{}")
        monkeypatch.setattr(Connector, "connect", connect_and_stand_still)
        with pytest.raises(TransportError):
            await http.request("POST", "/", body=b"{}", timeout_s=0.2)
        monkeypatch.undo()
        await http.request("PUT", "/", body=b"{}")

    assert seen == ["POST", "PUT"]
