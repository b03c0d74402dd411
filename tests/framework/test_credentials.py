import asyncio
import time

import pytest
from aiohttp import web

from ktrain.api.core import CONFIG_MAPS
from ktrain.framework.client.client import Client
from ktrain.framework.client.credentials import Credentials, Endpoint, StaticToken
from ktrain.framework.client.finding import in_cluster
from ktrain.framework.client.renewal import TokenFile
from ktrain.framework.env import system_env
from ktrain.framework.errors import ConfigError, TransportError, Unauthorized


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
