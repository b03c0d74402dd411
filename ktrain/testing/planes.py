"""
Control planes for one test each.

Two kinds, which look the same to a test: the embedded API server, made anew in milliseconds, and a namespace of its own
on a real kube-apiserver, which a whole session shares because it takes seconds to start. No kubelet and none of our
controllers run on either; a test starts the ones it is about. What differs is said on `FreshPlane`.
"""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar, cast

import msgspec

from ktrain.api import assets
from ktrain.api.core import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, untyped
from ktrain.api.meta import Key
from ktrain.framework.client.client import Client, selector_query
from ktrain.framework.client.codec import BadObject, codec_for
from ktrain.framework.client.credentials import Endpoint, StaticToken
from ktrain.framework.client.http import HttpTransport
from ktrain.framework.env import Env, system_env
from ktrain.framework.errors import DecodeError, Gone, NotFound, TransportError
from ktrain.local.server import make_server
from ktrain.pipeline.registry import Registry

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

    from ktrain.api.meta import Json, Resource
    from ktrain.framework.client.transport import Transport
    from ktrain.local.apiserver.server import ApiServer

    from .realserver import RealServer

T = TypeVar("T")

FIELD_MANAGER: Final = "test"
PATIENCE_S: Final = 30.0
"""How long `wait_for` waits unless told otherwise: a loaded machine is slow, and a test that fails may be."""
_CHANGES: Final = ("ADDED", "MODIFIED", "DELETED")
_DEFINITIONS: Final = untyped(CUSTOM_RESOURCE_DEFINITIONS)


class FreshPlane:
    """
    A control plane as one test sees it: an API server with ktrain's CRDs, an empty namespace, garbage collection.

    On the embedded server ktrain's admission rules apply, and nobody makes Pods out of Jobs. On a real one there is
    no webhook, so a test applies the defaults it needs itself, and the real Job controller works.

    Attributes:
        transport: To the server, as administrator: in process, or over TLS.
        namespace: Empty and this test's own; removed afterwards. Objects outside of it are the test's to remove.
        env: Time and randomness; give it to what the test starts.
        is_real: Whether this is a real kube-apiserver.
    """

    def __init__(
        self,
        transport: Transport,
        env: Env,
        *,
        namespace: str,
        is_real: bool,
        kubeconfig: Callable[[], Awaitable[Path]],
    ) -> None:
        self.transport = transport
        self.namespace = namespace
        self.env = env
        self.is_real = is_real
        self._kubeconfig = kubeconfig

    def client(self, field_manager: str = FIELD_MANAGER) -> Client:
        """Make a client that writes under this name."""
        return Client(self.transport, self.env, field_manager=field_manager)

    async def kubeconfig(self) -> Path:
        """
        Return the file that kubectl and other programs need. It lives as long as the test.

        The embedded server opens a loopback socket on the first call.
        """
        return await self._kubeconfig()

    async def wait_for(
        self,
        resource: Resource[T],
        name: str,
        condition: Callable[[T | None], bool],
        *,
        namespace: str | None = None,
        timeout_s: float = PATIENCE_S,
    ) -> T | None:
        """
        Wait until an object is as a test expects it, and return it; `condition` gets None while it does not exist.

        Follows a watch, so it sees every state that the server still remembers. Safe to cancel.

        Raises:
            AssertionError: It was not so in `timeout_s` seconds; the message has what was seen last.
        """
        key = Key((self.namespace if namespace is None else namespace) if resource.namespaced else "", name)
        last: T | None = None
        following = _states(self.client(), resource, key)
        try:
            async with asyncio.timeout(timeout_s), aclosing(following):
                async for last in following:
                    if condition(last):
                        return last
        except TimeoutError:
            pass
        seen = "it does not exist" if last is None else msgspec.json.encode(last).decode()
        raise AssertionError(f"{resource.kind} {key} did not become as expected in {timeout_s:g} s: {seen}")


