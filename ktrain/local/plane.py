"""
The embedded control plane, whole: API server, controllers, scheduler, kubelet, composed and torn down in order.

    up:    executor, server, cache, controllers, scheduler and kubelet, HTTP
    down:  HTTP, kubelet (its pods end first), controllers and cache, server, executor

Everything runs in one process and one event loop; the controllers are the same objects as on a cluster, on a transport
that calls the server directly. Only pods are other processes.
"""

from __future__ import annotations

import os
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import anyio

from ktrain.controllers import jobset
from ktrain.framework.cache.cache import Cache
from ktrain.framework.client.client import Client
from ktrain.local.apiserver.access.signing import new_signing_key
from ktrain.pipeline.errors import RegistryError
from ktrain.pipeline.registry import Registry

from . import kubeconfig
from .composing import compose
from .installing import install
from .node_options import NodeOptions
from .server import make_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from anyio.abc import TaskGroup

    from ktrain.framework import Env, EventRecorder, Transport
    from ktrain.framework.metrics import Metrics
    from ktrain.local.apiserver.access.gate import Authorization
    from ktrain.local.apiserver.front.certificates import ServerIdentity
    from ktrain.local.apiserver.server import ApiServer
    from ktrain.local.kubelet.service_address import ServiceAddress
    from ktrain.local.sandbox.executor import Executor
    from ktrain.local.sockets import Sockets
    from ktrain.local.state import StateDirectory

    from .autoscaler.usage import CpuTimes
    from .status_server import StatusService

FIELD_MANAGER: Final = "trainer"

PodMode = Literal["auto", "ns", "host", "off"]


class PlaneError(Exception):
    """The control plane cannot start; the message says what is in the way."""


def _plugins(*, native_gangs: bool) -> Registry:
    try:
        registry = Registry.load()
    except RegistryError as error:
        raise PlaneError(f"{error}; uninstall one of them") from error
    if native_gangs:
        return registry
    from ktrain.plugins.workload import Workload

    return registry.replacing(Workload(enabled=False))


def _services(sockets: Sockets | None, reports: StatusService | None) -> dict[str, ServiceAddress]:
    """Where pods find what serves them, by name."""
    found = {} if sockets is None else {"kubernetes": sockets.service}
    if reports is not None:
        from .status_server import SERVICE

        found[SERVICE] = reports.sockets.service
    return found


def _metrics(server: ApiServer) -> Metrics:
    """Make where controllers count, and have the server show it."""
    from ktrain.framework.metrics import Metrics
    from ktrain.framework.metrics.exposition import expose, process_registry

    registry = process_registry()
    server.expose(lambda: expose(registry, "")[0])
    return Metrics(registry)


def _cpu_times(server: ApiServer) -> CpuTimes:
    from .autoscaler import node_cpu_times

    return node_cpu_times(server.nodes)


@dataclass(frozen=True, slots=True)
class Plane:
    """A running control plane."""

    server: ApiServer
    transport: Transport
    """Calls the server in process, as administrator."""
    notes: tuple[str, ...]
    """What the user should know: how pods run, and why."""
    url: str | None = None
    token: str | None = None
    kubeconfig: Path | None = None
    executor: Executor | None = None

    async def kill(self) -> None:
        """Kill all pods at once, without grace. Nothing but leaving the control plane makes sense afterwards."""
        if self.executor is not None:
            await self.executor.aclose()


