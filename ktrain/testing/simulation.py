"""
Whole controllers on virtual time: their processes crash, stop and come back, the weather is bad, and whatever must
always hold is checked after every change on the server.

    async def scenario(env: Env) -> None:
        async with World.made(env, crds=[WIDGET_CRD]) as world:
            world.always(one_child_each)                         # an invariant: called after every change
            operator = world.start(run_operator)                 # async def run_operator(transport, env)
            world.faults.on("write", probability=0.3).answer(500)
            await world.client.create(WIDGETS, widget("a"))
            await world.settled()
            assert world.state(CONFIG_MAPS) == ...

    simulate(scenario, seed=7)

A process is an async function that gets a transport and an environment of its own. It lives as programs do: `kill` ends
it between two instructions and nothing is cleaned up, `stop` and `resume` are SIGSTOP and SIGCONT, `crash` kills it at
one certain call: before it is sent, when the server has done it, or when the answer is there. Processes that are
killed, or end with an exception, are started again. One seed is one run, call by call; a failure has the last calls.
"""

from __future__ import annotations

import random
from contextlib import asynccontextmanager
from contextvars import copy_context
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.lowlevel
import structlog

from ktrain.api.core import LEASES
from ktrain.framework.client.client import Client
from ktrain.framework.env import Env
from ktrain.framework.errors import TransportError
from ktrain.framework.parallel import unwrap
from ktrain.local.apiserver.server import ApiServer
from ktrain.testing.faults import FaultTransport
from ktrain.testing.time import Stoppable, VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence

    from anyio.abc import TaskGroup
    from structlog.typing import FilteringBoundLogger

    from ktrain.api.meta import Json, Resource
    from ktrain.framework.client.transport import Query, Response, Stream, Transport
    from ktrain.local.apiserver.storage.store import Change

log: FilteringBoundLogger = structlog.get_logger("ktrain.testing.simulation")

_VOLATILE: Final = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation")
_LAST_CALLS: Final = 25
LATENCY_S: Final = 0.001
"""Every call takes so long on its way; without it a controller that writes in a circle would stop the world's time."""


class Moment(Enum):
    """When, around one call, a process dies."""

    BEFORE_SEND = "before it is sent"
    AFTER_SEND = "after it took effect, before the answer"
    AFTER_ANSWER = "after the answer"


@dataclass(frozen=True, slots=True)
class Crash:
    """The process dies at its nth call; the first is 1."""

    call: int
    moment: Moment


class Process:
    """
    A program in the world (`World.start`).

    Attributes:
        name: In the log, and of its randomness.
        env: Its own clock, whose wall time may be wrong, and its own randomness.
        calls: How many calls it made, in all its lives.
        lives: How often it was started.
        ended: The exception it ended with; None while it runs, or if it just returned.
    """

    def __init__(self, world: World, name: str, main: Callable[[Transport, Env], Awaitable[None]]) -> None:
        self.name = name
        self.clock = VirtualClock()
        self.env = Env(self.clock, random.Random(f"{world.env.random.random()} {name}"))  # noqa: S311 - repeatable
        self.calls = 0
        self.lives = 0
        self.ended: Exception | None = None
        self.crash: Crash | None = None
        self.restart_s: float | None = 1.0
        self._world = world
        self._main = main
        self._life: _Life | None = None

    def stop(self) -> None:
        """SIGSTOP."""
        if self._life is not None:
            self._life.body.stop()

    def resume(self) -> None:
        """SIGCONT."""
        if self._life is not None:
            self._life.body.resume()

    def kill(self) -> None:
        """SIGKILL: not one step more. It starts again after `restart_s`, unless that is None."""
        life, self._life = self._life, None
        if life is not None:
            log.info("process.killed", process=self.name)
            life.die()
            if self.restart_s is not None:
                self._world.later(self.restart_s, self.begin)

    def terminate(self) -> None:
        """SIGTERM, as far as programs take it as cancellation; it does not start again."""
        if self._life is not None:
            self._life.scope.cancel()

    @property
    def running(self) -> bool:
        """Whether it lives, stopped or not."""
        return self._life is not None

    def begin(self) -> None:
        """Start it (again)."""
        self.lives += 1
        self.ended = None
        self._life = life = _Life(self, self._world.faults)
        self._world.run(life, self._run)

    async def _run(self, life: _Life) -> None:
        with life.scope:
            try:
                await self._main(life, self.env)
            except Exception as error:  # noqa: BLE001 - a program may end with anything; that is what is observed
                if not life.dead:
                    self.ended = error
                    log.info("process.ended", process=self.name, error=repr(error))
        if self._life is life:
            self._life = None
            if self.ended is not None and self.restart_s is not None:
                self._world.later(self.restart_s, self.begin)


