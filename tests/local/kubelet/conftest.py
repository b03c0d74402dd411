import asyncio
import json
import os
import selectors
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from ktrain.api.core import PODS, Pod
from ktrain.api.meta import Json, Key
from ktrain.framework import Cache, Client, EventRecorder
from ktrain.framework.env import Env
from ktrain.local.apiserver.reading.logs import LogOptions
from ktrain.local.apiserver.server import ApiServer
from ktrain.local.kubelet.environment import base_environment
from ktrain.local.kubelet.kubelet import Kubelet
from ktrain.local.kubelet.node import LocalNode
from ktrain.local.sandbox.executor import SandboxError
from ktrain.local.sandbox.probe import choose
from ktrain.local.sandbox.sim import Act, Script, SimExecutor
from ktrain.testing.time import VirtualLoop, VirtualSelector, virtual_env

NODE = "laptop"
A_SECOND = Act(runs_s=1)


class ManualClock:
    """Time that passes only where somebody sleeps, at once; another implementation of `ktrain.framework.env.Clock`."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return datetime.fromtimestamp(1_800_000_000 + self.seconds, UTC)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += seconds


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


class _PatientSelector(VirtualSelector):
    """Waits in real time while a worker thread is busy with files; only then is nobody else to be waited for."""

    threads: anyio.CapacityLimiter | None = None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if found := selectors.SelectSelector.select(self, 0):
            return found
        if timeout != 0 and self.threads is not None and self.threads.borrowed_tokens:
            return selectors.SelectSelector.select(self, 5)
        return super().select(timeout)


class PatientLoop(VirtualLoop):
    """Virtual time for code that also has threads."""

    def __init__(self) -> None:
        self._virtual = _PatientSelector()
        asyncio.SelectorEventLoop.__init__(self, self._virtual)

    def wait_for(self, threads: anyio.CapacityLimiter) -> None:
        self._virtual.threads = threads


class PodWatch:
    """Waits for pods to become what a test wants; sees every version of them."""

    def __init__(self, cache: Cache) -> None:
        self._changed = asyncio.Event()
        self.pods = cache.informer(PODS)
        self.pods.add_handler(self)

    def on_add(self, obj: Pod, *, initial: bool) -> None:
        self._wake()

    def on_update(self, old: Pod, new: Pod) -> None:
        self._wake()

    def on_delete(self, obj: Pod) -> None:
        self._wake()

    async def until(self, condition: Callable[[Pod], object], name: str, within_s: float = 1000) -> Pod:
        async with asyncio.timeout(within_s):
            while (pod := self.pods.get(Key("default", name))) is None or not condition(pod):
                await self._changed.wait()
        return pod

    async def changed(self, within_s: float = 1000) -> None:
        """Wait for the next change of any pod."""
        async with asyncio.timeout(within_s):
            await self._changed.wait()

    async def gone(self, name: str, within_s: float = 1000) -> None:
        async with asyncio.timeout(within_s):
            while self.pods.get(Key("default", name)) is not None:
                await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


@pytest.fixture
def watch_pods() -> type[PodWatch]:
    return PodWatch


@dataclass
class World:
    """A server, a kubelet with simulated processes, and what tests ask of them."""

    client: Client
    executor: SimExecutor
    kubelet: Kubelet
    watch: PodWatch

    async def create(self, name: str = "p", *, bound: bool = True, metadata: Json | None = None, **spec: object) -> Pod:
        """Create a pod with one container that the script runs, unless the spec says more."""
        spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i", "command": ["run"]}]} | spec
        if bound:
            spec["nodeName"] = NODE
        meta = {"name": name, "namespace": "default", **(metadata or {})}
        return await self.client.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})

    async def until(self, condition: Callable[[Pod], object], name: str = "p", within_s: float = 1000) -> Pod:
        return await self.watch.until(condition, name, within_s)

    async def phase(self, phase: str, name: str = "p", within_s: float = 1000) -> Pod:
        return await self.watch.until(lambda pod: pod.status.phase == phase, name, within_s)

    async def gone(self, name: str = "p") -> None:
        await self.watch.gone(name)

    async def delete(self, name: str = "p", grace_s: int | None = None) -> None:
        await self.client.delete(PODS, Key("default", name), grace_period_s=grace_s)

    async def apply(self, kind: str, name: str, **fields: object) -> None:
        plural = {"ConfigMap": "configmaps", "Secret": "secrets", "PersistentVolumeClaim": "persistentvolumeclaims"}
        body = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "default"}, **fields}
        await self.client.raw("POST", f"/api/v1/namespaces/default/{plural[kind]}", body=body)

    def commands(self) -> list[str]:
        """What was started, in order."""
        return [" ".join(process.argv) for _, process in self.executor.started]

    async def reasons(self) -> list[str]:
        """Reasons of the events, in order."""
        await asyncio.sleep(1)
        answer = await self.client.raw("GET", "/apis/events.k8s.io/v1/namespaces/default/events")
        items = sorted(json.loads(answer.body)["items"], key=lambda e: int(e["metadata"]["resourceVersion"]))
        return [item["reason"] for item in items]


@asynccontextmanager
async def open_world(
    directory: Path, script: Script, gpus: Sequence[str] = (), **options: object
) -> AsyncIterator[World]:
    env = virtual_env()
    server = ApiServer(env)
    client = Client(server.transport(), env, field_manager="test")
    cache = Cache(client, env)
    recorder = EventRecorder(client, env, component="kubelet")
    executor = SimExecutor(directory, script)
    kubelet = Kubelet(
        client, cache, env, node=LocalNode.measured(NODE, gpus), executor=executor, recorder=recorder,
        base_env={"PATH": "/bin"}, cwd="/work", **options,
    )  # fmt: skip
    server.nodes.register(NODE, kubelet)
    async with server.running(), anyio.create_task_group() as services:
        await services.start(cache.run)
        await services.start(recorder.run)
        async with anyio.create_task_group() as tasks:
            await tasks.start(kubelet.run)
            yield World(client, executor, kubelet, PodWatch(cache))
            tasks.cancel_scope.cancel()
        services.cancel_scope.cancel()


Scenario = Callable[[World], Awaitable[None]]


@pytest.fixture
def simulate(tmp_path: Path) -> Callable[..., None]:
    """Run a scenario against a kubelet on virtual time: `simulate(scenario, script)`."""

    def run(scenario: Scenario, script: Script | Act = A_SECOND, **options: object) -> None:
        async def main() -> None:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, PatientLoop)
            loop.wait_for(anyio.to_thread.current_default_thread_limiter())
            chosen = script if callable(script) else lambda _sandbox, _process: script
            async with open_world(tmp_path, chosen, **options) as world:
                await scenario(world)

        with asyncio.Runner(loop_factory=PatientLoop) as runner:
            runner.run(main())

    return run


class RealWorld:
    """A server and a kubelet with real processes."""

    def __init__(self, client, kubelet, watch, server):
        self.client = client
        self.kubelet = kubelet
        self.watch = watch
        self.server = server

    async def create(self, name, command, **spec):
        """Create a pod of one container."""
        container = {"name": "main", "image": "i", "command": command, **spec.pop("container", {})}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"nodeName": "laptop", "restartPolicy": "Never", "containers": [container], **spec},
        }
        await self.client.create(PODS, body)

    async def running(self, name):
        """Return the pod once it runs."""
        return await self.watch.until(lambda pod: pod.status.phase == "Running", name, within_s=20)

    async def end(self, name):
        """Return the pod once it has ended."""
        return await self.watch.until(lambda pod: pod.status.phase in ("Succeeded", "Failed"), name, within_s=20)

    async def log(self, name, *, follow=False):
        """Open the log."""
        return await self.kubelet.logs.open("default", name, "main", LogOptions(follow=follow))

    async def run(self, name, command, **spec):
        """Run a pod to its end; return it and its log."""
        await self.create(name, command, **spec)
        pod = await self.end(name)
        return pod, b"".join([chunk async for chunk in await self.log(name)]).decode()


@pytest.fixture(params=["host", pytest.param("ns", marks=pytest.mark.ns)])
def real(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], object]:
    """Open a world of real processes: `async with real() as world`."""
    return lambda: open_real_world(request.param, tmp_path)


@asynccontextmanager
async def open_real_world(pods: str, directory: Path, **options: object) -> AsyncIterator[RealWorld]:
    env = Env()
    try:
        choice = await choose(pods)
    except SandboxError as error:
        pytest.skip(str(error))
    try:
        server = ApiServer(env)
        client = Client(server.transport(), env, field_manager="test")
        cache, recorder = Cache(client, env), EventRecorder(client, env, component="kubelet")
        kubelet = Kubelet(
            client,
            cache,
            env,
            node=LocalNode.measured("laptop"),
            executor=choice.executor,
            recorder=recorder,
            base_env=base_environment(os.environ, Path(sys.executable)),
            cwd=str(directory),
            **options,
        )
        server.nodes.register("laptop", kubelet)
        watch = PodWatch(cache)
        async with server.running(), anyio.create_task_group() as services:
            await services.start(cache.run)
            await services.start(recorder.run)
            async with anyio.create_task_group() as tasks:
                await tasks.start(kubelet.run)
                yield RealWorld(client, kubelet, watch, server)
                tasks.cancel_scope.cancel()
            services.cancel_scope.cancel()
    finally:
        await choice.executor.aclose()
