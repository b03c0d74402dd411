import asyncio
import shutil

import pytest
from aiohttp import web

from ktrain.framework.client import pools
from ktrain.framework.client.credentials import Endpoint
from ktrain.framework.client.http import HttpTransport
from ktrain.framework.errors import ConfigError, TransportError


async def test_a_renewed_certificate_is_used_at_once_and_streams_under_the_old_one_go_on(
    transport, tmp_path, issue, mutual_tls, monkeypatch
):
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


async def test_renewed_authorities_are_trusted_and_looked_for_only_now_and_then(
    transport, tmp_path, issue, mutual_tls, monkeypatch
):
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


async def test_an_authority_file_that_is_emptied_or_removed_changes_nothing(
    transport, tmp_path, issue, mutual_tls, monkeypatch
):
    monkeypatch.setattr(pools, "LOOK_S", 0.0)
    issue(tmp_path / "server", "server")
    trusted = tmp_path / "ca.crt"
    shutil.copy(tmp_path / "server" / "tls.crt", trusted)

    async def handler(request):
        return web.Response()

    async with transport(handler, tls=mutual_tls(tmp_path / "server"), ca_file=str(trusted)) as http:
        statuses = [(await http.request("GET", "/")).status]
        trusted.write_text("")
        statuses.append((await http.request("GET", "/")).status)
        trusted.unlink()
        statuses.append((await http.request("GET", "/")).status)

    assert statuses == [200] * 3


async def test_new_authorities_mean_new_connections_for_those_who_were_trusted_only_before(
    transport, tmp_path, issue, mutual_tls, monkeypatch
):
    """A connection that was trusted once does not go on for ever."""
    monkeypatch.setattr(pools, "LOOK_S", 0.0)
    for name in ("server", "other"):
        issue(tmp_path / name, name)
    trusted = tmp_path / "ca.crt"
    shutil.copy(tmp_path / "server" / "tls.crt", trusted)

    async def handler(request):
        return web.Response()

    async with transport(handler, tls=mutual_tls(tmp_path / "server"), ca_file=str(trusted)) as http:
        assert (await http.request("GET", "/")).status == 200
        shutil.copy(tmp_path / "other" / "tls.crt", trusted)
        with pytest.raises(TransportError, match="certificate"):
            await http.request("GET", "/")