class _Life:
    """One life of a process, and the transport of that life: when it is over nothing is sent any more."""

    def __init__(self, process: Process, transport: Transport) -> None:
        self.body = Stoppable()
        self.scope = anyio.CancelScope()
        self.dead = False
        self._process = process
        self._transport = transport

    def die(self) -> None:
        """Not one step more, and nothing is sent; `bury` follows."""
        self.dead = True
        self.body.stop()

    def bury(self) -> None:
        """Let what is left of it unwind; it can do no harm."""
        self.dead = True
        self.scope.cancel()
        self.body.resume()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout_s: float = 30.0,
    ) -> Response:
        crash = await self._next()
        answer = await self._transport.request(
            method, path, query=query, headers=headers, body=body, timeout_s=timeout_s
        )
        await self._answered(crash)
        return answer

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Query = (), headers: Mapping[str, str] | None = None, idle_timeout_s: float = 75.0
    ) -> AsyncIterator[Stream]:
        crash = await self._next()
        opening = self._transport.stream(path, query=query, headers=headers, idle_timeout_s=idle_timeout_s)
        async with opening as stream:
            await self._answered(crash)
            yield stream

    async def aclose(self) -> None:
        """Do nothing: the transport is that of the next life, too."""

    async def _next(self) -> Moment | None:
        if self.dead:
            await self._nothing_more()
        await self._process.env.clock.sleep(LATENCY_S)
        self._process.calls += 1
        crash = self._process.crash
        if crash is None or self._process.calls != crash.call:
            return None
        if crash.moment is Moment.BEFORE_SEND:
            self._process.kill()
            await self._nothing_more()
        return crash.moment

    async def _answered(self, crash: Moment | None) -> None:
        if crash is Moment.AFTER_SEND:
            self._process.kill()
            await self._nothing_more()
        elif crash is Moment.AFTER_ANSWER:
            # The caller gets it and runs on until it has to wait for something.
            self._process.kill()

    async def _nothing_more(self) -> None:
        """Wait for the next step, which comes only to unwind."""
        await anyio.lowlevel.checkpoint()
        raise TransportError("this process was killed")


