"""Create, update, patch and apply: what the server sets, keeps, refuses, and leaves alone."""

from __future__ import annotations

import pytest


async def test_the_server_owns_uid_time_version_and_generation(api, server):
    server.install_crds([api.widget_crd()])
    sent = api.widget("a", {}, uid="mine", generation=7, selfLink="/x", creationTimestamp="2000-01-01T00:00:00Z")

    meta = (await api.create("widgets", sent, api="ex.test/v1"))["metadata"]

    assert meta["uid"] != "mine"
    assert meta["generation"] == 1
    assert not meta["creationTimestamp"].startswith("2000")
    assert meta["resourceVersion"] == str(server.store.revision)
    assert "selfLink" not in meta


async def test_custom_objects_are_pruned_defaulted_and_validated(api, server):
    server.install_crds([api.widget_crd()])
    path = api.path("widgets", api="ex.test/v1")

    answer = await api.send("POST", path, api.widget("a", {"unknown": 1}))
    assert answer.status == 201
    assert answer.body["spec"] == {"mode": "A", "replicas": 1}
    assert 'unknown field \\"spec.unknown\\"' in answer.warnings

    strict = await api.send("POST", path, api.widget("b", {"unknown": 1}), fieldValidation="Strict")
    assert strict.status == 400
    assert strict.body["message"].endswith('strict decoding error: unknown field "spec.unknown"')

    invalid = await api.send("POST", path, api.widget("b", {"mode": "C"}))
    assert (invalid.status, invalid.body["reason"]) == (422, "Invalid")
    assert invalid.body["details"]["causes"][0]["field"] == "spec.mode"


async def test_a_write_that_changes_nothing_stores_nothing(api, server):
    before = await api.create("configmaps", api.config_map("a"))
    revision = server.store.revision

    put = await api.send("PUT", api.path("configmaps", "a"), before)
    patched = await api.send("PATCH", api.path("configmaps", "a"), {"data": {"k": "v"}}, api.MERGE)

    assert put.body == patched.body == before
    assert server.store.revision == revision


async def test_a_stale_version_is_a_conflict_and_a_patch_without_one_never_is(api):
    before = await api.create("configmaps", api.config_map("a"))
    path = api.path("configmaps", "a")
    await api.send("PATCH", path, {"data": {"k": "w"}}, api.MERGE)

    stale = await api.send("PUT", path, {**before, "data": {"k": "x"}})
    assert (stale.status, stale.body["reason"]) == (409, "Conflict")
    assert (await api.send("PATCH", path, {"data": {"k": "x"}}, api.MERGE)).status == 200


async def test_custom_objects_cannot_be_put_without_a_version(api, server):
    server.install_crds([api.widget_crd()])
    await api.create("widgets", api.widget("a", {}), api="ex.test/v1")

    answer = await api.send("PUT", api.path("widgets", "a", api="ex.test/v1"), api.widget("a", {}))

    assert answer.status == 422
    assert answer.body["message"] == (
        'widgets.ex.test "a" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update'
    )


async def test_status_is_written_through_its_own_url_only(api, server):
    server.install_crds([api.widget_crd()])
    made = await api.create("widgets", {**api.widget("a", {}), "status": {"phase": "x"}}, api="ex.test/v1")
    assert "status" not in made
    path = api.path("widgets", "a", api="ex.test/v1")

    main = await api.send("PATCH", path, {"status": {"phase": "x"}}, api.MERGE)
    assert "status" not in main.body

    status = await api.send("PATCH", path + "/status", {"status": {"phase": "x"}, "spec": {"mode": "B"}}, api.MERGE)
    assert status.body["status"] == {"phase": "x"}
    assert status.body["spec"]["mode"] == "A"
    assert status.body["metadata"]["generation"] == 1


async def test_generation_counts_changes_of_the_spec_only(api, server):
    server.install_crds([api.widget_crd()])
    await api.create("widgets", api.widget("a", {}), api="ex.test/v1")
    path = api.path("widgets", "a", api="ex.test/v1")

    labelled = await api.send("PATCH", path, {"metadata": {"labels": {"x": "y"}}}, api.MERGE)
    changed = await api.send("PATCH", path, {"spec": {"image": "i"}}, api.MERGE)

    assert labelled.body["metadata"]["generation"] == 1
    assert changed.body["metadata"]["generation"] == 2


