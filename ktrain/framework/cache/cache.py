"""
All informers of a process: one per resource, type and scope, however many controllers ask.

An informer must be asked for by name; nothing starts one behind the user's back. (Surprise informers over all
namespaces are the top cause of controllers that run out of memory.) Who asks for a kind that is held already, in
another form or in a scope that overlaps, is warned: it costs memory twice, and the two views need not agree.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio
import structlog

from ktrain.framework.client.models import is_model
from ktrain.framework.errors import CacheSyncTimeout, Unauthorized
from ktrain.framework.metrics import Metrics

from .informer import Informer, InformerStatistics, Scope
from .reflector import WATCH_TIMEOUT_S, Reflector

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from anyio.abc import TaskGroup, TaskStatus
    from structlog.typing import FilteringBoundLogger

    from ktrain.api.meta import Resource
    from ktrain.framework.client.client import Client
    from ktrain.framework.env import Env
    from ktrain.framework.writes import Write

    from .intake import Holds, Transform
    from .partition import Partition

T = TypeVar("T")

# Informers of all types live in one table, hence Any: each was made, and is handed out, with its resource's own type.
AnyInformer = Informer[Any]

log: FilteringBoundLogger = structlog.get_logger("ktrain.framework.cache")

UNAUTHORIZED_EVERY_S: Final = 60.0


@dataclass(slots=True)
class _Entry:
    informer: AnyInformer
    transform: Transform[Any] | None
    wanted: list[Holds[Any] | None]
    """What each user wants held: all that a predicate says, or everything."""
    overlaps: bool
    """Whether somebody knows that others hold the same objects."""
    users: int = 0
    reflectors: list[anyio.CancelScope] = field(default_factory=list)
    """What ends each reflector that runs."""


class Cache:
    """
    Informers over one API server, run as one service. Reading needs no `await`; see `Informer`.

    Args:
        metrics: Where each informer's count, memory, age and relists are shown.
        watch_timeout_s: See `Reflector`; shorter watches notice dead connections sooner.
        warns_of_overlaps: Whether to say that two informers hold the same objects.
        namespaces: Limits every informer of a namespaced kind to these; each has a list and a watch of its own, so
            that Roles in these namespaces are all it takes. Default: all namespaces, in one list and one watch.
            Kinds that are in no namespace are not limited.

    Raises:
        ValueError: A namespace is empty or given twice.
    """

    def __init__(
        self,
        client: Client,
        env: Env,
        *,
        metrics: Metrics | None = None,
        watch_timeout_s: tuple[int, int] = WATCH_TIMEOUT_S,
        warns_of_overlaps: bool = True,
        namespaces: Sequence[str] = (),
    ) -> None:
        if "" in namespaces or len(set(namespaces)) < len(namespaces):
            raise ValueError(f"the namespaces of a cache must be names, each once, not {list(namespaces)}")
        self.namespaces: tuple[str, ...] = tuple(namespaces)
        """Those that informers are limited to; empty: none is limited."""
        self._client = client
        self._warns_of_overlaps = warns_of_overlaps
        self._env = env
        self._metrics = metrics or Metrics()
        self._watch_timeout_s = watch_timeout_s
        self._entries: dict[tuple[Resource[Any], Scope], _Entry] = {}
        self._tasks: TaskGroup | None = None
        self._unauthorized_due_s = float("-inf")

    def informer(
        self,
        resource: Resource[T],
        *,
        label_selector: str = "",
        field_selector: str = "",
        namespace: str = "",
        transform: Transform[T] | None = None,
        holds: Holds[T] | None = None,
        overlaps: bool = False,
    ) -> Informer[T]:
        """
        Return the informer of a resource in a scope; the same arguments give the same informer.

        Without a namespace it is of all namespaces, or of those that the cache is limited to. Selectors and namespaces
        limit what the server sends, so memory follows them; a transform may drop what nobody reads. Where no selector
        can tell which objects matter, `holds` says it of each: of the others only the names are kept
        (`Informer.leaves_out`), nine bytes each. Held is what any user of the informer wants; without `holds` that is
        everything.

        `overlaps`: the caller knows that others hold the same objects in another form, as controllers do that could be
        programs of their own; then nothing warns of it.

        Asked for while the cache runs, it starts at once. Whoever is done with it before the cache ends gives it back
        by `release`, as often as it was asked for.

        Raises:
            ValueError: There is one already, with another transform, or it runs and holds less than is wanted now; a
                namespace of a kind that is in none, or to which the cache is not limited; or a type that is a model of
                kubernetes_asyncio.
        """
        if is_model(resource.type):
            raise ValueError(
                f"objects of {resource.type.__name__} are too slow and large to be cached: declare the fields that you "
                "read as a Struct, or read them with the client"
            )
        if namespace and not resource.namespaced:
            raise ValueError(f"a {resource.kind} is in no namespace: an informer cannot be for those in {namespace!r}")
        scope = Scope(self._namespaces(resource, namespace), label_selector, field_selector)
        entry = self._entries.get((resource, scope))
        if entry is None:
            entry = _Entry(Informer(resource, scope), transform, [holds], overlaps)
            if self._warns_of_overlaps and not overlaps:
                self._warn_of_twins(entry.informer)
            entry.informer.cache = self
            entry.informer.observe(self._env.clock, self._metrics, self._client.cluster)
            self._entries[resource, scope] = entry
            self._start(entry)
        elif entry.transform is not transform:
            raise ValueError(f"there is already an informer of {entry.informer}, with another transform")
        elif holds not in entry.wanted:
            if self._tasks is not None and None not in entry.wanted:
                raise ValueError(f"the informer of {entry.informer} runs already, and holds less than is wanted now")
            entry.wanted.append(holds)
        entry.users += 1
        return entry.informer

    def release(self, informer: AnyInformer) -> None:
        """
        Give an informer back. With its last user it ends: watch, content, handlers (untold), metrics.

        Raises:
            ValueError: It is none of this cache's, or was released by everybody already.
        """
        entry = self._entries.get((informer.resource, informer.scope))
        if entry is None or entry.informer is not informer:
            raise ValueError(f"the informer of {informer} is not in use in this cache")
        entry.users -= 1
        if entry.users == 0:
            del self._entries[informer.resource, informer.scope]
            for reflector in entry.reflectors:
                reflector.cancel()
            informer.release()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Follow the API server until cancelled. Started does not mean synced: see `wait_for_sync`."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            try:
                for entry in self._entries.values():
                    self._start(entry)
                task_status.started()
                await anyio.sleep_forever()
            finally:
                self._tasks = None

    async def wait_for_sync(self, timeout_s: float = 120.0, *, informers: Iterable[AnyInformer] | None = None) -> None:
        """
        Wait until informers (default: all there are now) have their first content, or are known to be missing.

        Raises:
            CacheSyncTimeout: Some have not; the text names each with the last error it met.
        """
        awaited = self.informers() if informers is None else list(informers)
        try:
            async with asyncio.timeout(timeout_s):
                for informer in awaited:
                    await informer.wait_for_decision()
        except TimeoutError:
            late = [informer for informer in awaited if not (informer.synced or informer.missing)]
            reasons = "; ".join(f"{one} ({one.statistics().last_error or 'no answer yet'})" for one in late)
            raise CacheSyncTimeout(f"no content after {timeout_s:g} s of {reasons}") from None

    def shows(self, writes: Sequence[Write]) -> bool:
        """Whether every informer concerned shows these writes."""
        return self.behind(writes) is None

    def behind(self, writes: Sequence[Write]) -> tuple[AnyInformer, Write] | None:
        """Return the first informer concerned that does not show one of these writes, and that write."""
        return next(self._behind(writes), None)

    async def wait_for_writes(self, writes: Sequence[Write], *, timeout_s: float = 5.0) -> bool:
        """Wait until the informers concerned show these writes; False if one did not in time."""
        try:
            async with asyncio.timeout(timeout_s):
                # Looked at anew each time: a deletion of what was made just before shows only after that has shown.
                while (found := self.behind(writes)) is not None:
                    informer, write = found
                    await informer.wait_for(write)
        except TimeoutError:
            return False
        return True

    def _behind(self, writes: Sequence[Write]) -> Iterator[tuple[AnyInformer, Write]]:
        for write in writes:
            if write.cluster != self._client.cluster:
                continue
            for informer in self.informers():
                resource = informer.resource
                concerned = resource.plural == write.plural and resource.group == write.group
                if concerned and not informer.shows(write):
                    yield informer, write

    def refuses(self, namespace: str) -> bool:
        """Whether the API server shows nothing of a namespace to which the cache is limited: of no kind."""
        return all(informer.refuses(namespace) for informer in self.informers())

    def wake(self) -> None:
        """Have those who wait for any informer look again."""
        for informer in self.informers():
            informer.wake()

    def statistics(self) -> dict[str, InformerStatistics]:
        """A look at every informer, by resource and scope."""
        looks: dict[str, InformerStatistics] = {}
        for informer in self.informers():
            name = str(informer)
            looks[f"{name} as {informer.resource.type.__name__}" if name in looks else name] = informer.statistics()
        return looks

    def informers(self) -> list[AnyInformer]:
        """Return all informers there are now."""
        return [entry.informer for entry in self._entries.values()]

    def _namespaces(self, resource: Resource[Any], namespace: str) -> tuple[str, ...]:
        if not namespace:
            return self.namespaces if resource.namespaced else ()
        if self.namespaces and namespace not in self.namespaces:
            raise ValueError(
                f"an informer of {resource.qualified_name} cannot be for those in {namespace!r}: the cache is limited"
                f" to the namespaces {', '.join(self.namespaces)}"
            )
        return (namespace,)

    def _start(self, entry: _Entry) -> None:
        if self._tasks is None:
            return
        entry.reflectors = [anyio.CancelScope() for _ in entry.informer.partitions]
        for partition, scope in zip(entry.informer.partitions, entry.reflectors, strict=True):
            self._tasks.start_soon(self._follow, entry, partition, scope, name=f"reflector {partition}")

    async def _follow(self, entry: _Entry, partition: Partition[Any], scope: anyio.CancelScope) -> None:
        reflector = Reflector(
            self._client,
            partition.resource,
            partition,
            self._env,
            namespace=partition.scope.namespace,
            label_selector=partition.scope.label_selector,
            field_selector=partition.scope.field_selector,
            transform=entry.transform,
            holds=_any_of(entry.wanted),
            watch_timeout_s=self._watch_timeout_s,
            record=partition.record,
            on_unauthorized=self._unauthorized,
        )
        with scope:
            await reflector.run()

    def _unauthorized(self, error: Unauthorized) -> None:
        """Log one line for all kinds, at most every `UNAUTHORIZED_EVERY_S`: it is one problem, of one identity."""
        now_s = self._env.clock.monotonic()
        if now_s >= self._unauthorized_due_s:
            self._unauthorized_due_s = now_s + UNAUTHORIZED_EVERY_S
            log.warning(
                "identity.refused",
                cluster=self._client.cluster,
                error=str(error),
                advice="renew the token or certificate of the kubeconfig or of the service account",
            )

    def _warn_of_twins(self, informer: AnyInformer) -> None:
        for other in [entry.informer for entry in self._entries.values() if not entry.overlaps]:
            same = (other.resource.group, other.resource.plural) == (informer.resource.group, informer.resource.plural)
            if same and (other.scope.covers(informer.scope) or informer.scope.covers(other.scope)):
                log.warning(
                    "informer.overlaps",
                    informer=f"{informer} as {informer.resource.type.__name__}",
                    other=f"{other} as {other.resource.type.__name__}",
                    cost="objects in both are held twice",
                )


def _any_of(wanted: Sequence[Holds[Any] | None]) -> Holds[Any] | None:
    """One predicate for all users; None if one of them wants everything."""
    predicates = [holds for holds in wanted if holds is not None]
    if len(predicates) < len(wanted):
        return None
    return predicates[0] if len(predicates) == 1 else lambda obj: any(holds(obj) for holds in predicates)
