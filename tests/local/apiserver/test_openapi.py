"""OpenAPI documents: the index, hashes, and what kubectl and other clients look for inside."""

import json
import re

import pytest

from ktrain.local.apiserver import builtins, openapi
from ktrain.local.apiserver.errors import PageNotFound, StatusError
from ktrain.local.apiserver.registry import ServedResource
from ktrain.local.apiserver.requests import Request
from ktrain.local.apiserver.strategy import Strategy

SPEC = {
    "type": "object",
    "description": "What is wanted.",
    "properties": {
        "ports": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port"],
            "items": {},
        },
        "amap": {"type": "object", "x-kubernetes-map-type": "atomic"},
    },
}


def widgets(spec=SPEC):
    schema = {"type": "object", "properties": {"metadata": {"type": "object"}, "spec": spec}}
    return ServedResource(
        "ex.test", "v1", "Widget", "widgets", namespaced=True, strategy=Strategy(), has_status=True, custom=True,
        json_schema=schema,
    )  # fmt: skip


RESOURCES = [*builtins.RESOURCES, widgets()]


def ask(path="", query=(), resources=RESOURCES):
    return openapi.answer(resources, Request("GET", "/", query=query), path.split("/") if path else [])


def read(path="", **options):
    return json.loads(ask(path, **options).body)


@pytest.fixture(scope="module")
def document():
    return read("apis/ex.test/v1")


def references(value):
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def test_the_index_names_each_group_version_with_its_hash():
    paths = read()["paths"]

    assert {"api/v1", "apis/batch/v1", "apis/ex.test/v1"} <= set(paths)
    url = paths["apis/ex.test/v1"]["serverRelativeURL"]
    assert re.fullmatch(r"/openapi/v3/apis/ex\.test/v1\?hash=[0-9A-F]+", url)


def test_the_right_hash_can_be_kept_and_a_wrong_one_leads_to_it():
    url = read()["paths"]["apis/ex.test/v1"]["serverRelativeURL"]
    current = ask("apis/ex.test/v1", [("hash", url.partition("=")[2])])
    wrong = ask("apis/ex.test/v1", [("hash", "00")])

    assert dict(current.headers)["cache-control"] == "public, immutable"
    assert (wrong.status, dict(wrong.headers)["location"]) == (301, url)


def test_the_hash_follows_the_schema():
    changed = {**SPEC, "description": "Something else."}

    assert read(resources=[widgets()]) == read(resources=[widgets()])
    assert read(resources=[widgets()]) != read(resources=[widgets(changed)])


def test_patch_operations_say_that_they_take_field_validation(document):
    patch = document["paths"]["/apis/ex.test/v1/namespaces/{namespace}/widgets/{name}"]["patch"]

    assert "fieldValidation" in [parameter["name"] for parameter in patch["parameters"]]
    assert patch["x-kubernetes-group-version-kind"] == {"group": "ex.test", "version": "v1", "kind": "Widget"}
    assert patch["x-kubernetes-action"] == "patch"


def test_paths_follow_verbs_and_subresources(document):
    paths = document["paths"]
    base = "/apis/ex.test/v1/namespaces/{namespace}/widgets"

    everywhere = "/apis/ex.test/v1/widgets"

    assert set(paths) == {everywhere, base, base + "/{name}", base + "/{name}/status"}
    assert set(paths[everywhere]) == {"get", "parameters"}
    assert set(paths[base]) == {"get", "post", "delete", "parameters"}
    assert set(paths[base + "/{name}/status"]) == {"get", "put", "patch", "parameters"}


def test_operations_are_named_as_upstream_names_them(document):
    def names(found):
        return {one["operationId"] for path in found.values() for key, one in path.items() if key != "parameters"}

    assert {
        "listExTestV1NamespacedWidget",
        "listExTestV1WidgetForAllNamespaces",
        "deleteExTestV1CollectionNamespacedWidget",
        "readExTestV1NamespacedWidgetStatus",
    } <= names(document["paths"])
    core = read("api/v1")["paths"]
    assert {"readCoreV1NamespacedPodLog", "createCoreV1NamespacedPodBinding", "readCoreV1Node"} <= names(core)
    assert "createRbacAuthorizationV1ClusterRole" in names(read("apis/rbac.authorization.k8s.io/v1")["paths"])


