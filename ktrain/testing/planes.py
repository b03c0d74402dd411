"""
Control planes for one test each.

Two kinds, which look the same to a test: the embedded API server, made anew in milliseconds, and a namespace of its own
on a real kube-apiserver, which a whole session shares because it takes seconds to start. No kubelet and none of our
controllers run on either; a test starts the ones it is about. What differs is said on `FreshPlane`.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar, cast

import msgspec

from ktrain.api import assets
from ktrain.api.core import NAMESPACES
from ktrain.api.meta import Key
from ktrain.framework.client.client import Client, selector_query
from ktrain.framework.client.codec import BadObject, codec_for
from ktrain.framework.client.finding import find_endpoint
from ktrain.framework.client.http import HttpTransport
from ktrain.framework.env import Env, system_env
from ktrain.framework.errors import DecodeError, Gone, TransportError
from ktrain.local.apiserver.requests import User
from ktrain.local.server import make_server
from ktrain.pipeline.registry import Registry

from .crds import Source, read_crds, serve_crds

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence

    from ktrain.api.meta import Resource
    from ktrain.framework.client.credentials import Endpoint
    from ktrain.framework.client.transport import Transport
    from ktrain.local.apiserver.server import ApiServer

    from .realserver import RealServer

T = TypeVar("T")

FIELD_MANAGER: Final = "test"
PATIENCE_S: Final = 30.0
"""How long `wait_for` waits unless told otherwise: a loaded machine is slow, and a test that fails may be."""
_CHANGES: Final = ("ADDED", "MODIFIED", "DELETED")


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
        add_user: Callable[[str, tuple[str, ...]], Awaitable[Transport]],
    ) -> None:
        self.transport = transport
        self.namespace = namespace
        self.env = env
        self.is_real = is_real
        self._kubeconfig = kubeconfig
        self._add_user = add_user

    def client(self, field_manager: str = FIELD_MANAGER) -> Client:
        """Make a client that writes under this name."""
        return Client(self.transport, self.env, field_manager=field_manager)

    async def kubeconfig(self) -> Path:
        """
        Return the file that kubectl and other programs need. It lives as long as the test.

        The embedded server opens a loopback socket on the first call.
        """
        return await self._kubeconfig()

    async def add_user(self, name: str, *groups: str) -> Transport:
        """
        Make a user and return its transport, which lives as long as the test.

        The user may do what RBAC grants, and nothing else.
        """
        return await self._add_user(name, groups)

    async def install_crds(self, *crds: Source) -> None:
        """Create or change definitions (files, directories, objects), and wait until their kinds are served."""
        await serve_crds(self.client(), self.env, read_crds(crds))

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
            pass  # Told below, with what was there last.
        seen = "it does not exist" if last is None else msgspec.json.encode(last).decode()
        raise AssertionError(f"{resource.kind} {key} did not become as expected in {timeout_s:g} s: {seen}")


@asynccontextmanager
async def embedded_plane(
    env: Env | None = None, registry: Registry | None = None, *, crds: Sequence[Source] = ()
) -> AsyncIterator[FreshPlane]:
    """
    Run an embedded API server, on virtual time too (`ktrain.testing.time`).

    `registry` holds the plugins whose validations apply; by default those that are installed. `crds` are served beside
    ktrain's own.
    """
    env = env or system_env()
    server = make_server(env, registry or Registry.load())
    server.install_crds(read_crds(crds))

    async def add_user(name: str, groups: tuple[str, ...]) -> Transport:
        return server.transport(User(name, (*groups, "system:authenticated")))

    async with AsyncExitStack() as stack:
        await stack.enter_async_context(server.running())
        serving = _Serving(server, env, stack)
        yield FreshPlane(
            server.transport(),
            env,
            namespace="default",
            is_real=False,
            kubeconfig=serving.kubeconfig,
            add_user=add_user,
        )


@asynccontextmanager
async def real_plane(server: RealServer | ExistingCluster, *, crds: Sequence[Source] = ()) -> AsyncIterator[FreshPlane]:
    """
    Make a namespace on a real API server that has our CRDs (`install_crds`); afterwards ask for its deletion.

    `crds` are created or changed, and stay: on a real server definitions belong to all tests.
    """
    env = system_env()
    async with AsyncExitStack() as stack:

        async def connected(endpoint: Endpoint) -> Transport:
            transport = HttpTransport(endpoint)
            stack.push_async_callback(transport.aclose)
            return transport

        async def kubeconfig() -> Path:
            return server.kubeconfig

        async def add_user(name: str, groups: tuple[str, ...]) -> Transport:
            return await connected(await find_endpoint(str(server.add_user(name, groups)), None))

        transport = await connected(server.endpoint())
        client = Client(transport, env, field_manager=FIELD_MANAGER)
        await serve_crds(client, env, read_crds(crds))
        made = await client.create(
            NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "ktrain-"}}
        )
        name = made.metadata.name
        stack.push_async_callback(client.delete, NAMESPACES, Key("", name))
        yield FreshPlane(transport, env, namespace=name, is_real=True, kubeconfig=kubeconfig, add_user=add_user)


@dataclass(frozen=True, slots=True)
class ExistingCluster:
    """A cluster that runs anyway (`USE_EXISTING_CLUSTER`), as the current kubeconfig's user."""

    found: Endpoint
    kubeconfig: Path

    @staticmethod
    async def current() -> ExistingCluster:
        """
        Find it.

        Raises:
            ConfigError: There is no kubeconfig, or it cannot be used.
        """
        # Like the lookup itself: the first of several files is the one that other programs can be given.
        files = os.environ.get("KUBECONFIG", "").split(os.pathsep)
        return ExistingCluster(await find_endpoint(), Path(files[0] or Path.home() / ".kube" / "config"))

    def endpoint(self) -> Endpoint:
        """How to connect."""
        return self.found

    def add_user(self, name: str, groups: tuple[str, ...]) -> Path:
        """Refuse: nobody gives us that cluster's authority."""
        raise RuntimeError(f"user {name} {groups}: an existing cluster takes no new users")


async def install_crds(server: RealServer | ExistingCluster) -> None:
    """
    Install ktrain's CRDs on a real API server and wait until it serves their kinds.

    On one of our own also those that the embedded server has beside them: a cluster has them from their projects.
    """
    env = system_env()
    transport = HttpTransport(server.endpoint())
    try:
        crds = assets.crds()
        if not isinstance(server, ExistingCluster):
            crds = [*crds, *assets.pod_group_crds()]
        await serve_crds(Client(transport, env, field_manager=FIELD_MANAGER), env, crds)
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
            from ktrain.local.apiserver.front.certificates import self_signed
            from ktrain.local.apiserver.front.http import serve_http

            host, token = "127.0.0.1", kubeconfig.new_token()
            identity = self_signed(host, now=self._env.clock.now())
            serving = serve_http(self._server, host=host, token=token, tls=identity)
            url = await self._stack.enter_async_context(serving)
            directory = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="ktrain-test-"))
            self._file = Path(directory, "kubeconfig")
            kubeconfig.write(self._file, url, token, identity.certificate)
        return self._file


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
