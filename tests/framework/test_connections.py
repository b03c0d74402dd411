"""Connections that break, and peers that vanish, on real sockets."""

import asyncio
import os
import resource
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress

import anyio
import pytest
from aiohttp import web

from ktrain.api.core import CONFIG_MAPS, PODS, SECRETS, SERVICES
from ktrain.framework.cache.cache import Cache
from ktrain.framework.client.client import Client
from ktrain.framework.client.credentials import Endpoint, StaticToken
from ktrain.framework.client.http import HttpTransport
from ktrain.framework.client.keepalive import Keepalive
from ktrain.framework.env import system_env
from ktrain.framework.errors import TransportError
from ktrain.local.apiserver.front.http import serve_http
from ktrain.local.apiserver.server import ApiServer

from ..waiting import until


async def test_the_kernel_asks_silent_peers_of_calls_and_of_watches(transport):
    release = asyncio.Event()

    async def handler(request):
        response = web.StreamResponse()
        await response.prepare(request)
        if request.path == "/watch":
            await release.wait()
        return response

    async with transport(handler, keepalive=Keepalive(idle_s=7, every_s=3, times=2)) as http:
        await http.request("GET", "/")
        async with http.stream("/watch"):
            pools = http._connections._current
            (idle,) = pools.calls.connector._conns.values()
            (held,) = pools.streams.connector._acquired
            made = [kept.transport.get_extra_info("socket") for kept in (idle[0][0], held)]
            release.set()
            options = [[one.getsockopt(*option) for option in _OPTIONS] for one in made]

    assert options == [[1, 7, 3, 2, 13_000]] * 2


_OPTIONS = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name))
        for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")
        if hasattr(socket, name)
    ),
]

HALF_OPEN = """
import asyncio, subprocess, time
from ktrain.framework.client.credentials import Endpoint
from ktrain.framework.client.http import HttpTransport
from ktrain.framework.client.keepalive import Keepalive
from ktrain.framework.errors import TransportError

async def serve(reader, writer):
    await reader.readuntil(b"\\r\\n\\r\\n")
    writer.write(b"HTTP/1.1 200 OK\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n6\\r\\nfirst\\n\\r\\n")
    await asyncio.sleep(60)

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = "http://127.0.0.1:%d" % server.sockets[0].getsockname()[1]
    http = HttpTransport(Endpoint(url), keepalive=Keepalive(idle_s=1, every_s=1, times=1))
    async with http.stream("/watch", idle_timeout_s=60) as stream:
        print(await anext(stream.lines), flush=True)
        subprocess.run(["ip", "link", "set", "lo", "down"], check=True)
        started = time.monotonic()
        try:
            await anext(stream.lines)
        except TransportError as error:
            print(error, time.monotonic() - started < 15)
    await http.aclose()
    server.close()

asyncio.run(main())
"""


@pytest.mark.ns
def test_a_watch_whose_peer_vanished_without_a_word_ends_long_before_its_silence_would_end_it():
    """In a network of its own, whose only link goes down: no packet comes any more, and none says so."""
    script = f'ip link set lo up && exec "{sys.executable}" -c "$0"'
    ended = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", script, HALF_OPEN],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )

    assert ended.stdout.splitlines()[0] == "b'first'", ended.stderr
    assert "GET /watch: no answer from the API server" in ended.stdout
    assert ended.stdout.rstrip().endswith("True")


async def test_a_peer_that_does_not_accept_is_given_up_after_the_time_to_connect(monkeypatch):
    from ktrain.framework.client import http as module

    monkeypatch.setattr(module, "CONNECT_TIMEOUT_S", 0.2)
    with socket.socket() as listening, socket.socket() as first, socket.socket() as second:
        # The queue of a socket that accepts nobody is full after one or two; what comes then gets no answer at all.
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for one in (first, second):
            one.settimeout(0)
            one.connect_ex(listening.getsockname())
        http = HttpTransport(Endpoint(f"http://127.0.0.1:{listening.getsockname()[1]}"))
        async with asyncio.timeout(10):
            with pytest.raises(TransportError, match="no answer"):
                await http.request("GET", "/", timeout_s=30)
            with pytest.raises(TransportError, match="no answer"):
                async with http.stream("/"):
                    pass
        await http.aclose()


class Recorded(HttpTransport):
    """Notes what could be a list."""

    def __init__(self, endpoint):
        super().__init__(endpoint)
        self.lists = []

    async def request(self, method, path, **options):
        if method == "GET":
            self.lists.append(path)
        return await super().request(method, path, **options)

    def stream(self, path, *, query=(), **options):
        if "sendInitialEvents" in dict(query):
            self.lists.append(path)
        return super().stream(path, query=query, **options)


async def test_a_server_that_restarts_loses_no_event_of_five_watches_and_no_call_for_good():
    env = system_env()
    api = ApiServer(env)
    resources = [CONFIG_MAPS, SECRETS, SERVICES, PODS]
    names = [f"m{number}" for number in range(60)]

    async with serve_http(api, token="t") as url:
        port = int(url.rpartition(":")[2])
    http = Recorded(Endpoint(url, StaticToken("t")))
    client = Client(http, env, field_manager="test")
    cache = Cache(client, env)
    informers = [cache.informer(resource) for resource in resources]
    informers.append(cache.informer(CONFIG_MAPS, namespace="default"))

    async def write():
        for name in names:
            document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}
            while True:
                try:
                    await client.apply(CONFIG_MAPS, document)
                except TransportError:
                    await anyio.sleep(0.01)
                else:
                    break
            await anyio.sleep(0.01)

    try:
        async with asyncio.timeout(50), anyio.create_task_group() as tasks:
            for restart in range(3):
                async with serve_http(api, port=port, token="t"):
                    if not restart:
                        await tasks.start(cache.run)
                        await cache.wait_for_sync(20)
                        listed = list(http.lists)
                        tasks.start_soon(write)
                    await anyio.sleep(0.4)
                await anyio.sleep(0.2)
            async with serve_http(api, port=port, token="t"):
                await until(
                    lambda: all(len(informer) >= len(names) for informer in (informers[0], informers[-1])), within_s=50
                )
                tasks.cancel_scope.cancel()
    finally:
        await http.aclose()

    assert sorted(item.metadata.name for item in informers[-1].list()) == sorted(names)
    assert http.lists == listed


async def test_a_process_without_free_file_descriptors_gets_errors_of_the_transport_until_it_has_some(transport):
    async def handler(request):
        return web.Response(text="{}")

    async with transport(handler) as http:
        await http.request("GET", "/warm")  # what is loaded at first use is there
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with ExitStack() as taken:
            taken.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
            with suppress(OSError):
                while True:
                    taken.callback(os.close, os.open(os.devnull, os.O_RDONLY))
            with pytest.raises(TransportError, match="open files"):
                async with http.stream("/"):
                    pass
        async with http.stream("/") as stream:
            status = stream.status

    assert status == 200
