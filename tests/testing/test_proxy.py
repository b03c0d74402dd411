"""Faults between real sockets."""

import asyncio
import contextlib
from contextlib import asynccontextmanager

import msgspec
import pytest

from ktrain.api.core import CONFIG_MAPS
from ktrain.api.meta import Key
from ktrain.framework import Client
from ktrain.framework.client.finding import find_endpoint
from ktrain.framework.client.http import HttpTransport
from ktrain.framework.env import system_env
from ktrain.framework.errors import ServerError, TransportError, Unauthorized
from ktrain.testing.planes import embedded_plane
from ktrain.testing.proxy import fault_proxy

from ..programs import KUBECTL, needs_kubectl

PATH = "/api/v1/namespaces/default/configmaps"
WATCH = [("watch", "true"), ("allowWatchBookmarks", "true"), ("sendInitialEvents", "true")]
WATCH += [("resourceVersionMatch", "NotOlderThan")]


@asynccontextmanager
async def proxied(*, tls=True):
    """An embedded server behind a proxy, and a client in front of it."""
    async with embedded_plane() as plane, fault_proxy(await plane.kubeconfig(), tls=tls) as proxy:
        transport = HttpTransport(await find_endpoint(str(proxy.kubeconfig), None))
        try:
            yield proxy, Client(transport, system_env(), field_manager="test", timeout_s=5, retry_budget_s=0), plane
        finally:
            await transport.aclose()


def config_map(name):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}


async def names(plane):
    return [found.metadata.name for found in (await plane.client().list(CONFIG_MAPS, "default")).items]


@pytest.mark.parametrize("tls", [True, False])
async def test_calls_and_watches_pass_and_are_noted(tls):
    async with proxied(tls=tls) as (proxy, client, plane):
        await client.create(CONFIG_MAPS, config_map("a"))
        async with client.stream(PATH, query=WATCH) as stream:
            first = msgspec.json.decode(await anext(stream.lines))
            assert first["object"]["metadata"]["name"] == "a"
        await client.delete(CONFIG_MAPS, Key("default", "a"))

        assert await names(plane) == []
        assert [call.verb for call in proxy.calls()] == ["create", "watch", "delete"]
        assert proxy.count("initial", CONFIG_MAPS) == 1


async def test_nobody_passes_without_the_token():
    async with embedded_plane() as plane, fault_proxy(await plane.kubeconfig()) as proxy:
        text = proxy.kubeconfig.read_text().replace(proxy.token, "guessed")
        assert proxy.kubeconfig.stat().st_mode & 0o077 == 0
        proxy.kubeconfig.write_text(text)
        transport = HttpTransport(await find_endpoint(str(proxy.kubeconfig), None))
        with pytest.raises(Unauthorized):
            await Client(transport, system_env(), field_manager="test").list(CONFIG_MAPS)
        await transport.aclose()

    assert not proxy.kubeconfig.exists()


async def test_answers_get_lost_before_and_after_the_call_took_effect():
    async with proxied() as (proxy, client, plane):
        hasty = Client(client.transport, system_env(), field_manager="test", timeout_s=0.3)
        for number, effect in enumerate(("refuse", "reset", "lose_request", "lose_answer")):
            with getattr(proxy.on("create"), effect)(), pytest.raises(TransportError):
                await hasty.create(CONFIG_MAPS, config_map(f"{number}-{effect.replace('_', '-')}"))
        with proxy.on("create").answer(503), pytest.raises(ServerError):
            await client.create(CONFIG_MAPS, config_map("refused"))

        assert await names(plane) == ["1-reset", "3-lose-answer"]


async def test_a_watch_is_cut_in_the_middle_of_a_line():
    async with proxied() as (proxy, client, _):
        await client.create(CONFIG_MAPS, config_map("a"))
        proxy.on("watch").cut(after_lines=1, mid_line=True)
        async with client.stream(PATH, query=WATCH) as stream:
            with pytest.raises((TransportError, msgspec.DecodeError)):
                msgspec.json.decode(await anext(stream.lines))


async def test_a_silent_watch_is_left_by_the_client():
    async with proxied() as (proxy, client, _):
        proxy.on("watch").silence()
        with pytest.raises(TransportError):
            async with client.stream(PATH, query=WATCH, idle_timeout_s=0.3) as stream:
                await anext(stream.lines)


async def test_connections_are_refused_and_accepted_again_at_the_same_port():
    async with proxied() as (proxy, client, _):
        await client.list(CONFIG_MAPS)
        await proxy.gate.refuse()
        with pytest.raises(TransportError):
            await client.list(CONFIG_MAPS)
        await proxy.gate.accept()
        await client.list(CONFIG_MAPS)


async def test_a_half_open_server_accepts_and_never_answers():
    async with proxied() as (proxy, client, _):
        await client.list(CONFIG_MAPS)
        proxy.gate.stall()
        hasty = Client(client.transport, system_env(), field_manager="test", timeout_s=0.3)
        with pytest.raises(TransportError):
            await hasty.get(CONFIG_MAPS, "a", "default")
        proxy.gate.resume()
        await client.list(CONFIG_MAPS)


async def test_connections_are_cut_while_a_watch_runs():
    async with proxied() as (proxy, client, _), client.stream(PATH, query=WATCH) as stream:
        assert b"BOOKMARK" in await anext(stream.lines)
        assert proxy.gate.connections == 1
        proxy.gate.reset()
        with pytest.raises(TransportError):
            await anext(stream.lines)


@pytest.mark.e2e
@needs_kubectl
async def test_kubectl_passes_and_meets_the_weather():
    async with proxied() as (proxy, client, _):
        await client.create(CONFIG_MAPS, config_map("a"))
        proxy.on("get", CONFIG_MAPS, nth=2).answer(403, message="not today")

        async def kubectl(*words):
            process = await asyncio.create_subprocess_exec(
                *(KUBECTL, "--kubeconfig", proxy.kubeconfig, *words),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            with contextlib.suppress(TimeoutError):
                output, _ = await asyncio.wait_for(process.communicate(), 60)
                return output.decode()

        assert "configmap/a" in await kubectl("get", "configmap", "a", "-o", "name")
        assert "not today" in await kubectl("get", "configmap", "a", "-o", "name")
