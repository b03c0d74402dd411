"""What may be said with a call, and what each server makes of it."""

from contextlib import aclosing

import pytest
import structlog

from ktrain.api.core import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, PODS, untyped
from ktrain.api.meta import Key, Object, Resource
from ktrain.api.trainer import TRAINING_RUNTIMES
from ktrain.framework import PatchType
from ktrain.framework.client.subresources import bind, evict, read_scale, request_token, scale
from ktrain.framework.errors import BadRequest, Conflict, Invalid, NotFound
from ktrain.framework.writes import recording

from ..definitions import definition
from ..waiting import until

ANY_MAPS = untyped(CONFIG_MAPS)


@pytest.fixture
def pod(key, pod_template):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": key.name, "namespace": key.namespace},
        **pod_template,
    }


async def test_a_dry_run_shows_what_would_be_stored_and_stores_and_records_nothing(client, config_map, key):
    dry = client.with_options(dry_run=True)

    with recording() as writes:
        made = await client.create(CONFIG_MAPS, config_map("c", {"k": "v"}), dry_run=True)
        assert (made.data, bool(made.metadata.uid)) == ({"k": "v"}, True)
        with pytest.raises(NotFound):
            await client.get(CONFIG_MAPS, *reversed(key))
        stored = await client.create(ANY_MAPS, config_map("c"))
        del writes[:]
        assert (await dry.update(ANY_MAPS, {**stored, "data": {"a": "1"}}))["data"] == {"a": "1"}
        assert (await dry.patch(CONFIG_MAPS, key, {"data": {"b": "1"}})).data == {"b": "1"}
        assert (await dry.apply(CONFIG_MAPS, config_map("c", {"d": "1"}))).data == {"d": "1"}
        await dry.delete(CONFIG_MAPS, key)
        await dry.delete_collection(CONFIG_MAPS, key.namespace)

    assert writes == []
    assert await client.get(ANY_MAPS, *reversed(key)) == stored


async def test_unknown_fields_are_refused_warned_of_or_dropped_as_the_writer_wants(client, config_map, key):
    body = config_map("c") | {"dada": {}}

    with pytest.raises(BadRequest, match="dada"):
        await client.create(ANY_MAPS, body, field_validation="Strict")
    with structlog.testing.capture_logs() as logs:
        await client.with_options(field_validation="Ignore").create(ANY_MAPS, body)
        assert logs == []
        for _ in range(2):
            await client.update(ANY_MAPS, body, field_validation="Warn")

    assert [(line["event"], line["text"]) for line in logs] == [("api.warning", 'unknown field "dada"')]


async def test_unknown_fields_of_a_custom_object_are_refused_by_name(client, key):
    body = {
        "apiVersion": TRAINING_RUNTIMES.api_version,
        "kind": "TrainingRuntime",
        "metadata": {"name": key.name, "namespace": key.namespace},
        "spec": {"mlPolicy": {"nodes": 2}, "template": {"spec": {}}},
    }

    with pytest.raises(BadRequest, match=r'unknown field "spec\.mlPolicy\.nodes"'):
        await client.create(untyped(TRAINING_RUNTIMES), body, field_validation="Strict")


async def test_deleting_a_collection_deletes_what_is_selected(client, control_plane, config_map):
    namespace = control_plane.namespace
    for name, label in (("a", "x"), ("b", "x"), ("c", "y")):
        await client.create(CONFIG_MAPS, config_map(name, labels={"l": label}))

    await client.delete_collection(CONFIG_MAPS, namespace, label_selector="l=x")

    left = await client.list(CONFIG_MAPS, namespace, label_selector="l")
    assert [item.metadata.name for item in left.items] == ["c"]


async def test_some_hundred_objects_come_in_pages_of_one_moment(client, control_plane, config_map):
    names = [f"m{number:03}" for number in range(230)]
    for name in names:
        await client.create(CONFIG_MAPS, config_map(name, labels={"l": "paged"}))

    pages = []
    async for page in client.pages(CONFIG_MAPS, control_plane.namespace, label_selector="l=paged", page_size=100):
        pages.append(page)
        if len(pages) == 1:
            await client.delete(CONFIG_MAPS, Key(control_plane.namespace, names[-1]))

    assert [len(page.items) for page in pages] == [100, 100, 30]
    assert [item.metadata.name for page in pages for item in page.items] == names
    assert len({page.resource_version for page in pages}) == 1


