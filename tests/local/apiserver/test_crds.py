"""The life of custom kinds."""

from __future__ import annotations

import time

import pytest

URL = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def test_a_kind_is_served_when_its_definition_is_accepted(api):
    path = api.path("widgets", api="ex.test/v1")
    assert (await api.send("GET", path)).status == 404

    made = (await api.send("POST", URL, api.widget_crd())).body

    conditions = {c["type"]: (c["status"], c["reason"]) for c in made["status"]["conditions"]}
    assert conditions == {
        "NamesAccepted": ("True", "NoConflicts"),
        "Established": ("True", "InitialNamesAccepted"),
    }
    assert made["status"]["storedVersions"] == ["v1"]
    assert (await api.send("GET", path)).status == 200


async def test_names_that_another_definition_has_are_not_accepted(api):
    await api.send("POST", URL, api.widget_crd())
    other = api.widget_crd()
    other["metadata"]["name"] = "gadgets.ex.test"
    other["spec"]["names"] = {"plural": "gadgets", "singular": "gadget", "kind": "Widget"}

    made = (await api.send("POST", URL, other)).body

    assert made["status"]["conditions"][0]["reason"] == "KindConflict"
    assert (await api.send("GET", api.path("gadgets", api="ex.test/v1"))).status == 404


async def test_a_definition_that_is_not_structural_is_refused(api):
    answer = await api.send("POST", URL, api.widget_crd({"type": "object", "properties": {"f": {"description": "?"}}}))

    assert answer.status == 422
    assert answer.body["details"]["causes"][0]["field"].endswith("properties[f].type")


async def test_scope_and_stored_versions_stay(api):
    await api.send("POST", URL, api.widget_crd())
    path = f"{URL}/widgets.ex.test"

    scope = await api.send("PATCH", path, {"spec": {"scope": "Cluster"}}, api.MERGE)
    versions = [{**api.widget_crd()["spec"]["versions"][0], "name": "v2"}]
    dropped = await api.send("PATCH", path, {"spec": {"versions": versions}}, api.MERGE)

    assert [c["field"] for c in scope.body["details"]["causes"]] == ["spec.scope"]
    assert [c["field"] for c in dropped.body["details"]["causes"]] == ["status.storedVersions[0]"]


async def test_a_changed_schema_changes_what_readers_see_without_a_write(api):
    await api.send("POST", URL, api.widget_crd({"type": "object", "properties": {"a": {"type": "string"}}}))
    old = await api.create("widgets", api.widget("w", {"a": "1", "b": "lost"}), api="ex.test/v1")
    properties = {"a": {"type": "string"}, "b": {"type": "string", "default": "B"}}
    versions = api.widget_crd({"type": "object", "properties": properties})["spec"]["versions"]
    await api.send("PATCH", f"{URL}/widgets.ex.test", {"spec": {"versions": versions}}, api.MERGE)

    now = (await api.send("GET", api.path("widgets", "w", api="ex.test/v1"))).body

    assert now["spec"] == {"a": "1", "b": "B"}
    assert now["metadata"]["resourceVersion"] == old["metadata"]["resourceVersion"]


async def test_two_versions_show_one_object(api):
    crd = api.widget_crd()
    second = {**crd["spec"]["versions"][0], "name": "v2", "storage": False, "deprecated": True}
    crd["spec"]["versions"].append(second)
    await api.send("POST", URL, crd)
    await api.create("widgets", api.widget("w", {}), api="ex.test/v1")

    answer = await api.send("GET", api.path("widgets", "w", api="ex.test/v2"))

    assert answer.body["apiVersion"] == "ex.test/v2"
    assert "ex.test/v2 Widget is deprecated" in answer.warnings


