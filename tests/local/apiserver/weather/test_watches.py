"""
Many watches, and watches that nobody reads: nothing is lost, and no writer waits.

`KTRAIN_WATCH_CHANGES=5000` for more changes than a quick run has time for.
"""

from __future__ import annotations

import asyncio
import os
import re
from contextlib import AsyncExitStack

import pytest

from ktrain.local.apiserver.front import connection

from ....waiting import until

MAPS = "/api/v1/namespaces/default/configmaps"
CHANGES = int(os.environ.get("KTRAIN_WATCH_CHANGES", "500"))
MERGE = "application/merge-patch+json"
_NUMBER = re.compile(rb'"data":\{[^}]*"n":"(\d+)"')


class Seen:
    """What a watch has sent: how many changes, and whether one was missing or twice."""

    def __init__(self, line):
        self._line = line
        self.values: list[int] = []

    async def until(self, count):
        rest = b""
        while len(self.values) < count:
            *lines, rest = (rest + await self._line.reader.read(1 << 16)).split(b"\n")
            for text in lines:
                if text.startswith(b'{"type":"MODIFIED"'):
                    self.values.append(int(_NUMBER.search(text)[1]))


async def open_watch(line, api, **query):
    asked = "&".join(f"{name}={value}" for name, value in query.items())
    await line.send(line.request("GET", f"{MAPS}?watch=1&{asked}"))
    assert b" 200 " in await line.reader.readline()


async def change(api, count, first=0):
    for number in range(first, first + count):
        answer = await api.send("PATCH", f"{MAPS}/a", {"data": {"n": str(number)}}, MERGE)
        assert answer.status == 200


async def test_twenty_watchers_of_many_changes_lose_nothing(connect, api):
    await api.create("configmaps", api.config_map("a"))
    async with AsyncExitStack() as stack:
        lines = [await stack.enter_async_context(connect()) for _ in range(20)]
        for line in lines:
            await open_watch(line, api)
        seen = [Seen(line) for line in lines]
        async with asyncio.timeout(120), asyncio.TaskGroup() as group:
            for one in seen:
                group.create_task(one.until(CHANGES))
            group.create_task(change(api, CHANGES))

    assert all(one.values == list(range(CHANGES)) for one in seen)


async def test_a_watch_that_nobody_reads_is_cut_off_and_holds_up_no_writer(connect, api, server, monkeypatch):
    monkeypatch.setattr(connection, "STALLED_S", 0.5)
    await api.create("configmaps", {**api.config_map("a"), "data": {"k": "v" * 20_000}})
    collection = server.store.collection("configmaps")
    async with connect(limit=1024) as stuck, connect() as other:
        for line in (stuck, other):
            await open_watch(line, api)
        assert collection.watchers == 2
        seen = Seen(other)
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            group.create_task(seen.until(1000))
            group.create_task(change(api, 1000))
        await until(lambda: collection.watchers <= 1, within_s=10)

    assert seen.values == list(range(1000))


@pytest.mark.parametrize("count", [1000])
async def test_a_thousand_watches_see_the_same(connect, api, count):
    await api.create("configmaps", api.config_map("a"))
    version = (await api.send("GET", MAPS)).body["metadata"]["resourceVersion"]
    async with AsyncExitStack() as stack:
        lines = [await stack.enter_async_context(connect()) for _ in range(count)]
        for line in lines:
            await open_watch(line, api, resourceVersion=version)
        seen = [Seen(line) for line in lines]
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            for one in seen:
                group.create_task(one.until(3))
            group.create_task(change(api, 3))

    assert all(one.values == [0, 1, 2] for one in seen)
