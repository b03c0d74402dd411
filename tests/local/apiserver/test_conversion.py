"""Custom resources whose versions a webhook converts, here a function of this process."""

import pytest

from ktrain.api.meta import Resource

from ...definitions import definition

OLD, NEW = "sites.test/v1", "sites.test/v2"


def sites(storage="v2"):
    (other,) = {"v1", "v2"} - {storage}
    resource = Resource("sites.test", storage, "Site", "sites", namespaced=True, type=dict)
    client = {"service": {"namespace": "default", "name": "convert"}}
    conversion = {"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}}
    return definition(resource, others=(other,), conversion=conversion, subresources={"status": {}})


def convert(obj, wanted):
    spec = dict(obj["spec"])
    if wanted == NEW:
        spec["hosts"] = [spec.pop("host")]
    else:
        spec["host"] = spec.pop("hosts")[0]
    return {**obj, "apiVersion": wanted, "spec": spec}


class Converter:
    def __init__(self):
        self.asked, self.change = [], lambda response: response

    async def __call__(self, review):
        request = review["request"]
        self.asked.append(len(request["objects"]))
        converted = [convert(obj, request["desiredAPIVersion"]) for obj in request["objects"]]
        response = {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": converted}
        return {**review, "response": self.change(response)}


@pytest.fixture
async def converter(server, api):
    converter = Converter()
    server.webhook_addresses["default", "convert", 443] = converter
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert (await api.send("POST", path, sites())).status == 201
    return converter


def site(name, **spec):
    return {"apiVersion": OLD if "host" in spec else NEW, "kind": "Site", "metadata": {"name": name}, "spec": spec}


async def test_every_way_to_read_shows_the_version_asked_for(converter, api):
    made = await api.create("sites", site("a", host="x"), OLD)
    assert (made["apiVersion"], made["spec"]) == (OLD, {"host": "x"})
    new = (await api.send("GET", api.path("sites", "a", api=NEW))).body
    assert (new["apiVersion"], new["spec"]) == (NEW, {"hosts": ["x"]})
    listed = (await api.send("GET", api.path("sites", api=OLD))).body
    assert [(one["apiVersion"], one["spec"]) for one in listed["items"]] == [(OLD, {"host": "x"})]
    for version, spec in ((OLD, {"host": "x"}), (NEW, {"hosts": ["x"]})):
        (event,) = await api.events(api.path("sites", api=version), 1)
        assert (event["object"]["apiVersion"], event["object"]["spec"]) == (version, spec)


async def test_a_watch_shows_later_changes_converted(converter, api):
    async with api.watch(api.path("sites", api=OLD)) as events:
        await api.create("sites", site("a", hosts=["x"]), NEW)
        assert (await anext(events))["object"]["spec"] == {"host": "x"}
        await api.send("PATCH", api.path("sites", "a", api=NEW), {"spec": {"hosts": ["y"]}}, api.MERGE)
        assert (await anext(events))["object"]["spec"] == {"host": "y"}
        await api.send("DELETE", api.path("sites", "a", api=NEW))
        gone = await anext(events)
    assert (gone["type"], gone["object"]["spec"]) == ("DELETED", {"host": "y"})


async def test_objects_are_changed_through_each_version(converter, api):
    await api.create("sites", site("a", hosts=["x"]), NEW)
    patched = await api.send("PATCH", api.path("sites", "a", api=OLD), {"spec": {"host": "y"}}, api.MERGE)
    assert patched.body["spec"] == {"host": "y"}
    applied = await api.send(
        "PATCH", api.path("sites", "a", api=OLD), site("a", host="z"), api.APPLY, fieldManager="m", force="true"
    )
    assert applied.body["spec"] == {"host": "z"}
    status = await api.send("PATCH", api.path("sites", "a", "status", OLD), {"status": {"up": True}}, api.MERGE)
    assert status.body["status"] == {"up": True}
    assert (await api.send("GET", api.path("sites", "a", api=NEW))).body["spec"] == {"hosts": ["z"]}
    deleted = await api.send("DELETE", api.path("sites", "a", api=OLD))
    assert deleted.status == 200


async def test_a_list_is_converted_in_one_call_and_not_again(converter, api):
    for name in "abc":
        await api.create("sites", site(name, hosts=[name]), NEW)
    assert converter.asked == []
    for _ in range(3):
        await api.send("GET", api.path("sites", api=OLD))
    assert converter.asked == [3]


async def test_objects_stored_before_the_storage_version_changed_are_converted(converter, api):
    await api.create("sites", site("a", hosts=["x"]), NEW)
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/sites.sites.test"
    versions = sites("v1")["spec"]["versions"]
    changed = await api.send("PATCH", path, {"spec": {"versions": versions}}, api.MERGE)
    assert changed.body["status"]["storedVersions"] == ["v2", "v1"]
    await api.create("sites", site("b", hosts=["y"]), NEW)
    for version, specs in ((OLD, [{"host": "x"}, {"host": "y"}]), (NEW, [{"hosts": ["x"]}, {"hosts": ["y"]}])):
        listed = (await api.send("GET", api.path("sites", api=version))).body
        assert [one["spec"] for one in listed["items"]] == specs


ABOUT = "conversion webhook for sites.test/v2, Kind=Site "


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"result": {"status": "Failure", "message": "no host"}}, "failed: no host"),
        ({"result": {}}, "failed: response.result.status was '', not 'Success'"),
        ({"uid": "x"}, "failed: expected response.uid="),
        ({"convertedObjects": []}, "returned 0 objects, expected 1"),
        ({"convertedObjects": [3]}, "returned invalid object: it is no JSON object"),
        (
            {"convertedObjects": [{"apiVersion": OLD, "kind": "Other"}]},
            "returned invalid object: must have the same kind",
        ),
        (
            {"convertedObjects": [{"apiVersion": NEW, "kind": "Site"}]},
            "returned invalid object at index 0: invalid groupV",
        ),
        (
            {"convertedObjects": [{"apiVersion": OLD, "kind": "Site", "metadata": {"name": "b"}}]},
            "returned invalid object: must have the same name: a != b",
        ),
    ],
)
async def test_what_a_webhook_does_wrong_is_told_to_the_reader(converter, api, change, text):
    await api.create("sites", site("a", hosts=["x"]), NEW)
    converter.change = lambda response: response | change
    answer = await api.send("GET", api.path("sites", "a", api=OLD))
    assert answer.status == 500
    assert answer.body["message"].startswith(ABOUT + text)
    async with api.watch(api.path("sites", api=OLD)) as events:
        event = await anext(events)
    assert (event["type"], event["object"]["message"].startswith(ABOUT + text)) == ("ERROR", True)
    assert (await api.send("GET", api.path("sites", "a", api=NEW))).status == 200


async def test_a_webhook_changes_labels_and_annotations_and_no_other_metadata(converter, api):
    await api.create("sites", site("a", hosts=["x"]), NEW)

    def change(response):
        (obj,) = response["convertedObjects"]
        meta = {**obj["metadata"], "labels": {"a": "b"}, "finalizers": ["x/y"], "generation": 7}
        return {**response, "convertedObjects": [{**obj, "metadata": meta}]}

    converter.change = change
    meta = (await api.send("GET", api.path("sites", "a", api=OLD))).body["metadata"]
    assert (meta["labels"], meta["generation"], "finalizers" in meta) == ({"a": "b"}, 1, False)


async def test_a_definition_goes_with_its_objects_although_its_webhook_is_gone(converter, server, api):
    await api.create("sites", site("a", hosts=["x"]), NEW)
    del server.webhook_addresses["default", "convert", 443]
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/sites.sites.test"
    await api.send("DELETE", path)
    await api.gone(path)