async def test_apply_creates_merges_and_reports_conflicts(api):
    path = api.path("configmaps", "a")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "1"}}

    created = await api.send("PATCH", path, body, api.APPLY, fieldManager="one")
    again = await api.send("PATCH", path, body, api.APPLY, fieldManager="one")
    conflict = await api.send("PATCH", path, {**body, "data": {"k": "2"}}, api.APPLY, fieldManager="two")
    forced = await api.send("PATCH", path, {**body, "data": {"k": "2"}}, api.APPLY, fieldManager="two", force="true")

    assert (created.status, again.status) == (201, 200)
    assert again.body == created.body
    assert conflict.status == 409
    assert conflict.body["details"]["causes"][0]["field"] == ".data.k"
    assert forced.body["data"] == {"k": "2"}


async def test_apply_needs_a_field_manager(api):
    answer = await api.send("PATCH", api.path("configmaps", "a"), api.config_map("a"), api.APPLY)

    assert answer.status == 422
    assert "fieldManager: Required value" in answer.body["message"]


async def test_a_generated_name_is_unique_and_valid(api):
    made = {
        (await api.create("configmaps", {"metadata": {"generateName": "x-"}}))["metadata"]["name"] for _ in range(9)
    }

    assert len(made) == 9
    assert all(len(name) == 7 and name.startswith("x-") for name in made)


async def test_a_taken_name_and_a_missing_namespace_are_refused(api):
    await api.create("configmaps", api.config_map("a"))

    taken = await api.send("POST", api.path("configmaps"), api.config_map("a"))
    homeless = await api.send("POST", "/api/v1/namespaces/nope/configmaps", api.config_map("a"))

    assert (taken.status, taken.body["reason"]) == (409, "AlreadyExists")
    assert (homeless.status, homeless.body["details"]["kind"]) == (404, "namespaces")


async def test_dry_run_answers_and_stores_nothing(api, server):
    revision = server.store.revision

    answer = await api.send("POST", api.path("configmaps"), api.config_map("a"), dryRun="All")

    assert answer.status == 201
    assert answer.body["metadata"]["uid"]
    assert "resourceVersion" not in answer.body["metadata"]
    assert server.store.revision == revision


@pytest.mark.parametrize(
    ("body", "status"),
    [(b'{"a":', 400), (b"[]", 400), (b"null", 422), (b'{"metadata":{"labels":{"a":0}}}', 400), (b"{}", 422)],
)
async def test_bodies_that_are_no_object_are_refused(api, body, status):
    assert (await api.send("POST", api.path("configmaps"), body)).status == status


async def test_duplicate_keys_are_named(api):
    body = b'{"metadata":{"name":"a"},"data":{"k":"1","k":"2"}}'

    warned = await api.send("POST", api.path("configmaps"), body)
    refused = await api.send("POST", api.path("configmaps"), body, fieldValidation="Strict")

    assert warned.body["data"] == {"k": "2"}
    assert 'duplicate field \\"data.k\\"' in warned.warnings
    assert refused.status == 400


async def test_what_a_client_gets_cannot_change_what_is_stored(api):
    made = await api.create("configmaps", api.config_map("a"))
    made["data"]["k"] = "changed by its reader"

    assert (await api.send("GET", api.path("configmaps", "a"))).body["data"] == {"k": "v"}


async def test_the_scale_subresource_shows_and_sets_replicas(api, server):
    paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    server.install_crds([api.widget_crd(subresources={"status": {}, "scale": paths})])
    await api.create("widgets", api.widget("a", {"replicas": 2}), api="ex.test/v1")
    path = api.path("widgets", "a", "scale", api="ex.test/v1")

    assert (await api.send("GET", path)).body["spec"] == {"replicas": 2}
    assert (await api.send("PATCH", path, {"spec": {"replicas": 5}}, api.MERGE)).body["spec"] == {"replicas": 5}
    assert (await api.send("PATCH", path, {"spec": {"replicas": -1}}, api.MERGE)).status == 422
    widget_now = (await api.send("GET", path.removesuffix("/scale"))).body
    assert widget_now["spec"]["replicas"] == 5
    assert widget_now["metadata"]["generation"] == 2
