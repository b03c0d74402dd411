"""
One pod: from bound to gone. The worker is a task per pod, owns its state, and is the only writer of its status.

    accept ── sandbox ── volumes ── init containers and sidecars, in order ── main containers ── sidecars stop ── end
       │          └─ tried again ─┘                                                │
       └── refused (no GPU left)         deletion, deadline, shutdown: `stop` ─────┘

Everything that ends a pod early is one thing, `stop(grace)`: it cancels the sequence where it stands, and what runs is
brought to its end: main containers together, then sidecars in reverse, each with preStop, SIGTERM and, at the deadline,
SIGKILL. Only when nothing of the pod runs any more is a terminal phase written, and only then the object deleted.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
import structlog

from ktrain.framework.backoff import Backoff
from ktrain.framework.parallel import first_cause
from ktrain.local.sandbox.executor import SandboxError

from . import mpi
from .container import ContainerRunner, PodSide
from .deadline import Deadline
from .environment import ConfigError
from .files import VolumeError
from .place import Place, Surroundings, make_place
from .reporter import StatusReporter, delete_finally
from .restarts import RestartBackoff, can_restart_all
from .resume import goes_on, resumed_records
from .spec import PODS, EphemeralContainer, Pod
from .status import LOST, SHUT_DOWN, ContainerRecord, PodRecord, Role, Terminated, new_records, pod_status

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from anyio.abc import TaskGroup

    from ktrain.api.meta import Json
    from ktrain.local.sandbox.executor import Process, Sandbox

    from .launch import Attempt
    from .spec import Container

REFRESH_S: Final = 60.0
"""How often volumes that show API objects are brought up to date (the kubelet's own sync period)."""

log = structlog.get_logger(__name__)


class PodWorker:
    """Runs one pod. `run` is its task; the other methods may be called at any time from the same event loop."""

    def __init__(self, pod: Pod, shared: Surroundings) -> None:
        self.pod = pod
        self._shared = shared
        self._directory = shared.pods_directory / pod.uid
        self._deadline = Deadline(shared.env.clock)
        self._sequence = anyio.CancelScope()
        # One time through the containers; there is another when one of them asks for all to start anew.
        self._round = anyio.CancelScope()
        self._asked: Terminated | None = None
        self._backoff = RestartBackoff(shared.restarts)
        self._place: Place | None = None
        # For containers that are added while the pod runs: between the sandbox's making and the pod's end.
        self._running: TaskGroup | None = None
        self._refresh = asyncio.Event()
        self._failure: tuple[str, str] | None = None
        self._ended = False
        self.finished = asyncio.Event()
        """Set when `run` has done all it does."""
        resumes = pod.status.start_time is not None
        self._start_time = pod.status.start_time or shared.env.clock.now()
        self._reporter = StatusReporter(
            shared.client, shared.env, key=pod.key, uid=pod.uid, build=self._status, stored=self.update
        )
        side = PodSide(
            env=shared.env,
            label=f"{pod.metadata.name}_{pod.metadata.namespace}({pod.uid})",
            restart_policy=pod.spec.restart_policy,
            grace_s=pod.spec.termination_grace_period_seconds,
            restarts=shared.restarts,
            sandbox=lambda: self._set_place().sandbox,
            target=self._target,
            prepare=self._prepare,
            restart_all=self._restart_all,
            changed=self._reporter.changed,
            event=self._event,
        )
        records = resumed_records(pod, shared.env.clock.now()) if resumes else new_records(pod)
        self._lost = resumes and not goes_on(pod, records)
        self._side = side
        self._containers = [ContainerRunner(record, side) for record in records]

    # What the kubelet tells

    def update(self, pod: Pod) -> None:
        """Take notice of a newer version of the pod. Never waits."""
        if _version(pod) < _version(self.pod):
            return
        before, self.pod = self.pod, pod
        if pod.spec.readiness_gates and pod.status.conditions != before.status.conditions:
            self._reporter.changed()
        if (pod.metadata.labels, pod.metadata.annotations) != (before.metadata.labels, before.metadata.annotations):
            self._refresh.set()  # The downward API may show them.
        if len(pod.spec.ephemeral_containers) > len(before.spec.ephemeral_containers):
            self._take_in()
        if pod.metadata.deletion_timestamp is not None:
            self.stop(pod.grace_s)

    def stop(self, grace_s: float) -> None:
        """Bring the pod to its end within this many seconds; a later call can only shorten that. Never waits."""
        self._deadline.shorten(grace_s)
        self._sequence.cancel()

    def shut_down(self, grace_s: float) -> None:
        """Stop it because its node goes: unless it had ended it has failed, for no fault of its own, and says so."""
        if not all(isinstance(runner.record.state, Terminated) for runner in self._of(Role.MAIN)):
            self._failure = self._failure or SHUT_DOWN
        self.stop(grace_s)

    def kill(self) -> None:
        """The object is gone (deleted by force): end what runs at once, and write nothing any more."""
        self._reporter.gone = True
        self.stop(0)

    def processes(self) -> tuple[int, ...]:
        """Return the main processes of the containers that run."""
        return tuple(runner.live.process.pid for runner in self._containers if runner.live is not None)

    # The life of the pod

    async def run(self) -> None:
        """
        Run the pod until nothing of it is left: processes ended, final status stored, the object deleted if it was to.

        Cancelled, it kills the processes and writes nothing.
        """
        try:
            await self._live()
            await self._reporter.flush()
            if self.pod.metadata.deletion_timestamp is not None and not self._reporter.gone:
                await delete_finally(self._shared.client, self._shared.env, self.pod)
        finally:
            self.finished.set()

    async def _live(self) -> None:
        try:
            async with anyio.create_task_group() as background:
                background.start_soon(self._reporter.run)
                if self.pod.spec.active_deadline_seconds is not None:
                    background.start_soon(self._keep_active_deadline, self.pod.spec.active_deadline_seconds)
                if any(volume.shows_api for volume in self.pod.spec.volumes):
                    background.start_soon(self._refresh_volumes)
                async with self._remote_commands():
                    await self._run_containers()
                background.cancel_scope.cancel()
        except Exception as error:  # noqa: BLE001 - a pod's boundary: a defect costs this pod and is told in its status
            self._failure = self._explain(error)
            for runner in self._of(Role.MAIN, Role.SIDECAR, Role.EPHEMERAL):
                runner.lose()
        finally:
            with anyio.CancelScope(shield=True):
                await self._clear_away()

    @asynccontextmanager
    async def _remote_commands(self) -> AsyncIterator[None]:
        """Be found by launchers of other pods, and serve those of this one."""
        remote, pod = self._shared.remote, self.pod
        remote.enter(self)
        try:
            if mpi.launches(pod):
                async with remote.serving(pod.uid, pod.metadata.namespace):
                    yield
            else:
                yield
        finally:
            remote.leave(self)

    async def _run_containers(self) -> None:
        async with anyio.create_task_group() as tasks:
            with self._sequence:
                await self._advance(tasks)
            self._running = None
            # When the sequence came to its own end only sidecars are left: they have the pod's own time to stop.
            self._deadline.shorten(self.pod.grace_s)
            async with anyio.create_task_group() as stopping:
                for runner in self._of(Role.MAIN, Role.INIT, Role.EPHEMERAL):
                    stopping.start_soon(runner.stop, self._deadline)
            for runner in reversed(self._of(Role.SIDECAR)):
                await runner.stop(self._deadline)

    async def _advance(self, tasks: TaskGroup) -> None:
        """Go through the pod's life as far as nobody stops it. Returns when no main container runs any more."""
        if self._lost:
            for runner in self._containers:
                runner.lose()
            return
        gpus = self._shared.gpus.take(self.pod)
        if gpus is None:
            self._failure = (
                "UnexpectedAdmissionError",
                f"node {self._shared.machine.node_name} has not enough free GPUs",
            )
            return
        await self._set_up(gpus)
        self._running = tasks
        for runner in self._of(Role.EPHEMERAL):
            runner.begin(tasks)
        while True:
            self._asked, self._round = None, anyio.CancelScope()
            with self._round:
                await self._go_through(tasks)
            if self._asked is None:
                return
            await self._start_anew(self._asked)

    async def _go_through(self, tasks: TaskGroup) -> None:
        """Run the containers in their order. Returns when no main container runs any more."""
        for runner in self._of(Role.INIT, Role.SIDECAR):
            runner.begin(tasks)
            await runner.initialized.wait()
            if runner.record.role is Role.INIT and not runner.record.succeeded:
                return
        mains = self._of(Role.MAIN)
        for runner in mains:
            runner.begin(tasks)
        for runner in mains:
            await runner.ended.wait()

    def _restart_all(self, ended: Terminated) -> None:
        self._asked = self._asked or ended
        self._round.cancel()
        self._reporter.changed()

    async def _start_anew(self, asked: Terminated) -> None:
        """End all containers, without their preStop hooks, and make them ready to start in the same sandbox."""
        self._event("Normal", "RestartAllContainers", "a container ended so that all containers are to start anew")
        deadline = Deadline(self._shared.env.clock)
        deadline.shorten(self.pod.grace_s)
        async with anyio.create_task_group() as stopping:
            for runner in self._of(Role.INIT, Role.SIDECAR, Role.MAIN):
                stopping.start_soon(partial(runner.stop, deadline, hooks=False))
        await self._shared.env.clock.sleep(self._backoff.delay_s(asked))
        self._containers = [r if r.record.role is Role.EPHEMERAL else r.anew() for r in self._containers]
        self._asked = None
        self._reporter.changed()

    def _take_in(self) -> None:
        """Take up the containers that were added to the spec, and start them if there is a place for them yet."""
        for record in new_records(self.pod):
            if self.container(record.container.name) is None:
                runner = ContainerRunner(record, self._side)
                self._containers.append(runner)
                if self._running is not None:
                    runner.begin(self._running)
                self._reporter.changed()

    def _target(self, container: Container) -> Process | None:
        """Return the main process of the container that this one looks into, unless it brings volumes of its own."""
        name = container.target_container_name if isinstance(container, EphemeralContainer) else ""
        if not name or container.volume_mounts:
            return None
        runner = self.container(name)
        if runner is None or runner.live is None:
            raise ConfigError(f"unable to find target container {name}")
        return runner.live.process

    async def _set_up(self, gpus: Mapping[str, Sequence[str]]) -> None:
        """Make the sandbox and the volumes, as often as it takes; meanwhile the pod is ContainerCreating."""
        backoff = Backoff(self._shared.env, base_s=0.5, cap_s=30.0)
        while True:
            try:
                if self._place is None:
                    self._place = await make_place(lambda: self.pod, self._directory, self._shared, gpus)
                await self._place.volumes.set_up(self.pod)
            except (SandboxError, OSError) as error:
                self._event("Warning", "FailedCreatePodSandBox", str(error))
            except VolumeError as error:
                self._event("Warning", "FailedMount", str(error))
            else:
                return
            self._reporter.changed()
            await backoff.sleep()

    async def _keep_active_deadline(self, seconds: int) -> None:
        since = (self._shared.env.clock.now() - self._start_time).total_seconds()
        await self._shared.env.clock.sleep(max(0.0, seconds - since))
        self._failure = ("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
        self.stop(self.pod.grace_s)

    async def _refresh_volumes(self) -> None:
        while True:
            with anyio.move_on_after(REFRESH_S):
                await self._refresh.wait()
            self._refresh.clear()
            # Not before the first container: until then the sequence itself sets them up.
            if self._place is not None and any(runner.record.attempts for runner in self._containers):
                try:
                    await self._place.volumes.set_up(self.pod)
                except (VolumeError, OSError) as error:
                    self._event("Warning", "FailedMount", str(error))

    async def _clear_away(self) -> None:
        """Kill what is left, and give back what the pod held. What goes wrong is told, and no reason to stop."""
        try:
            if self._place is not None:
                await self._place.sandbox.kill()
        except Exception as error:
            log.exception("pod.not_cleared_away", pod=str(self.pod.key))
            self._event("Warning", "FailedKillPod", f"error killing pod: {error}")
        finally:
            self._shared.gpus.release(self.pod.uid)
            self._ended = True

    def _explain(self, error: Exception) -> tuple[str, str]:
        """Log what ended the pod's life, and return reason and message for its status."""
        cause = first_cause(error)
        if isinstance(cause, SandboxError):
            log.warning("pod.sandbox_lost", pod=str(self.pod.key), error=str(cause))
            return LOST, f"the place where its processes ran is gone: {cause}"
        log.error("pod.worker_failed", pod=str(self.pod.key), exc_info=error)
        return "InternalError", f"the kubelet failed on this pod: {error!r}"

    # What others ask

    def container(self, name: str) -> ContainerRunner | None:
        """Return the runner of a container."""
        return next((runner for runner in self._containers if runner.name == name), None)

    @property
    def sandbox(self) -> Sandbox | None:
        """Where its processes run, as long as they do."""
        return self._place.sandbox if self._place is not None and not self._ended else None

    @property
    def default_container(self) -> str:
        """The container that commands for the pod go to."""
        return mpi.default_container(self.pod)

    def _of(self, *roles: Role) -> list[ContainerRunner]:
        return [runner for runner in self._containers if runner.record.role in roles]

    async def _prepare(self, record: ContainerRecord) -> Attempt:
        return await self._set_place().launcher.prepare(record)

    def _set_place(self) -> Place:
        if self._place is None:
            raise SandboxError("the pod has no sandbox yet")
        return self._place

    def _status(self) -> Json:
        record = PodRecord(
            containers=tuple(runner.record for runner in self._containers),
            start_time=self._start_time,
            host_ip=self._shared.machine.host_ip,
            pod_ip=self._place.sandbox.ip if self._place else "",
            sandbox_ready=self._place is not None and not self._ended,
            failure=self._failure,
            restarting=self._asked is not None if can_restart_all(self.pod) else None,
            ended=self._ended,
        )
        return pod_status(self.pod, record, self._shared.env.clock.now())

    def _event(self, type_: str, reason: str, message: str) -> None:
        self._shared.recorder.event(PODS, self.pod, type=type_, reason=reason, message=message, action=reason)


def _version(pod: Pod) -> int:
    version = pod.metadata.resource_version
    return int(version) if version.isdecimal() else 0
