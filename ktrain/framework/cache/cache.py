"""
All informers of a process: one per resource, type and scope, however many controllers ask.

An informer must be asked for by name; nothing starts one behind the user's back. (Surprise informers over all
namespaces are the top cause of controllers that run out of memory.)
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from ktrain.framework.errors import CacheSyncTimeout

from .informer import Informer, InformerStatistics, Scope
from .reflector import Reflector

if TYPE_CHECKING:
    from collections.abc import Iterable

    from anyio.abc import TaskGroup, TaskStatus

    from ktrain.api.meta import Resource
    from ktrain.framework.client.client import Client
    from ktrain.framework.env import Env
    from ktrain.framework.writes import Write

T = TypeVar("T")

# Informers of all types live in one table, hence Any: each was made, and is handed out, with its resource's own type.
AnyInformer = Informer[Any]


class Cache:
    """Informers over one API server, run as one service. Reading needs no `await`; see `Informer`."""

    def __init__(self, client: Client, env: Env) -> None:
        self._client = client
        self._env = env
        self._informers: dict[tuple[Resource[Any], Scope], AnyInformer] = {}
        self._tasks: TaskGroup | None = None

    def informer(
        self, resource: Resource[T], *, label_selector: str = "", field_selector: str = "", namespace: str = ""
    ) -> Informer[T]:
        """
        Return the informer of a resource in a scope; the same arguments give the same informer.

        Selectors and namespace limit what the server sends, so memory follows them. Asked for while the cache runs, it
        starts at once.
        """
        scope = Scope(namespace, label_selector, field_selector)
        found = self._informers.get((resource, scope))
        if found is not None:
            return found
        informer = Informer(resource, scope)
        self._informers[resource, scope] = informer
        if self._tasks is not None:
            self._start(informer)
        return informer

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Follow the API server until cancelled. Started does not mean synced: see `wait_for_sync`."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            try:
                for informer in self._informers.values():
                    self._start(informer)
                task_status.started()
                await anyio.sleep_forever()
            finally:
                self._tasks = None

    async def wait_for_sync(self, timeout_s: float = 120.0, *, informers: Iterable[AnyInformer] | None = None) -> None:
        """
        Wait until informers (default: all there are now) have their first content.

        Raises:
            CacheSyncTimeout: Some have not; the text names each with the last error it met.
        """
        awaited = list(self._informers.values() if informers is None else informers)
        try:
            async with asyncio.timeout(timeout_s):
                for informer in awaited:
                    await informer.wait_for_sync()
        except TimeoutError:
            missing = "; ".join(_describe(informer) for informer in awaited if not informer.synced)
            raise CacheSyncTimeout(f"no content after {timeout_s:g} s of {missing}") from None

    def shows(self, writes: Iterable[Write]) -> bool:
        """Whether every informer concerned shows these writes."""
        return not self._behind(writes)

    async def wait_for_writes(self, writes: Iterable[Write], *, timeout_s: float = 5.0) -> bool:
        """Wait until the informers concerned show these writes; False if one did not in time."""
        try:
            async with asyncio.timeout(timeout_s):
                for informer, write in self._behind(writes):
                    await informer.wait_for(write)
        except TimeoutError:
            return False
        return True

    def _behind(self, writes: Iterable[Write]) -> list[tuple[AnyInformer, Write]]:
        return [
            (informer, write)
            for write in writes
            for informer in self._informers.values()
            if informer.resource.plural == write.plural
            and informer.resource.group == write.group
            and not informer.shows(write)
        ]

    def statistics(self) -> dict[str, InformerStatistics]:
        """A look at every informer, by resource and scope."""
        return {_name(informer): informer.statistics() for informer in self._informers.values()}

    def _start(self, informer: AnyInformer) -> None:
        if self._tasks is None:
            return
        scope = informer.scope
        reflector = Reflector(
            self._client,
            informer.resource,
            informer,
            self._env,
            namespace=scope.namespace,
            label_selector=scope.label_selector,
            field_selector=scope.field_selector,
        )
        self._tasks.start_soon(reflector.run, name=f"reflector {_name(informer)}")


def _name(informer: AnyInformer) -> str:
    scope = informer.scope
    parts = (scope.namespace and f"in {scope.namespace}", scope.label_selector, scope.field_selector)
    return " ".join([informer.resource.qualified_name, *(part for part in parts if part)])


def _describe(informer: AnyInformer) -> str:
    reason = informer.last_error or "no answer yet"
    return f"{_name(informer)} ({reason})"