async def test_a_definition_goes_after_its_objects_and_ends_their_watches(api):
    await api.send("POST", URL, api.widget_crd())
    path = api.path("widgets", api="ex.test/v1")
    made = await api.create("widgets", api.widget("w", {}, finalizers=["a/b"]), api="ex.test/v1")
    async with api.watch(path, resourceVersion=made["metadata"]["resourceVersion"]) as events:
        held = (await api.send("DELETE", f"{URL}/widgets.ex.test")).body
        assert held["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
        assert (await anext(events))["type"] == "MODIFIED"
        assert (await api.send("POST", path, api.widget("new", {}))).status == 403

        await api.send("PATCH", f"{path}/w", {"metadata": {"finalizers": None}}, api.MERGE)
        assert [event["type"] async for event in events] == ["DELETED"]

    await api.gone(f"{URL}/widgets.ex.test")
    assert (await api.send("GET", path)).body == b"404 page not found\n"


async def test_servers_share_the_compiled_schemas_of_the_definitions_they_start_with(api, server, env):
    crd = api.widget_crd()
    server.install_crds([crd])
    other = type(server)(env, crds=[crd])

    await api.create("widgets", api.widget("w", {}), api="ex.test/v1")
    await type(api)(other.transport()).create("widgets", api.widget("w", {}), api="ex.test/v1")

    assert _schema(server) is _schema(other)


def _schema(server):
    ((_, item),) = server.store.collection("widgets.ex.test").entries()
    return item.schema.root


async def test_rules_that_would_take_too_long_are_stopped(api):
    numbers = {"type": "array", "maxItems": 500, "items": {"type": "integer"}}
    rule = {"rule": "self.all(x, self.all(y, self.all(z, x + y + z > 0)))", "message": "all positive"}
    spec = {"type": "object", "properties": {"l": numbers | {"x-kubernetes-validations": [rule]}}}
    assert (await api.send("POST", URL, api.widget_crd(spec))).status == 201
    begun = time.monotonic()
    answer = await api.send("POST", api.path("widgets", api="ex.test/v1"), api.widget("a", {"l": [1] * 500}))
    assert time.monotonic() - begun < 5
    assert (answer.status, [one["field"] for one in answer.body["details"]["causes"]]) == (422, ["spec.l"])
    assert "no further validation rules will be run due to call cost exceeds limit" in answer.body["message"]


ODD = {
    "allOf": [0, "a", {}, [0], ["a"], [[]]],
    "properties": ["a", 0, [], {"a": 0}, {"k": "a"}],
    "pattern": [0, {}],
    "required": [0, "a", [0]],
    "not": [0, "a"],
    "type": [{}, 0, []],
    "x-kubernetes-validations": [0, [0], [{"rule": 0}]],
    "x-kubernetes-list-map-keys": [0, [{}]],
    "maxItems": ["a"],
    "enum": [0],
}
NULLS = {
    name: [None, *more]
    for name, more in {
        "allOf": [[None]], "properties": [{"a": None}], "pattern": [], "required": [[None]], "not": [], "type": [],
        "x-kubernetes-validations": [[None], [{"rule": "true", "message": None}]], "items": [], "enum": [],
    }.items()
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("place", ["items", "additionalProperties", "not", "deep"])
async def test_a_schema_is_of_the_right_shape_however_deep_it_is(api, name, place):
    for value in ODD[name]:
        item = {"type": "object", "properties": {"k": {"type": "string"}}, "required": ["k"], name: value}
        answer = await api.send("POST", URL, api.widget_crd(around(item, place)))

        assert answer.status in {400, 422}, (value, answer)


@pytest.mark.parametrize("name", NULLS)
@pytest.mark.parametrize("place", ["items", "additionalProperties", "deep"])
async def test_nulls_in_a_schema_are_as_good_as_nothing(api, name, place):
    for value in NULLS[name]:
        item = {"type": "object", "properties": {"k": {"type": "string"}}, "required": ["k"], name: value}
        answer = await api.send("POST", URL, api.widget_crd(around(item, place)), dryRun="All")

        assert answer.status in {201, 400, 422}, (value, answer)


def around(item, place):
    if place == "items":
        keys = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
        field = {"type": "array", "items": item, **keys}
    elif place == "deep":
        field = {"type": "array", "items": {"type": "array", "items": item}}
    else:
        field = {"type": "object", place: item}
    return {"type": "object", "properties": {"f": field}}
