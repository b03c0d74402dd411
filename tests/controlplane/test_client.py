"""The client's verbs, and what each server makes of them."""

import pytest

from ktrain.api.core import CONFIG_MAPS, JOBS, untyped
from ktrain.api.trainer import TRAINING_RUNTIMES
from ktrain.framework import PatchType
from ktrain.framework.errors import AlreadyExists, ApplyConflict, Conflict, Invalid, NotFound

ANY_MAPS = untyped(CONFIG_MAPS)


async def test_what_was_created_can_be_read_and_listed_with_selectors(client, control_plane, config_map):
    namespace = control_plane.namespace
    created = await client.create(CONFIG_MAPS, config_map("a", {"k": "v"}, labels={"l": "1"}))
    await client.create(CONFIG_MAPS, config_map("b", labels={"l": "2"}))

    assert await client.get(CONFIG_MAPS, "a", namespace) == created
    assert created.data == {"k": "v"}
    labelled = await client.list(CONFIG_MAPS, namespace, label_selector="l in (2,3)")
    assert [item.metadata.name for item in labelled.items] == ["b"]
    named = await client.list(CONFIG_MAPS, namespace, field_selector="metadata.name=a")
    assert [created] == named.items


async def test_a_name_is_taken_once_and_what_is_gone_is_not_found(client, config_map, key):
    await client.create(CONFIG_MAPS, config_map("c"))

    with pytest.raises(AlreadyExists):
        await client.create(CONFIG_MAPS, config_map("c"))
    await client.delete(CONFIG_MAPS, key)
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAPS, key.name, key.namespace)
    with pytest.raises(NotFound):
        await client.delete(CONFIG_MAPS, key)


async def test_an_update_of_an_old_version_is_a_conflict(client, config_map, key):
    old = await client.create(ANY_MAPS, config_map("c"))
    await client.update(ANY_MAPS, {**old, "data": {"k": "1"}})

    with pytest.raises(Conflict):
        await client.update(ANY_MAPS, {**old, "data": {"k": "2"}})


async def test_a_write_that_changes_nothing_makes_no_version(client, config_map, key):
    created = await client.create(ANY_MAPS, config_map("c", {"k": "v"}))

    updated = await client.update(ANY_MAPS, created)
    patched = await client.patch(ANY_MAPS, key, {"data": {"k": "v"}})

    assert created["metadata"]["resourceVersion"] == updated["metadata"]["resourceVersion"]
    assert created["metadata"]["resourceVersion"] == patched["metadata"]["resourceVersion"]


async def test_merge_patches_remove_with_null_and_json_patches_test_first(client, config_map, key):
    await client.create(CONFIG_MAPS, config_map("c", {"a": "1", "b": "1"}))

    merged = await client.patch(CONFIG_MAPS, key, {"data": {"a": None, "c": "1"}})
    assert merged.data == {"b": "1", "c": "1"}

    operations = [{"op": "test", "path": "/data/b", "value": "1"}, {"op": "remove", "path": "/data/b"}]
    edited = await client.patch(CONFIG_MAPS, key, operations, type=PatchType.JSON)
    assert edited.data == {"c": "1"}
    with pytest.raises(Invalid):
        await client.patch(CONFIG_MAPS, key, operations, type=PatchType.JSON)


async def test_a_strategic_patch_merges_containers_by_name(client, key, pod_template):
    jobs = untyped(JOBS)
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": key.name, "namespace": key.namespace},
        "spec": {"suspend": True, "template": pod_template},
    }
    await client.create(jobs, body)

    containers = [{"name": "node", "resources": {"limits": {"cpu": "1"}}}]
    patch = {"spec": {"template": {"spec": {"containers": containers}}}}
    patched = await client.patch(jobs, key, patch, type=PatchType.STRATEGIC)

    (container,) = patched["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "none"
    assert container["resources"]["limits"] == {"cpu": "1"}


async def test_an_applier_owns_its_fields_until_it_leaves_them_out(client, config_map, key):
    await client.apply(CONFIG_MAPS, config_map("c", {"mine": "1", "also": "1"}))
    other = config_map("c", {"mine": "2"})

    with pytest.raises(ApplyConflict):
        await client.apply(CONFIG_MAPS, other, force=False, field_manager="other")
    taken = await client.apply(CONFIG_MAPS, other, field_manager="other")
    assert taken.data == {"mine": "2", "also": "1"}
    left = await client.apply(CONFIG_MAPS, config_map("c", {"new": "1"}))
    assert left.data == {"mine": "2", "new": "1"}


async def test_a_delete_can_be_for_one_object_only(client, config_map, key):
    created = await client.create(CONFIG_MAPS, config_map("c"))

    with pytest.raises(Conflict):
        await client.delete(CONFIG_MAPS, key, uid="another")
    with pytest.raises(Conflict):
        await client.delete(CONFIG_MAPS, key, resource_version="1")
    await client.delete(CONFIG_MAPS, key, uid=created.metadata.uid)


async def test_custom_objects_are_validated_by_their_schema(client, key):
    body = {
        "apiVersion": TRAINING_RUNTIMES.api_version,
        "kind": "TrainingRuntime",
        "metadata": {"name": key.name, "namespace": key.namespace},
        "spec": {"mlPolicy": {"numNodes": "two"}, "template": {"spec": {}}},
    }

    with pytest.raises(Invalid) as refused:
        await client.create(untyped(TRAINING_RUNTIMES), body)

    assert "spec.mlPolicy.numNodes" in [cause.field for cause in refused.value.status.details.causes]


async def test_a_status_patch_changes_nothing_but_the_status_and_only_of_that_object(client, key, pod_template):
    jobs = untyped(JOBS)
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": key.name, "namespace": key.namespace},
        "spec": {"suspend": True, "template": pod_template},
    }
    await client.create(jobs, body)
    condition = {"type": "ktrain.dev/Seen", "status": "True"}
    change = {"spec": {"suspend": False}, "status": {"conditions": [condition]}}

    patched = await client.patch(jobs, key, change, subresource="status")

    assert patched["spec"]["suspend"] is True
    assert condition["type"] in [each["type"] for each in patched["status"]["conditions"]]
    with pytest.raises(Invalid):
        await client.patch(jobs, key, {**change, "metadata": {"uid": "another"}}, subresource="status")


async def test_the_labels_that_tell_a_jobs_pods_apart_cannot_be_chosen(client, key, pod_template):
    """Each wrong one is named, with all labels as they would be."""
    labels = {"controller-uid": "mine", "batch.kubernetes.io/job-name": "mine"}
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": key.name, "namespace": key.namespace},
        "spec": {"suspend": True, "template": {"metadata": {"labels": labels}, **pod_template}},
    }

    with pytest.raises(Invalid) as refused:
        await client.create(untyped(JOBS), body)

    causes = refused.value.status.details.causes
    path = "spec.template.metadata.labels"
    assert [c.field for c in causes] == [f"{path}[controller-uid]", f"{path}[batch.kubernetes.io/job-name]"]
    shown = '"batch.kubernetes.io/job-name":"mine","controller-uid":"mine","job-name":"c"}: must be \'c\''
    assert causes[1].message.endswith(shown)
