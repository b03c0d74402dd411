"""Connections that send half of a request, nonsense, or nothing."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import AsyncExitStack
from urllib.parse import urlsplit

import pytest

from ktrain.framework.env import system_env
from ktrain.local.apiserver.front import connection, http
from ktrain.local.apiserver.front.certificates import self_signed

MAPS = "/api/v1/namespaces/default/configmaps"


async def test_who_begins_and_does_not_go_on_is_let_go(connect, monkeypatch):
    monkeypatch.setattr(connection, "HEAD_TIMEOUT_S", 0.2)
    async with connect() as silent, connect() as half:
        await half.send(b"GET /version HTTP/1.1\r\nHos")
        assert (await silent.reply(5), await half.reply(5)) == ((0, b""), (0, b""))


async def test_a_head_that_drips_in_for_ever_ends(connect, monkeypatch):
    monkeypatch.setattr(connection, "HEAD_TIMEOUT_S", 0.3)
    async with connect() as line:

        async def drip() -> None:
            await line.send(b"GET /version HTTP/1.1\r\n")
            while True:
                await line.send(b"X: y\r\n")
                await asyncio.sleep(0.02)

        dripping = asyncio.create_task(drip(), name="drip")
        assert (await line.reply(5)).status == 0
        dripping.cancel()


async def test_who_has_asked_once_may_wait_longer(connect, monkeypatch):
    monkeypatch.setattr(connection, "HEAD_TIMEOUT_S", 0.1)
    async with connect() as line:
        await line.send(line.request("GET", MAPS))
        assert (await line.reply()).status == 200
        await asyncio.sleep(0.3)
        await line.send(line.request("GET", MAPS))
        assert (await line.reply()).status == 200


async def test_a_body_that_does_not_come_is_given_up(connect, monkeypatch):
    monkeypatch.setattr(connection, "BODY_TIMEOUT_S", 0.2)
    async with connect() as half, connect() as endless:
        await half.send(half.request("POST", MAPS, b'{"metadata":{"name":"a"}}')[:-5])
        chunked = endless.request("POST", MAPS).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
        await endless.send(chunked + b"5\r\n12345\r\n" * 3)

        for line in (half, endless):
            reply = await line.reply(5)
            assert (reply.status, reply.message) == (408, "the request was not sent in time")


@pytest.mark.parametrize(
    "noise",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)),
        b"\x00" * 1000 + b"\r\n\r\n",
        b"GET /a\x00b HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999999999999999999\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: y\r\n folded: yes\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nno size\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nxxxxx\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET  / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"y" * (2 << 20) + b"\r\n\r\n",
        b"GET /?" + b"y" * (2 << 20) + b" HTTP/1.1\r\n\r\n",
    ],
)
async def test_nonsense_is_refused_and_the_connection_ends(connect, ask, noise):
    async with connect() as line:
        await line.send(noise)
        assert (await line.reply()).status in (400, 431, 0)
        assert (await line.reply()).status == 0
    assert (await ask("GET", MAPS)).status == 200


@pytest.mark.parametrize("path", ["/a%00b", "/%ff%fe", "/..%2f..%2fsecrets", "/" + "n" * 5000])
async def test_odd_names_are_not_found(ask, path):
    assert (await ask("GET", MAPS + path)).status == 404


async def test_long_selectors_and_headers_are_ordinary(ask):
    values = ",".join(f"value-{number}" for number in range(10_000))

    assert (await ask("GET", f"{MAPS}?labelSelector=k%20in%20({values})")).status == 200
    assert (await ask("GET", MAPS, b"", f"X-Long: {'y' * 500_000}")).status == 200
    assert (await ask("GET", MAPS, b"", *(f"X-{number}: y" for number in range(5000)))).status == 200


async def test_what_is_pipelined_is_answered_in_turn_until_it_is_nonsense(connect):
    async with connect() as line:
        await line.send(line.request("GET", MAPS) * 3)
        assert [(await line.reply()).status for _ in range(3)] == [200, 200, 200]
        await line.send(b"certainly no request\r\n\r\n" + line.request("GET", MAPS))
        assert [(await line.reply()).status for _ in range(2)] == [400, 0]


async def test_a_hundred_thousand_pipelined_requests_wait_in_the_socket(connect, ask):
    async with connect() as line:
        flood = asyncio.create_task(line.send(line.request("GET", "/version") * 100_000), name="flood")
        assert (await line.reply()).status == 200
        assert (await ask("GET", MAPS)).status == 200
        flood.cancel()


async def test_five_hundred_idle_connections_are_in_nobodys_way(connect, ask):
    async with AsyncExitStack() as stack:
        for _ in range(500):
            await stack.enter_async_context(connect())
        assert (await ask("GET", MAPS)).status == 200


async def test_a_client_that_expects_to_be_told_to_go_on_is_told(connect):
    async with connect() as line:
        head, body = line.request("POST", MAPS, b'{"metadata":{"name":"e"}}', "Expect: 100-continue").split(b"\r\n\r\n")
        await line.send(head + b"\r\n\r\n")
        assert (await line.reply()).status == 100
        await line.send(body)
        assert (await line.reply()).status == 201


async def test_noise_on_a_tls_port_leaves_it_serving(server):
    identity = self_signed("127.0.0.1", now=system_env().clock.now())
    async with http.serve_http(server, token="secret", tls=identity) as url:
        port = urlsplit(url).port
        for noise in (b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 5000, b"\x16\x03\x01\xff\xff" + b"x" * 70_000, b""):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(noise)
            writer.close()
        context = ssl.create_default_context(cadata=identity.certificate.decode())
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        writer.write(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200 OK" in await reader.readline()
        writer.close()