class World:
    """
    A server, weather, and processes.

    Attributes:
        env: Time and chance of the world; processes have their own.
        server: The embedded API server, without any admission rules but those given to it.
        faults: The weather between all processes and the server; its log has every call.
        client: The test's own, in good weather, with all rights.
        violations: What invariants said so far.
    """

    def __init__(self, env: Env, server: ApiServer, tasks: TaskGroup) -> None:
        self.env = env
        self.server = server
        self.faults = FaultTransport(server.transport(), env)
        self.client = Client(server.transport(), env, field_manager="world")
        self.violations: list[str] = []
        self.processes: list[Process] = []
        self._invariants: list[Callable[[World], None]] = []
        self._lives: list[_Life] = []
        self._tasks = tasks
        self._context = copy_context()
        self._changed_s = 0.0
        server.store.listen(self._on_change)

    @staticmethod
    @asynccontextmanager
    async def made(env: Env, *, crds: Sequence[Json] = ()) -> AsyncIterator[World]:
        """
        Make a world; at the end of the block everything in it is dead.

        Raises:
            AssertionError: An invariant did not hold at some time; or the block's own, with the last calls.
        """
        server = ApiServer(env, crds=crds)
        try:
            async with server.running(), anyio.create_task_group() as tasks:
                world = World(env, server, tasks)
                try:
                    yield world
                    world.check()
                except AssertionError as error:
                    calls = "\n".join(map(str, world.faults.calls()[-_LAST_CALLS:]))
                    error.add_note(f"the last calls:\n{calls}")
                    raise
                finally:
                    world.end()
        except BaseExceptionGroup as group:
            raise unwrap(group) from None

    def start(
        self,
        main: Callable[[Transport, Env], Awaitable[None]],
        name: str = "operator",
        *,
        crash: Crash | None = None,
        restart_s: float | None = 1.0,
        skew_s: float = 0.0,
    ) -> Process:
        """Start a program. `skew_s`: how wrong its wall clock is (`process.clock.skew_s` may be changed later)."""
        process = Process(self, name, main)
        process.crash, process.restart_s, process.clock.skew_s = crash, restart_s, skew_s
        self.processes.append(process)
        process.begin()
        return process

    def always(self, invariant: Callable[[World], None]) -> None:
        """Call this after every change on the server; it raises AssertionError if something is not as it must be."""
        self._invariants.append(invariant)

    def check(self) -> None:
        """Raise AssertionError if an invariant was ever broken."""
        if self.violations:
            text = "\n".join(self.violations[:5])
            raise AssertionError(f"{len(self.violations)} times something was not as it must be:\n{text}")

    def objects(self, resource: Resource[Any]) -> Iterator[Json]:
        """All objects as the server has them at this moment; nobody may change them."""
        for _, item in self.server.store.collection(resource.qualified_name).entries():
            yield item.obj

    def state(self, *resources: Resource[Any]) -> dict[str, Json]:
        """The objects of these kinds without what differs from run to run, to compare the ends of two runs."""
        return {
            f"{resource.kind} {obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}": _lasting(obj)
            for resource in resources
            for obj in self.objects(resource)
        }

    async def until(self, condition: Callable[[], bool], *, timeout_s: float = 300.0) -> float:
        """
        Wait until this is so, and return how many seconds that took. Looks twenty times a second.

        Raises:
            AssertionError: It was not so in time, or an invariant was broken.
        """
        begun_s = self.env.clock.monotonic()
        while not condition():
            self.check()
            if self.env.clock.monotonic() - begun_s > timeout_s:
                raise AssertionError(f"it did not become so in {timeout_s:g} s")
            await self.env.clock.sleep(0.05)
        self.check()
        return self.env.clock.monotonic() - begun_s

    async def settled(self, *, quiet_s: float = 30.0, timeout_s: float = 1800.0) -> None:
        """
        Wait until nothing has changed on the server for `quiet_s`, leases aside.

        Raises:
            AssertionError: It never came to rest, or an invariant was broken.
        """
        self._changed_s = self.env.clock.monotonic()
        await self.until(lambda: self.env.clock.monotonic() - self._changed_s >= quiet_s, timeout_s=timeout_s)

    # For processes

    def run(self, life: _Life, main: Callable[[_Life], Coroutine[Any, Any, None]]) -> None:
        """Run a life."""

        def start() -> None:
            with life.body.inside():
                self._tasks.start_soon(main, life, name="life of a process")

        self._lives.append(life)
        self._context.copy().run(start)

    def later(self, delay_s: float, action: Callable[[], None]) -> None:
        """Do something after a while."""

        async def act() -> None:
            await self.env.clock.sleep(delay_s)
            action()

        # Not as a part of whoever asks: that may be a process at the moment of its death.
        self._context.copy().run(partial(self._tasks.start_soon, act, name="later"))

    def end(self) -> None:
        """Kill everybody, and let nothing begin any more."""
        self.faults.clear()
        for process in self.processes:
            process.restart_s = None
            process.kill()
        self._tasks.cancel_scope.cancel()
        for life in self._lives:
            life.bury()

    def _on_change(self, name: str, change: Change) -> None:
        now_s = self.env.clock.monotonic()
        if name != LEASES.qualified_name:
            self._changed_s = now_s
        for invariant in self._invariants:
            try:
                invariant(self)
            except AssertionError as error:
                # Not raised here: it would be an error of the server, and tried again by those who ask it.
                self.violations.append(f"at {now_s:.3f} s: {error}")


def _lasting(obj: Json) -> Json:
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _VOLATILE}
    owners = [{**owner, "uid": ""} for owner in metadata.get("ownerReferences", [])]
    return {**obj, "metadata": {**metadata, **({"ownerReferences": owners} if owners else {})}}