def test_custom_schemas_keep_everything_and_get_metadata(document):
    schema = document["components"]["schemas"]["test.ex.v1.Widget"]

    assert schema["properties"]["spec"] == SPEC
    assert schema["x-kubernetes-group-version-kind"] == [{"group": "ex.test", "version": "v1", "kind": "Widget"}]
    assert list(references(schema["properties"]["metadata"])) == [
        "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    ]


@pytest.mark.parametrize(
    ("path", "schema"),
    [
        ("api/v1", "io.k8s.api.core.v1.Pod"),
        ("apis/batch/v1", "io.k8s.api.batch.v1.Job"),
        (
            "apis/apiextensions.k8s.io/v1",
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
        ),
        ("apis/ex.test/v1", "test.ex.v1.Widget"),
    ],
)
def test_documents_are_complete(path, schema):
    schemas = read(path)["components"]["schemas"]

    assert schema in schemas
    assert {reference.rpartition("/")[2] for reference in references(schemas)} <= set(schemas)


def test_strategic_merge_is_offered_for_built_in_kinds_alone(document):
    def patch_types(found, path):
        return set(found["paths"][path]["patch"]["requestBody"]["content"])

    strategic = "application/strategic-merge-patch+json"
    assert strategic not in patch_types(document, "/apis/ex.test/v1/namespaces/{namespace}/widgets/{name}")
    assert strategic in patch_types(read("api/v1"), "/api/v1/namespaces/{namespace}/pods/{name}")


def test_built_in_fields_are_described():
    container = read("api/v1")["components"]["schemas"]["io.k8s.api.core.v1.Container"]

    assert container["description"].startswith("A single application container")
    assert container["properties"]["resources"] == {
        "description": container["properties"]["resources"]["description"],
        "allOf": [{"$ref": "#/components/schemas/io.k8s.api.core.v1.ResourceRequirements"}],
    }


def test_a_client_that_has_the_document_is_not_sent_it_again():
    etag = dict(ask("apis/ex.test/v1").headers)["etag"]
    again = openapi.answer(RESOURCES, Request("GET", "/", headers={"if-none-match": etag}), ["apis", "ex.test", "v1"])

    assert (again.status, again.body) == (304, b"")


async def swagger(resources=RESOURCES):
    answer = openapi.answer_v2(resources, Request("GET", "/openapi/v2"))
    return json.loads(b"".join([chunk async for chunk in answer.chunks]))


async def test_version_2_is_all_groups_in_one():
    found = await swagger()

    assert (found["swagger"], found["info"]["title"]) == ("2.0", "Kubernetes")
    assert {"io.k8s.api.core.v1.Pod", "io.k8s.api.batch.v1.Job", "test.ex.v1.Widget"} <= set(found["definitions"])
    assert {reference.rpartition("/")[2] for reference in references(found)} <= set(found["definitions"])
    patch = found["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
    assert "application/strategic-merge-patch+json" in patch["consumes"]
    assert patch["parameters"][0] == {
        "name": "body",
        "in": "body",
        "schema": {"$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.Patch"},
        "required": True,
    }


async def test_version_2_says_nothing_it_has_no_words_for():
    spec = {
        "type": "object",
        "properties": {
            "either": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            "maybe": {"type": "string", "nullable": True},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"a": {}}},
        },
    }

    found = (await swagger([widgets(spec)]))["definitions"]["test.ex.v1.Widget"]["properties"]["spec"]

    assert found["properties"] == {
        "either": {"x-kubernetes-int-or-string": True},
        "maybe": {},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    }


@pytest.mark.parametrize("path", ["v2", "v3"])
def test_media_types_that_no_document_has_are_refused(path):
    page = Request("GET", "/", headers={"accept": "text/html"})

    with pytest.raises(StatusError) as refusal:
        openapi.answer_v2(RESOURCES, page) if path == "v2" else openapi.answer(RESOURCES, page, ["api", "v1"])

    assert refusal.value.code == 406


def test_unknown_group_versions_are_nowhere():
    with pytest.raises(PageNotFound):
        ask("apis/nope/v1")