class ControlPlane:
    """
    Starts control planes.

    Args:
        env: Time and randomness.
        pods: `ns`, `host` or `auto` (see `sandbox.probe`), or `off`: no kubelet and no scheduler.
        listen: Loopback host and port to serve HTTP on; None: in process only.
        kubeconfig_file: Where to write a kubeconfig when serving; None: a temporary directory.
        directory: Where pods start whose containers name no working directory; default: the current one.
        nodes: What nodes there are; default: one, of all that this machine has.
        gates: What JobSets may ask for beyond what is on by default; None: those of elastic TrainJobs may be resized.
        takes_reports: Whether pods can report their progress (the feature gate TrainJobStatus); needs `listen`.
        native_gangs: Whether `podGroupPolicy.workload` works (the feature gate GenericWorkload).
        shows_state: Whether TrainJobs have `status.state` (the feature gate TrainJobState); None: where pods run.
        jobsets: Whether the JobSet controller works here; its admission rules apply in any case.
        authorization: Whether users other than the administrator need roles.
        state: Where objects, keys and claims are kept for the next start; None: all of it ends with the process.
        metrics: Whether the API server's `/metrics` also has those of all controllers and of TrainJobs.
    """

    def __init__(
        self,
        env: Env,
        *,
        pods: PodMode = "auto",
        listen: tuple[str, int] | None = None,
        kubeconfig_file: Path | None = None,
        directory: Path | None = None,
        nodes: NodeOptions | None = None,
        gates: jobset.Gates | None = None,
        takes_reports: bool = False,
        native_gangs: bool = True,
        shows_state: bool | None = None,
        jobsets: bool = True,
        authorization: Authorization = "RBAC",
        state: Path | None = None,
        metrics: bool = False,
    ) -> None:
        if takes_reports and listen is None:
            raise ValueError("takes_reports needs listen: pods reach a control plane through its sockets")
        self._env = env
        self._pods = pods
        self._listen = listen
        self._kubeconfig_file = kubeconfig_file
        self._directory = directory
        self._nodes = nodes or NodeOptions()
        self._gates = gates or jobset.ELASTIC_TRAIN_JOBS
        self._takes_reports = takes_reports
        self._native_gangs = native_gangs
        self._shows_state = pods != "off" if shows_state is None else shows_state
        self._jobsets = jobsets
        self._authorization = authorization
        self._state = state
        self._has_metrics = metrics

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Plane]:
        """
        Run a control plane; leaving the context stops it and all of its pods.

        Raises:
            PlaneError: Pods cannot run as asked, the address is taken, the kubeconfig cannot be written; or the
                installed plugins contradict each other.
            StateError: The state cannot be used.
        """
        async with AsyncExitStack() as stack:
            registry = _plugins(native_gangs=self._native_gangs)
            executor, notes = await self._start_executor(stack)
            state = self._open_state()
            server = make_server(
                self._env,
                registry,
                self._gates,
                authorization=self._authorization,
                signing_key=state.kept("accounts.pem", new_signing_key) if state else None,
                journal=state.journal if state else None,
            )
            await stack.enter_async_context(server.running())
            identity = await self._identity(server, state, admit_accounts=executor is not None)
            sockets = await self._bind(stack, executor, state)
            reports = await self._status_service(stack, executor, identity)
            transport = server.transport()
            metrics = _metrics(server) if self._has_metrics else None
            client = Client(transport, self._env, field_manager=FIELD_MANAGER, metrics=metrics)
            await install(client)
            services = _services(sockets, reports)
            controllers = self._controllers(client, registry, server, executor, services, reports, metrics)
            await stack.enter_async_context(controllers)
            plane = Plane(server, transport, notes, executor=executor)
            if sockets is not None and identity is not None:
                plane = await self._serve(stack, plane, sockets, identity, state)
            yield plane

    def _open_state(self) -> StateDirectory | None:
        if self._state is None:
            return None
        from ktrain.local.state import StateDirectory

        return StateDirectory(self._state)

    async def _bind(
        self, stack: AsyncExitStack, executor: Executor | None, state: StateDirectory | None
    ) -> Sockets | None:
        """Take the address to serve on: before there are pods, which are told it."""
        if self._listen is None:
            return None
        from ktrain.local.sockets import bind

        host, port = self._listen
        try:
            sockets = await bind(host, port or (state.port if state is not None else 0), executor)
        except OSError as error:
            raise PlaneError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
        stack.callback(sockets.close)
        if state is not None:
            state.remember_port(sockets.service.machine[1])
        return sockets

    async def _status_service(
        self, stack: AsyncExitStack, executor: Executor | None, identity: ServerIdentity | None
    ) -> StatusService | None:
        """Take the addresses at which pods report, if they may."""
        if not self._takes_reports or identity is None:
            return None
        from ktrain.local.sockets import bind

        from .status_server import PORT, StatusService

        sockets = await bind("127.0.0.1", 0, executor, pods_port=PORT)
        stack.callback(sockets.close)
        return StatusService(sockets, identity)

    async def _identity(
        self, server: ApiServer, state: StateDirectory | None, *, admit_accounts: bool
    ) -> ServerIdentity | None:
        """Make the certificate to serve with, and have pods get it: before there are any."""
        if self._listen is None:
            return None
        from ktrain.local.apiserver.front.certificates import LASTING, LIFETIME, ServerIdentity
        from ktrain.local.apiserver.front.certify import make_identity

        # What kubeconfigs name stays the same where there is state, so that those of before still work.
        kept = state.find("server.pem") if state is not None else None
        if kept is not None:
            identity = ServerIdentity.of(kept)
        else:
            lifetime = LIFETIME if state is None else LASTING
            identity = await make_identity(self._listen[0], now=self._env.clock.now(), lifetime=lifetime)
            if state is not None:
                state.keep("server.pem", identity.pem)
        server.publish_authority(identity.certificate, admit_accounts=admit_accounts)
        return identity

    async def _start_executor(self, stack: AsyncExitStack) -> tuple[Executor | None, tuple[str, ...]]:
        if self._pods == "off":
            return None, ()
        from ktrain.local.sandbox.executor import SandboxError
        from ktrain.local.sandbox.probe import choose

        try:
            choice = await choose(self._pods)
        except (SandboxError, OSError) as error:
            raise PlaneError(f"pods cannot run: {error}") from error
        stack.push_async_callback(choice.executor.aclose)
        return choice.executor, (f"pods: {choice.executor.name} ({choice.reason})",)

    @asynccontextmanager
    async def _controllers(
        self,
        client: Client,
        registry: Registry,
        server: ApiServer,
        executor: Executor | None,
        services: Mapping[str, ServiceAddress],
        reports: StatusService | None,
        metrics: Metrics | None,
    ) -> AsyncIterator[None]:
        env = self._env
        # What would be programs of their own in a cluster, each with its own view of the same kinds, share one process.
        cache = Cache(client, env, metrics=metrics, warns_of_overlaps=False)
        gates = self._gates if self._jobsets else None
        composed = await compose(
            client,
            cache,
            env,
            registry,
            jobsets=gates,
            places_pods=executor is not None,
            shows_state=self._shows_state,
            cpu_times=_cpu_times(server) if executor is not None else None,
            status_service=reports,
            metrics=metrics,
        )
        async with anyio.create_task_group() as managing:
            await managing.start(composed.manager.run)
            async with anyio.create_task_group() as nodes:
                if executor is not None:
                    await self._start_nodes(nodes, server, client, cache, composed.for_pods, executor, services)
                try:
                    yield
                finally:
                    nodes.cancel_scope.cancel()
            managing.cancel_scope.cancel()

    async def _start_nodes(
        self,
        group: TaskGroup,
        server: ApiServer,
        client: Client,
        cache: Cache,
        recorder: EventRecorder,
        executor: Executor,
        services: Mapping[str, ServiceAddress],
    ) -> None:
        from .nodes import NodeServices, start_kubelets

        state = None if self._state is None else self._state.absolute()
        shared = NodeServices(
            Client(client.transport, self._env, field_manager="kubelet"),
            cache,
            self._env,
            recorder,
            executor,
            self._directory or Path.cwd(),
            claims=state and state / "claims",
            logs=state and state / "logs",
            services=services,
        )
        await start_kubelets(group, server.nodes, shared, self._nodes)

    async def _serve(
        self,
        stack: AsyncExitStack,
        plane: Plane,
        sockets: Sockets,
        identity: ServerIdentity,
        state: StateDirectory | None,
    ) -> Plane:
        from ktrain.local.apiserver.front.http import serve_http

        token = kubeconfig.new_token()
        if state is not None:
            token = state.kept("token", token.encode).decode()
        serving = serve_http(plane.server, token=token, tls=identity, sockets=sockets.all)
        url = await stack.enter_async_context(serving)
        path = self._kubeconfig_file or await _temporary_directory(stack, plane.executor) / "kubeconfig"
        try:
            kubeconfig.write(path, url, token, identity.certificate)
        except OSError as error:
            raise PlaneError(f"cannot write {path}: {error.strerror or error}") from error
        return replace(plane, url=url, token=token, kubeconfig=path)


async def _temporary_directory(stack: AsyncExitStack, executor: Executor | None) -> Path:
    """Return a directory that goes with this process even if killed: at once with pods, else at the next start."""
    if executor is not None:
        return executor.directory
    from ktrain.local.sandbox.helper import scratch

    directory, lock = scratch.make()
    stack.callback(os.close, lock)
    stack.callback(scratch.remove, directory)
    await anyio.to_thread.run_sync(scratch.sweep, str(Path(directory).parent))
    return Path(directory)
