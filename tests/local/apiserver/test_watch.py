"""Watches: what starts them, what they carry, how they end."""

from __future__ import annotations

STREAM = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
END = "k8s.io/initial-events-end"


def brief(event):
    return event["type"], event["object"]["metadata"]["name"]


async def test_a_watch_from_nothing_begins_with_the_present(api):
    await api.create("configmaps", api.config_map("a"))
    async with api.watch(api.path("configmaps")) as events:
        assert brief(await anext(events)) == ("ADDED", "a")
        await api.create("configmaps", api.config_map("b"))
        assert brief(await anext(events)) == ("ADDED", "b")


async def test_a_streaming_list_of_nothing_ends_with_its_mark(api, server):
    (mark,) = await api.events(api.path("configmaps"), 1, **STREAM)

    assert mark["type"] == "BOOKMARK"
    assert mark["object"]["metadata"]["annotations"] == {END: "true"}
    assert mark["object"]["metadata"]["resourceVersion"] == str(server.store.revision)


async def test_resuming_anywhere_loses_and_repeats_nothing(api, server):
    start = server.store.revision
    for name in "abc":
        await api.create("configmaps", api.config_map(name))
    await api.send("DELETE", api.path("configmaps", "b"))
    path = api.path("configmaps")
    whole = await api.events(path, 4, resourceVersion=str(start))

    assert [brief(e) for e in whole] == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c"), ("DELETED", "b")]
    for cut in range(3):
        version = whole[cut]["object"]["metadata"]["resourceVersion"]
        assert await api.events(path, 3 - cut, resourceVersion=version) == whole[cut + 1 :]


async def test_an_object_that_leaves_the_selection_is_deleted_with_its_old_content(api, server):
    made = await api.create("configmaps", api.config_map("a", labels={"l": "y"}))
    start = made["metadata"]["resourceVersion"]
    path = api.path("configmaps")
    async with api.watch(path, labelSelector="l=y", resourceVersion=start) as events:
        changed = await api.send("PATCH", f"{path}/a", {"metadata": {"labels": {"l": "n"}}}, api.MERGE)
        event = await anext(events)

    assert event["type"] == "DELETED"
    assert event["object"]["metadata"]["labels"] == {"l": "y"}
    assert event["object"]["metadata"]["resourceVersion"] == changed.body["metadata"]["resourceVersion"]


async def test_a_forgotten_version_is_told_in_the_stream(api, server):
    await api.create("configmaps", api.config_map("a"))
    server.compact(server.store.revision)

    (event,) = await api.events(api.path("configmaps"), 1, resourceVersion="1")

    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")


async def test_compaction_ends_running_streams_with_410(api, server):
    async with api.watch(api.path("configmaps"), resourceVersion=str(server.store.revision)) as events:
        server.compact(server.store.revision)
        event = await anext(events)

    assert event["object"]["code"] == 410


async def test_a_stream_ends_at_its_time(api, server):
    path = api.path("configmaps")
    async with api.watch(path, timeoutSeconds="1", resourceVersion=str(server.store.revision)) as events:
        assert [event async for event in events] == []


async def test_leaving_a_watch_unregisters_it(api, server):
    path = api.path("configmaps")
    collection = server.store.collection("configmaps")
    async with api.watch(path, **STREAM) as events:
        await anext(events)
        assert collection.watchers == 1

    assert collection.watchers == 0


async def test_options_that_contradict_each_other_are_refused_before_the_stream(api):
    answer = await api.send("GET", api.path("configmaps"), watch="1", sendInitialEvents="true")

    assert answer.status == 422
    assert "sendInitialEvents requires setting resourceVersionMatch" in answer.body["message"]


async def test_the_end_of_the_server_ends_its_streams(api, server):
    async with api.watch(api.path("configmaps"), **STREAM) as events:
        await anext(events)
        server.end_streams()
        assert [event async for event in events] == []