@asynccontextmanager
async def embedded_plane(env: Env | None = None, registry: Registry | None = None) -> AsyncIterator[FreshPlane]:
    """
    Run an embedded API server, on virtual time too (`ktrain.testing.time`).

    `registry` holds the plugins whose validations apply; by default those that are installed.
    """
    env = env or system_env()
    server = make_server(env, registry or Registry.load())
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(server.running())
        serving = _Serving(server, env, stack)
        transport = server.transport()
        yield FreshPlane(transport, env, namespace="default", is_real=False, kubeconfig=serving.kubeconfig)


@asynccontextmanager
async def real_plane(server: RealServer) -> AsyncIterator[FreshPlane]:
    """Make a namespace on a real API server that has our CRDs (`install_crds`); afterwards ask for its deletion."""

    async def kubeconfig() -> Path:
        return server.kubeconfig

    env = system_env()
    transport = _transport(server)
    try:
        client = Client(transport, env, field_manager=FIELD_MANAGER)
        made = await client.create(
            NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "ktrain-"}}
        )
        name = made.metadata.name
        try:
            yield FreshPlane(transport, env, namespace=name, is_real=True, kubeconfig=kubeconfig)
        finally:
            await client.delete(NAMESPACES, Key("", name))
    finally:
        await transport.aclose()


async def install_crds(server: RealServer) -> None:
    """Apply ktrain's CRDs to a real API server and wait until it serves their kinds."""
    env = system_env()
    transport = _transport(server)
    try:
        client = Client(transport, env, field_manager=FIELD_MANAGER)
        for document in assets.crds():
            await client.apply(_DEFINITIONS, document)
        for document in assets.crds():
            await _served(client, env, document)
    finally:
        await transport.aclose()


class _Serving:
    """Opens the embedded server's socket for the first who asks."""

    def __init__(self, server: ApiServer, env: Env, stack: AsyncExitStack) -> None:
        self._server = server
        self._env = env
        self._stack = stack
        self._file: Path | None = None

    async def kubeconfig(self) -> Path:
        if self._file is None:
            from ktrain.local import kubeconfig
            from ktrain.local.apiserver.certificates import self_signed
            from ktrain.local.apiserver.http import serve_http

            host, token = "127.0.0.1", kubeconfig.new_token()
            identity = self_signed(host, now=self._env.clock.now())
            serving = serve_http(self._server, host=host, token=token, tls=identity)
            url = await self._stack.enter_async_context(serving)
            directory = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="ktrain-test-"))
            self._file = Path(directory, "kubeconfig")
            kubeconfig.write(self._file, url, token, identity.certificate)
        return self._file


def _transport(server: RealServer) -> HttpTransport:
    return HttpTransport(Endpoint(server.url, StaticToken(server.token), ca_file=str(server.ca_file)))


async def _served(client: Client, env: Env, definition: Json) -> None:
    """Wait until a kind can be listed: its definition is established a moment before its URL answers."""
    spec = definition["spec"]
    path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await client.raw("GET", path, query=[("limit", "1")])
            except NotFound:
                await env.clock.sleep(0.05)
            else:
                return


async def _states(client: Client, resource: Resource[T], key: Key) -> AsyncGenerator[T | None]:
    """The states of one object, from now on; None while it does not exist."""
    codec = codec_for(resource)
    selector = f"metadata.name={key.name}"
    while True:
        listed = await client.list(resource, key.namespace, field_selector=selector)
        yield listed.items[0] if listed.items else None
        query = [("watch", "true"), ("resourceVersion", listed.resource_version), *selector_query("", selector)]
        try:
            async with client.stream(resource.path(key.namespace), query=query) as stream:
                async for line in stream.lines:
                    event, found = codec.decode_event(line)
                    if isinstance(found, BadObject):
                        raise DecodeError(f"{resource.kind} {key} cannot be read: {found.reason}")
                    if event in _CHANGES:
                        yield None if event == "DELETED" else cast("T", found)
        except (Gone, TransportError):
            continue  # the version is too old, or nothing happened for long: what is there now?