async def test_a_watch_tells_what_happens_after_a_version(client, control_plane, config_map, key):
    before = await client.list(CONFIG_MAPS, key.namespace)
    seen = []

    created = await client.create(CONFIG_MAPS, config_map("c"))
    await client.patch(CONFIG_MAPS, key, {"data": {"k": "v"}})
    await client.delete(CONFIG_MAPS, key)
    watch = client.watch(CONFIG_MAPS, key.namespace, resource_version=before.resource_version)
    async with aclosing(watch) as events:
        async for event in events:
            seen.append(event)
            if event.type == "DELETED":
                break

    assert [event.type for event in seen] == ["ADDED", "MODIFIED", "DELETED"]
    assert (seen[0].object, seen[1].object.data) == (created, {"k": "v"})
    assert int(seen[2].resource_version) > int(seen[1].resource_version)


async def test_a_watch_without_a_version_begins_with_what_there_is(client, config_map, key):
    created = await client.create(CONFIG_MAPS, config_map("c"))

    async with aclosing(client.watch(CONFIG_MAPS, key.namespace, field_selector="metadata.name=c")) as events:
        event = await anext(events)

    assert (event.type, event.object) == ("ADDED", created)


async def test_a_deletion_that_finalizers_hold_is_recorded_as_the_mark_that_it_is(client, config_map, key):
    await client.create(CONFIG_MAPS, config_map("c", finalizers=["ktrain.dev/test"]))

    with recording() as writes:
        await client.delete(CONFIG_MAPS, key)
    marked = await client.get(CONFIG_MAPS, *reversed(key))
    with recording() as more:
        await client.patch(CONFIG_MAPS, key, {"metadata": {"finalizers": None}})

    assert marked.metadata.deletion_timestamp is not None
    assert [(w.key, str(w.version)) for w in writes] == [(key, marked.metadata.resource_version)]
    assert [w.key for w in more] == [key]


async def test_a_pod_that_gets_its_time_to_end_is_marked_and_one_without_is_gone(client, key, pod):
    await client.create(PODS, pod)
    await bind(client, key, "node")

    with recording() as writes:
        await client.delete(PODS, key)
        await client.delete(PODS, key, grace_period_s=0)

    assert [bool(write.version) for write in writes] == [True, False]
    assert writes[0].uid == writes[1].uid != ""
    with pytest.raises(NotFound):
        await client.get(PODS, *reversed(key))


async def test_a_pod_is_bound_once(client, key, pod):
    await client.create(PODS, pod)

    await bind(client, key, "one")

    assert (await client.get(PODS, *reversed(key))).spec.node_name == "one"
    with pytest.raises(Conflict):
        await bind(client, key, "two")


async def test_writes_of_subresources_are_recorded_as_the_objects(client, key, pod):
    created = await client.create(PODS, pod)

    with recording() as writes:
        patched = await client.patch(PODS, key, {"status": {"phase": "Running"}}, subresource="status")

    assert [(w.plural, w.key, w.uid) for w in writes] == [("pods", key, created.metadata.uid)]
    assert str(writes[0].version) == patched.metadata.resource_version


async def test_a_client_for_one_namespace_goes_nowhere_else(client, config_map, key):
    mine = client.with_options(namespace=key.namespace)
    body = config_map("c")
    del body["metadata"]["namespace"]

    assert (await mine.create(CONFIG_MAPS, body)).metadata.namespace == key.namespace
    assert [item.key for item in (await mine.list(CONFIG_MAPS, field_selector="metadata.name=c")).items] == [key]
    with pytest.raises(ValueError, match="this client is for the namespace"):
        await mine.get(CONFIG_MAPS, "c", "another")
    assert (await mine.get(NAMESPACES, key.namespace)).metadata.name == key.namespace
    await mine.delete(CONFIG_MAPS, Key("", "c"))


async def test_names_with_every_legal_character_come_back_as_they_went(client, control_plane, config_map):
    names = ["a", "0", "a-b.c-d.0", "x" * 253, ".".join(["y" * 63] * 3)]
    for name in names:
        await client.create(CONFIG_MAPS, config_map(name))
        found = await client.get(CONFIG_MAPS, name, control_plane.namespace)
        assert found.metadata.name == name
        await client.delete(CONFIG_MAPS, found.key)


