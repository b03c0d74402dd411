"""
Writes that cannot be stored, and what is left of them: nothing.

SQLite's own limit of pages makes the disk full, at the moment a test wants it, and with the error of a real full disk.
"""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from ktrain.local.apiserver.durability import journal as journals
from ktrain.local.apiserver.durability.database import Database
from ktrain.local.apiserver.durability.errors import StateError
from ktrain.local.apiserver.durability.journal import Journal
from ktrain.local.apiserver.server import ApiServer

from ....waiting import until

MAPS = "configmaps"
BIG = {"k": "v" * 200_000}


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(journals, "RETRY_S", 0.05)


def limit(server, pages: int) -> None:
    """Let the file grow to this many pages; 0: to what it has."""
    connection = server.journal.database._connection
    pages = pages or connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")


async def test_a_write_that_is_not_stored_fails_and_does_not_exist(life, api_of):
    async with life() as server:
        api = api_of(server)
        await api.create(MAPS, api.config_map("before"))
        limit(server, 0)
        refused = await api.send("POST", api.path(MAPS), {**api.config_map("big"), "data": BIG})
        missing = await api.send("GET", api.path(MAPS, "big"))
        kept = await api.send("GET", api.path(MAPS, "before"))

    assert (refused.status, refused.body["reason"]) == (500, "InternalError")
    assert "ktrain.db: database or disk is full; free some space there" in refused.body["message"]
    assert missing.status == 404
    assert kept.status == 200


async def test_changes_and_deletions_that_are_not_stored_are_taken_back(life, api_of):
    async with life() as server:
        api = api_of(server)
        for name in ("changed", "deleted"):
            await api.create(MAPS, api.config_map(name))
        limit(server, 0)
        # In one batch: what fits does not go without what does not.
        answers = await asyncio.gather(
            api.send("PATCH", api.path(MAPS, "changed"), {"data": BIG}, api.MERGE),
            api.send("DELETE", api.path(MAPS, "deleted")),
        )
        listed = (await api.send("GET", api.path(MAPS))).body["items"]

    assert [answer.status for answer in answers] == [500, 500]
    assert {item["metadata"]["name"]: item["data"] for item in listed} == {"changed": {"k": "v"}, "deleted": {"k": "v"}}


async def test_watchers_see_what_was_taken_back(life, api_of):
    async with life() as server:
        api = api_of(server)
        start = str(server.store.revision)
        limit(server, 0)
        await api.send("POST", api.path(MAPS), {**api.config_map("big"), "data": BIG})
        events = await api.events(api.path(MAPS), 2, resourceVersion=start)

    assert [event["type"] for event in events] == ["ADDED", "DELETED"]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions[0] < versions[1]


async def test_when_there_is_space_again_writes_are_stored_again(life, api_of):
    async with life() as server:
        api = api_of(server)
        await api.create(MAPS, api.config_map("a"))
        limit(server, 0)
        assert (await api.send("PATCH", api.path(MAPS, "a"), {"data": BIG}, api.MERGE)).status == 500
        assert (await api.send("POST", api.path(MAPS), api.config_map("b"))).status in (201, 500)
        limit(server, 1_000_000)
        create = partial(api.send, "POST", api.path(MAPS), {**api.config_map("c"), "data": BIG})
        await until(create, lambda answer: answer.status == 201, within_s=10)
        before = (await api.send("GET", api.path(MAPS))).body

    async with life() as server:
        after = (await api_of(server).send("GET", api.path(MAPS))).body
    assert after["items"] == before["items"]
    assert {item["metadata"]["name"] for item in after["items"]} >= {"a", "c"}


async def test_a_server_that_ends_with_a_full_disk_keeps_what_was_acknowledged(life, api_of):
    async with life() as server:
        api = api_of(server)
        made = await api.create(MAPS, api.config_map("a"))
        limit(server, 0)
        await api.send("POST", api.path(MAPS), {**api.config_map("big"), "data": BIG})

    async with life() as server:
        listed = (await api_of(server).send("GET", api.path(MAPS))).body["items"]
    assert [item["metadata"]["uid"] for item in listed] == [made["metadata"]["uid"]]


async def test_a_server_does_not_start_on_a_disk_that_takes_nothing(env, file):
    server = ApiServer(env, journal=Journal(Database(file)))
    limit(server, 0)

    with pytest.raises(StateError, match=r"ktrain\.db: database or disk is full; free some space there"):
        async with server.running():
            pass


async def test_asking_who_may_do_what_needs_no_disk(life, api_of):
    async with life() as server:
        api = api_of(server)
        limit(server, 0)
        await api.send("POST", api.path(MAPS), {**api.config_map("big"), "data": BIG})
        dry = await api.send("POST", api.path(MAPS), api.config_map("d"), dryRun="All")

    assert dry.status == 201
