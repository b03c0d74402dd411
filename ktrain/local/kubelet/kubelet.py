"""
The kubelet of one node: one worker for every pod that is bound to it, and a Node object to bind to.

It is a plain client of the API server: an informer brings pods, workers write their status. Every pod's worker is a
task of `run`, so when `run` is cancelled nothing of it is left: pods get a moment to stop by themselves, then all that
still runs is killed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread
import structlog

from ktrain.api.meta import Key

from .files import remove_tree
from .launch import Machine, temporary_directory
from .logs import LogStore
from .node import LocalNode, register
from .place import Surroundings
from .remote import RemoteShell
from .reporter import delete_finally
from .restarts import KUBERNETES_RESTARTS, RestartPolicy
from .spec import PODS, Pod
from .streams import ContainerStreams
from .worker import PodWorker

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from anyio.abc import TaskGroup, TaskStatus

    from ktrain.framework import Cache, Client, Env, EventRecorder
    from ktrain.local.sandbox.executor import Executor

    from .service_address import ServiceAddress

STOP_GRACE_S: Final = 5.0
"""How long pods have to stop by themselves when the kubelet stops."""
_AFTER_KILL_S: Final = 5.0
"""How long killing and the last status writes may take beyond that."""

log = structlog.get_logger(__name__)


class Kubelet:
    """
    Runs the pods of one node.

    Args:
        client: Where pods, their status and the Node live.
        cache: Gives the informer of this node's pods; whoever owns it runs it.
        env: Time and randomness.
        node: The node to be.
        executor: Starts processes; whoever made it closes it.
        recorder: For events about pods.
        base_env: What every process inherits (`environment.base_environment`).
        cwd: Where processes start whose container names no workingDir.
        claims: Where the data of PersistentVolumeClaims lies; default: in the executor's directory, and gone with it.
        logs: Where what containers print is found, shared with other nodes; whoever made it runs it. Default: its own.
        logs_directory: Where the files of `logs` lie; default: in the executor's directory, and gone with it.
        remote: Runs commands of MPI launchers; kubelets of one machine share it, so that their pods find each other.
        service: Where pods find the API server; None: nowhere.
        restarts: Delays between restarts of containers.
        stop_grace_s: How long pods have when `run` is cancelled.
    """

    def __init__(
        self,
        client: Client,
        cache: Cache,
        env: Env,
        *,
        node: LocalNode,
        executor: Executor,
        recorder: EventRecorder,
        base_env: Mapping[str, str],
        cwd: str,
        claims: Path | None = None,
        logs: LogStore | None = None,
        logs_directory: Path | None = None,
        remote: RemoteShell | None = None,
        services: Mapping[str, ServiceAddress] | None = None,
        restarts: RestartPolicy = KUBERNETES_RESTARTS,
        stop_grace_s: float = STOP_GRACE_S,
    ) -> None:
        self.logs = logs or LogStore(env)
        """Serves `pods/log`."""
        self._runs_logs = logs is None
        self.streams = ContainerStreams(self._find, self.logs)
        """Serves `pods/exec` and `pods/attach`."""
        self._client = client
        self._env = env
        self._node = node
        self._executor = executor
        self._stop_grace_s = stop_grace_s
        self._pods = cache.informer(PODS, field_selector=f"spec.nodeName={node.name}")
        self._machine = Machine(
            node_name=node.name,
            host_ip=executor.gateway,
            allocatable=node.allocatable,
            base_env=base_env,
            cwd=cwd,
            has_gpus=node.has_gpus,
            shared_host=executor.name == "host",
            services=services or {},
        )
        self._shared = Surroundings(
            client=client,
            env=env,
            executor=executor,
            recorder=recorder,
            logs=self.logs,
            gpus=node.gpu_slots(),
            machine=self._machine,
            remote=remote or RemoteShell(env, executor.directory / "rsh"),
            restarts=restarts,
            pods_directory=executor.directory / "pods",
            logs_directory=logs_directory or executor.directory / "pods",
            claims_directory=claims or executor.directory / "claims",
        )
        # By UID. None: the pod's life is over, its object is still there.
        self._workers: dict[str, PodWorker | None] = {}
        self._tasks: TaskGroup | None = None

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """
        Register the node and run its pods until cancelled; then stop them all within a bound.

        Raises:
            FrameworkError: The node could not be registered.
        """
        await self._register()
        cancelled = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._run_pods, cancelled)
            task_status.started()
            try:
                await anyio.sleep_forever()
            finally:
                cancelled.set()

    # The informer's handler

    def on_add(self, obj: Pod, *, initial: bool) -> None:  # a pod is a pod, whenever it came
        """Take charge of a pod."""
        self._reconcile(obj)

    def on_update(self, old: Pod, new: Pod) -> None:
        """Pass on a change."""
        if old.uid != new.uid:
            self.on_delete(old)
        self._reconcile(new)

    def on_delete(self, obj: Pod) -> None:
        """The object is gone; whatever of it still runs is killed."""
        self.logs.forget(obj.key)
        worker = self._workers.pop(obj.uid, None)
        if worker is not None:
            worker.kill()
        elif self._tasks is not None:
            self._tasks.start_soon(self._remove_directory, obj)

    def processes(self, namespace: str, name: str) -> tuple[int, ...]:
        """Return the main processes of a pod's containers that run; none where the pod is not known."""
        worker = self._find(Key(namespace, name))
        return () if worker is None else worker.processes()

    def statistics(self) -> tuple[int, int]:
        """Count the pods that live and those whose life is over."""
        living = sum(worker is not None for worker in self._workers.values())
        return living, len(self._workers) - living

    def _find(self, key: Key) -> PodWorker | None:
        pod = self._pods.get(key)
        return self._workers.get(pod.uid) if pod is not None else None

    def _reconcile(self, pod: Pod) -> None:
        if self._tasks is None:
            return
        worker = self._workers.get(pod.uid)
        if worker is not None:
            worker.update(pod)
        elif pod.uid not in self._workers and not pod.is_terminal:
            worker = self._workers[pod.uid] = PodWorker(pod, self._shared)
            worker.update(pod)
            self._tasks.start_soon(self._run_worker, worker, name=f"pod {pod.key}")
        else:
            self._workers[pod.uid] = None
            if pod.is_terminal and pod.metadata.deletion_grace_period_seconds:
                # Deleted while its end was being written: nobody else will say that it may go.
                self._tasks.start_soon(delete_finally, self._client, self._env, pod)

    async def _run_pods(self, cancelled: anyio.Event) -> None:
        # Shielded: the pods are stopped in order after the cancellation, not by it.
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as self._tasks:
                if self._runs_logs:
                    self._tasks.start_soon(self.logs.run)
                self._pods.add_handler(self)
                await cancelled.wait()
                self._pods.remove_handler(self)
                await self._stop_all()
                self._tasks.cancel_scope.cancel()

    async def _run_worker(self, worker: PodWorker) -> None:
        try:
            await worker.run()
        except Exception:
            # Past the worker's own boundary, so its status cannot be told either; the other pods live on.
            log.exception("pod.worker_crashed", pod=str(worker.pod.key))
        if worker.pod.uid in self._workers:
            self._workers[worker.pod.uid] = None
        else:
            await self._remove_directory(worker.pod)

    async def _remove_directory(self, pod: Pod) -> None:
        directory = self._shared.pods_directory / pod.uid
        for path in {directory, temporary_directory(directory), self._shared.logs_directory / pod.uid}:
            await anyio.to_thread.run_sync(remove_tree, path)

    async def _register(self) -> None:
        manifest = self._node.manifest(
            host_ip=self._machine.host_ip, executor=self._executor.name, now=self._env.clock.now()
        )
        await register(self._client, manifest)

    async def _stop_all(self) -> None:
        """Ask every pod to stop, wait for a while, and leave what is left to the cancellation that comes next."""
        living = [worker for worker in self._workers.values() if worker is not None]
        for worker in living:
            worker.shut_down(min(self._stop_grace_s, worker.pod.grace_s))
        with anyio.move_on_after(self._stop_grace_s + _AFTER_KILL_S):
            for worker in living:
                await worker.finished.wait()