async def test_a_name_that_is_no_domain_name_is_quoted_on_its_way(client, control_plane):
    roles = Resource("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False, type=Object)
    name = f"system:{control_plane.namespace} a?b=c&d#e;f+g@ü.$"
    body = {"apiVersion": roles.api_version, "kind": "ClusterRole", "metadata": {"name": name}}

    created = await client.create(roles, body)
    try:
        assert created.metadata.name == name
        assert await client.get(roles, name) == created
        with pytest.raises(Invalid, match="may not contain '%'"):
            await client.create(roles, {**body, "metadata": {"name": "a%2Fb"}})
    finally:
        await client.delete(roles, Key("", name))


async def test_a_pod_is_evicted_unless_that_is_only_tried(client, key, pod):
    await client.create(PODS, pod)

    await evict(client, key, dry_run=True)
    await evict(client.with_options(dry_run=True), key)
    await client.get(PODS, *reversed(key))
    await evict(client, key)

    with pytest.raises(NotFound):
        await client.get(PODS, *reversed(key))


async def test_a_token_of_a_service_account_can_be_had(client, key):
    accounts = Resource("", "v1", "ServiceAccount", "serviceaccounts", namespaced=True, type=Object)
    body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": key.name, "namespace": key.namespace}}
    await client.create(accounts, body)

    given = await request_token(client, key, lasts_s=600)

    assert given.status.token.count(".") == 2
    assert given.status.expiration_timestamp is not None


async def test_a_container_to_look_around_is_added_to_a_pod(client, key, pod):
    await client.create(PODS, pod)
    debugger = {"spec": {"ephemeralContainers": [{"name": "look", "image": "none"}]}}

    await client.patch(PODS, key, debugger, type=PatchType.STRATEGIC, subresource="ephemeralcontainers")

    stored = await client.get(untyped(PODS), *reversed(key))
    assert [each["name"] for each in stored["spec"]["ephemeralContainers"]] == ["look"]


async def test_an_object_of_a_megabyte_can_be_written_listed_and_patched(client, control_plane, config_map, key):
    value = "\n" * 450_000 + "x" * 100_000  # each newline is two bytes on the wire

    created = await client.create(CONFIG_MAPS, config_map("c", {"k": value}))
    patched = await client.patch(CONFIG_MAPS, key, {"data": {"more": "1"}})
    listed = await client.list(CONFIG_MAPS, key.namespace, field_selector="metadata.name=c")

    assert created.data == {"k": value}
    assert listed.items == [patched]


async def test_json_patches_move_copy_and_test(client, config_map, key):
    await client.create(CONFIG_MAPS, config_map("c", {"a": "1", "c": "2"}))
    operations = [
        {"op": "test", "path": "/data/a", "value": "1"},
        {"op": "move", "from": "/data/a", "path": "/data/d"},
        {"op": "copy", "from": "/data/c", "path": "/data/e"},
        {"op": "replace", "path": "/data/c", "value": "3"},
    ]

    edited = await client.patch(CONFIG_MAPS, key, operations, type=PatchType.JSON)

    assert edited.data == {"c": "3", "d": "1", "e": "2"}


WIDGETS = Resource("example.dev", "v1", "Widget", "widgets", namespaced=True, type=Object)


def _is_established(found):
    conditions = (found or {}).get("status", {}).get("conditions") or ()  # null at first
    return any((each["type"], each["status"]) == ("Established", "True") for each in conditions)


@pytest.fixture
async def widgets(client, control_plane):
    """A custom kind with a size."""
    subresources = {
        "status": {},
        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
    }
    body = definition(WIDGETS, names={"shortNames": ["wi"]}, subresources=subresources)
    definitions = untyped(CUSTOM_RESOURCE_DEFINITIONS)
    await client.create(definitions, body)
    await control_plane.wait_for(definitions, "widgets.example.dev", _is_established)
    yield WIDGETS
    await client.delete(definitions, Key("", "widgets.example.dev"))
    await control_plane.wait_for(definitions, "widgets.example.dev", lambda found: found is None)


async def test_anything_with_a_size_can_be_scaled(client, control_plane, widgets, key):
    body = {"apiVersion": "example.dev/v1", "kind": "Widget", "metadata": {"name": "c", "namespace": key.namespace}}
    # It is served a moment after it is established.
    created = await until(lambda: client.create(widgets, body | {"spec": {"replicas": 1}}), despite=NotFound)

    assert (await read_scale(client, widgets, key)).spec.replicas == 1
    with recording() as writes:
        scaled = await scale(client, widgets, key, 3)

    assert (scaled.kind, scaled.spec.replicas) == ("Scale", 3)
    stored = await client.get(untyped(widgets), *reversed(key))
    assert stored["spec"]["replicas"] == 3
    assert [(w.plural, w.uid, str(w.version)) for w in writes] == [
        ("widgets", created.metadata.uid, stored["metadata"]["resourceVersion"])
    ]
