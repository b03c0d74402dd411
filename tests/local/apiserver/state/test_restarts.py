"""What a server with state has after it was started again."""

from __future__ import annotations

import shutil

from ktrain.api.meta import Key
from ktrain.local.apiserver.durability.database import RESERVE

MAPS = "configmaps"


async def test_objects_come_back_as_they_were(life, api_of):
    async with life() as server:
        api = api_of(server)
        made = await api.create(MAPS, api.config_map("a", labels={"l": "y"}))
        await api.create(MAPS, api.config_map("gone"))
        changed = (await api.send("PATCH", api.path(MAPS, "a"), {"data": {"k": "w"}}, api.MERGE)).body
        await api.send("DELETE", api.path(MAPS, "gone"))

    async with life() as server:
        api = api_of(server)
        again = (await api.send("GET", api.path(MAPS, "a"))).body
        listed = (await api.send("GET", api.path(MAPS))).body

    assert again == changed
    assert again["metadata"]["uid"] == made["metadata"]["uid"]
    assert [item["metadata"]["name"] for item in listed["items"]] == ["a"]


async def test_nothing_of_a_fresh_server_is_made_twice(life, api_of):
    async with life() as server:
        before = {name: dict(collection.entries()) for name, collection in server.store.collections.items()}
        revision = server.store.revision

    async with life() as server:
        assert server.store.revision == revision
        for name, items in before.items():
            again = {key: item.obj for key, item in server.store.collection(name).entries()}
            assert again == {key: item.obj for key, item in items.items()}


async def test_custom_kinds_are_served_again_with_their_objects(life, api_of):
    async with life() as server:
        api = api_of(server)
        definition = api.widget_crd()
        await api.send(
            "POST", api.path("customresourcedefinitions", api="apiextensions.k8s.io/v1", cluster=True), definition
        )
        made = await api.create("widgets", api.widget("w", {"image": "i"}), "ex.test/v1")

    async with life() as server:
        api = api_of(server)
        assert (await api.send("GET", api.path("widgets", "w", api="ex.test/v1"))).body == made
        refused = await api.send("POST", api.path("widgets", api="ex.test/v1"), api.widget("x", {"replicas": -1}))
        assert refused.status == 422


async def test_an_object_from_before_its_definition_changed_is_shown_by_the_new_one(life, api_of):
    async with life() as server:
        api = api_of(server)
        definition = api.widget_crd()
        definitions = api.path("customresourcedefinitions", api="apiextensions.k8s.io/v1", cluster=True)
        await api.send("POST", definitions, definition)
        await api.create("widgets", api.widget("w", {"image": "i"}), "ex.test/v1")
        path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/"
        patch = [
            {"op": "remove", "path": f"{path}image"},
            {"op": "add", "path": f"{path}fresh", "value": {"type": "string", "default": "yes"}},
        ]
        changed = await api.send("PATCH", f"{definitions}/widgets.ex.test", patch, "application/json-patch+json")
        assert changed.status == 200

    async with life() as server:
        api = api_of(server)
        shown = (await api.send("GET", api.path("widgets", "w", api="ex.test/v1"))).body

    assert shown["spec"] == {"mode": "A", "replicas": 1, "fresh": "yes"}


async def test_a_shipped_definition_is_brought_up_to_date_and_else_left_alone(life, api_of):
    async with life() as server:
        definition = api_of(server).widget_crd()
    async with life(crds=[definition]) as server:
        first = server.find("apiextensions.k8s.io", "v1", "customresourcedefinitions", Key("", "widgets.ex.test"))
    async with life(crds=[definition]) as server:
        same = server.find("apiextensions.k8s.io", "v1", "customresourcedefinitions", Key("", "widgets.ex.test"))
    definition["spec"]["names"]["shortNames"] = ["wd"]
    async with life(crds=[definition]) as server:
        newer = server.find("apiextensions.k8s.io", "v1", "customresourcedefinitions", Key("", "widgets.ex.test"))

    assert same == first
    assert newer["metadata"]["uid"] == first["metadata"]["uid"]
    assert (newer["metadata"]["generation"], newer["spec"]["names"]["shortNames"]) == (2, ["wd"])


async def test_dependents_of_an_owner_are_still_collected(life, api_of):
    async with life() as server:
        api = api_of(server)
        owner = await api.create(MAPS, api.config_map("owner"))
        await api.create(MAPS, api.config_map("dependent", ownerReferences=[api.owner(owner)]))

    async with life() as server:
        api = api_of(server)
        await api.send("DELETE", api.path(MAPS, "owner"))
        await api.gone(api.path(MAPS, "dependent"))


async def test_a_watch_goes_on_from_the_last_version_and_is_expired_before(life, api_of):
    async with life() as server:
        api = api_of(server)
        old = (await api.create(MAPS, api.config_map("a")))["metadata"]["resourceVersion"]
        last = (await api.create(MAPS, api.config_map("b")))["metadata"]["resourceVersion"]

    async with life() as server:
        api = api_of(server)
        await api.create(MAPS, api.config_map("c"))
        (event,) = await api.events(api.path(MAPS), 1, resourceVersion=last)
        (expired,) = await api.events(api.path(MAPS), 1, resourceVersion=old)

    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "c")
    assert (expired["type"], expired["object"]["code"]) == ("ERROR", 410)


async def test_after_a_crash_versions_go_on_behind_all_that_anybody_saw(life, api_of, file):
    crashed = file.parent / "crashed"
    crashed.mkdir()
    async with life() as server:
        api = api_of(server)
        made = (await api.create(MAPS, api.config_map("a")))["metadata"]["resourceVersion"]
        # What a crash leaves: the files as they are while the server runs.
        for part in file.parent.glob("ktrain.db*"):
            shutil.copy(part, crashed)
    for part in crashed.iterdir():
        shutil.copy(part, file.parent)

    async with life() as server:
        api = api_of(server)
        again = (await api.send("GET", api.path(MAPS, "a"))).body
        (expired,) = await api.events(api.path(MAPS), 1, resourceVersion=made)
        newer = (await api.create(MAPS, api.config_map("b")))["metadata"]["resourceVersion"]

    assert again["metadata"]["resourceVersion"] == made
    assert expired["object"]["code"] == 410
    assert int(newer) > int(made) + RESERVE // 2
