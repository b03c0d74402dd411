"""What is shown, time after time: TrainJobs from a watch, figures from scrapes."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import anyio

from ktrain.framework.cache.cache import Cache
from ktrain.framework.errors import KindMissing, NotFound

from .figures import Figures, figures
from .jobs import TOP_JOBS, rows
from .source import NoMetrics, find_source

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from ktrain.framework.cache.informer import Informer
    from ktrain.framework.client.client import Client
    from ktrain.framework.env import Env

    from .jobs import Row, Sort, TopJob
    from .samples import Scrape
    from .source import Source

SYNC_TIMEOUT_S: Final = 30.0
LOOK_AGAIN_S: Final = 15.0
"""So often metrics are looked for that were not there."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What the user wants to see. An empty namespace: all."""

    namespace: str
    sort: Sort
    interval_s: float
    metrics: str
    as_json: bool
    once: bool


@dataclass(frozen=True, slots=True)
class View:
    """
    What is shown at one time.

    Attributes:
        where: The namespace, or all.
        jobs: In the order in which they are shown.
        figures: None before the second scrape, and without metrics.
        note: Why something is missing; empty if nothing is.
    """

    time: str
    where: str
    jobs: Sequence[Row]
    figures: Figures | None = None
    note: str = ""


@asynccontextmanager
async def following(client: Client, env: Env, namespace: str) -> AsyncIterator[Informer[TopJob]]:
    """
    Follow the TrainJobs of a namespace, or of all; a context that gives their informer with its first content.

    Raises:
        KindMissing: The API server does not serve TrainJobs.
        FrameworkError: They cannot be read.
    """
    try:  # a refusal is an answer here; the cache would wait for the permission
        await client.raw("GET", TOP_JOBS.path(namespace), query=[("limit", "1")])
    except NotFound as error:
        raise KindMissing(f"{error}: ktrain is not installed in this cluster, see `ktrain doctor`") from error
    cache = Cache(client, env)
    jobs = cache.informer(TOP_JOBS, namespace=namespace)
    async with anyio.create_task_group() as tasks:
        await tasks.start(cache.run)
        await cache.wait_for_sync(SYNC_TIMEOUT_S)
        yield jobs
        tasks.cancel_scope.cancel()


async def views(client: Client, env: Env, wish: Wish, jobs: Informer[TopJob]) -> AsyncIterator[View]:
    """Yield what there is to see: at once without figures, unless it is shown once; then after each interval."""
    meter = _Meter(client, wish.metrics)
    before: Scrape | None = None
    while True:
        after, note = await meter.read()
        same = before is not None and after is not None and before.process == after.process
        if same or not wish.once or after is None:
            now = env.clock.now()
            if (error := jobs.last_error) is not None:
                note = f"TrainJobs are not up to date: {error}"
            found = figures(before, after) if same and before is not None and after is not None else None
            where = f"namespace {wish.namespace}" if wish.namespace else "all namespaces"
            yield View(f"{now:%H:%M:%S}Z", where, rows(jobs.list(), now, wish.sort), found, note)
        before = after
        await env.clock.sleep(wish.interval_s)


class _Meter:
    """Reads metrics, and looks for them again from time to time where they were not."""

    def __init__(self, client: Client, url: str) -> None:
        self._client = client
        self._url = url
        self._source: Source | None = None
        self._note = ""
        self._looked_s: float | None = None

    async def read(self) -> tuple[Scrape | None, str]:
        """Return a scrape, or why there is none."""
        now_s = self._client.env.clock.monotonic()
        try:
            if self._source is None:
                if self._looked_s is not None and now_s - self._looked_s < LOOK_AGAIN_S:
                    return None, self._note
                self._looked_s = now_s
                self._source = await find_source(self._client, self._url)
            return await self._source.scrape(), ""
        except NoMetrics as error:
            self._source = None
            self._note = f"no controllers, queues and plugins: {error}"
            return None, self._note
