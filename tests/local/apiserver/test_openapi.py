"""OpenAPI v3 documents: the index, hashes, and what kubectl looks for inside."""

import json
import re

import pytest

from ktrain.local.apiserver import builtins, openapi
from ktrain.local.apiserver.errors import PageNotFound
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

    assert set(paths) == {base, base + "/{name}", base + "/{name}/status"}
    assert set(paths[base]) == {"get", "post"}


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


def test_no_document_offers_strategic_merge():
    assert b"strategic" not in ask("api/v1").body


def test_unknown_group_versions_are_nowhere():
    with pytest.raises(PageNotFound):
        ask("apis/nope/v1")
