"""The server on a socket."""

from __future__ import annotations

import asyncio
import io
import json
import ssl

import aiohttp
import pytest

from ktrain.local.apiserver.front.certificates import self_signed
from ktrain.local.apiserver.front.http import BODY_LIMIT, serve_http

from ...waiting import until

MAPS = "/api/v1/namespaces/default/configmaps"
HEADERS = {"Authorization": "Bearer secret"}


@pytest.fixture
async def url(server):
    async with serve_http(server, token="secret") as url:
        yield url


@pytest.fixture
async def session():
    async with aiohttp.ClientSession(headers=HEADERS) as session:
        yield session


async def test_without_the_token_nothing_is_answered(url):
    async with aiohttp.ClientSession() as session:
        for headers, status in (
            ({}, 403),
            ({"Authorization": "Bearer wrong"}, 401),
            ({"Authorization": "secret"}, 403),
        ):
            async with session.get(url + MAPS, headers=headers) as answer:
                assert answer.status == status
                assert (await answer.json())["reason"] == {401: "Unauthorized", 403: "Forbidden"}[status]


async def test_answers_have_the_headers_clients_look_for(url, session):
    async with session.post(url + MAPS, json={"metadata": {"name": "a"}, "x": 1, "y": 2}) as answer:
        assert answer.status == 201
        assert answer.headers["Content-Type"] == "application/json"
        assert answer.headers["Cache-Control"] == "no-cache, private"
        assert answer.headers.getall("Warning") == ['299 - "unknown field \\"x\\""', '299 - "unknown field \\"y\\""']
    async with session.head(f"{url}{MAPS}/a") as answer:
        assert (answer.status, await answer.read()) == (405, b"")


async def test_a_watch_is_flushed_event_by_event(url, session):
    async with session.get(url + MAPS, params={"watch": "1"}) as watch:
        assert watch.headers["Transfer-Encoding"] == "chunked"
        async with session.post(url + MAPS, json={"metadata": {"name": "a"}}) as answer:
            assert answer.status == 201
        event = json.loads(await asyncio.wait_for(watch.content.readline(), 5))

    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "a")


async def test_a_client_that_goes_away_ends_its_watch(url, session, server):
    collection = server.store.collection("configmaps")
    async with session.get(url + MAPS, params={"watch": "1"}) as watch:
        assert watch.status == 200
        assert collection.watchers == 1
        watch.close()

    await until(lambda: not collection.watchers, within_s=5, every_s=0)


async def test_bodies_past_the_limit_are_refused(url, session):
    async with session.post(url + MAPS, data=io.BytesIO(b"x" * (BODY_LIMIT + 1))) as answer:
        assert answer.status == 413


async def test_leaving_closes_the_socket_and_ends_watches(server, session):
    async with serve_http(server, token="secret") as url:
        watch = await session.get(url + MAPS, params={"watch": "1"})
        assert watch.status == 200

    assert await watch.content.read() == b""
    with pytest.raises(aiohttp.ClientConnectorError):
        await session.get(url + MAPS)


async def test_a_certificate_makes_it_https(server, env, session):
    identity = self_signed("127.0.0.1", now=env.clock.now())
    trust = ssl.create_default_context(cadata=identity.certificate.decode())
    async with serve_http(server, token="secret", tls=identity) as url, session.get(url + MAPS, ssl=trust) as answer:
        assert url.startswith("https://127.0.0.1:")
        assert answer.status == 200


@pytest.mark.parametrize(("host", "token"), [("0.0.0.0", "t"), ("127.0.0.1", "")])
async def test_it_does_not_serve_strangers(server, host, token):
    with pytest.raises(ValueError, match="embedded API server"):
        async with serve_http(server, host=host, token=token):
            pass


async def test_headers_that_are_no_text_are_no_failure_of_the_server(url):
    refused = await raw(url, b"GET", b"Authorization: Bearer \xff")
    body = b'{"metadata": {"name": "a"}, "data": {"a": "b"}}'
    length = b"Content-Length: %d" % len(body)
    made = await raw(url, b"POST", b"Authorization: Bearer secret", b"User-Agent: a\xffb/1", length, body=body)

    assert refused.startswith(b"HTTP/1.1 401 ")
    assert made.startswith(b"HTTP/1.1 201 ")
    assert b'"manager":"ab"' in made


async def raw(url, method, *headers, body=b""):
    """Send bytes that no client library would; return the whole answer."""
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    lines = [b"%s %s HTTP/1.1" % (method, MAPS.encode()), b"Host: test", b"Connection: close", *headers, b"", body]
    writer.write(b"\r\n".join(lines))
    try:
        return await asyncio.wait_for(reader.read(), 5)
    finally:
        writer.close()
        await writer.wait_closed()
