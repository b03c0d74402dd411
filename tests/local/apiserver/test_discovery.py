"""Discovery documents, from a few served resources."""

import json

import pytest

from ktrain.local.apiserver.documents import discovery
from ktrain.local.apiserver.errors import PageNotFound, StatusError
from ktrain.local.apiserver.registry import Scale, ServedResource
from ktrain.local.apiserver.requests import Request
from ktrain.local.apiserver.strategy import Strategy

VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


def served(group, version, kind, plural, **fields):
    return ServedResource(group, version, kind, plural, namespaced=True, strategy=Strategy(), **fields)


WIDGETS = served(
    "ex.test", "v1", "Widget", "widgets", singular="widget", short_names=("wd",), categories=("all", "exs"),
    has_status=True, scale=Scale(("spec", "replicas"), ("status", "replicas")),
)  # fmt: skip
PODS = served("", "v1", "Pod", "pods", has_status=True, subresources={"log": ("get",), "binding": ("create",)})
RESOURCES = [PODS, served("ex.test", "v1beta1", "Widget", "widgets"), WIDGETS]


def ask(path, **headers):
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return discovery.answer(RESOURCES, Request("GET", path, headers=headers), path.strip("/").split("/"))


def read(path, **headers):
    return json.loads(ask(path, **headers).body)


@pytest.mark.parametrize("accept", [discovery.AGGREGATED, f"application/json;q=0.1, {discovery.AGGREGATED}"])
def test_aggregated_discovery_has_its_own_content_type(accept):
    answer = ask("/apis", accept=accept)

    assert dict(answer.headers)["content-type"] == discovery.AGGREGATED
    assert json.loads(answer.body)["kind"] == "APIGroupDiscoveryList"


def test_aggregated_resources():
    (group,) = read("/apis", accept=discovery.AGGREGATED)["items"]
    assert group["metadata"] == {"name": "ex.test"}
    assert [version["version"] for version in group["versions"]] == ["v1", "v1beta1"]

    kind = {"group": "ex.test", "version": "v1", "kind": "Widget"}
    assert group["versions"][0] == {
        "version": "v1",
        "freshness": "Current",
        "resources": [
            {
                "resource": "widgets",
                "responseKind": kind,
                "scope": "Namespaced",
                "singularResource": "widget",
                "verbs": VERBS,
                "shortNames": ["wd"],
                "categories": ["all", "exs"],
                "subresources": [
                    {
                        "subresource": "scale",
                        "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
                        "verbs": ["get", "patch", "update"],
                    },
                    {"subresource": "status", "responseKind": kind, "verbs": ["get", "patch", "update"]},
                ],
            }
        ],
    }


def test_the_core_group_has_no_name():
    (group,) = read("/api", accept=discovery.AGGREGATED)["items"]

    assert group["metadata"] == {}
    assert group["versions"][0]["resources"][0]["resource"] == "pods"


def test_older_clients_get_plain_documents():
    beta = discovery.AGGREGATED.replace("v=v2", "v=v2beta1")

    assert read("/apis", accept=f"{beta},application/json")["groups"] == [
        {
            "name": "ex.test",
            "versions": [
                {"groupVersion": "ex.test/v1", "version": "v1"},
                {"groupVersion": "ex.test/v1beta1", "version": "v1beta1"},
            ],
            "preferredVersion": {"groupVersion": "ex.test/v1", "version": "v1"},
        }
    ]
    assert read("/apis/ex.test")["preferredVersion"]["version"] == "v1"
    assert read("/api", host="h:1")["serverAddressByClientCIDRs"][0]["serverAddress"] == "h:1"


def test_resource_lists_name_subresources():
    body = read("/apis/ex.test/v1")
    entries = {entry["name"]: entry for entry in body["resources"]}

    assert (body["kind"], body["groupVersion"]) == ("APIResourceList", "ex.test/v1")
    assert entries["widgets"]["shortNames"] == ["wd"]
    assert len(entries["widgets"]["storageVersionHash"]) == 12
    assert entries["widgets/status"]["singularName"] == ""
    assert (entries["widgets/scale"]["group"], entries["widgets/scale"]["kind"]) == ("autoscaling", "Scale")


def test_subresources_with_their_own_verbs_and_kinds():
    entries = {entry["name"]: entry for entry in read("/api/v1")["resources"]}

    assert (entries["pods/log"]["verbs"], entries["pods/log"]["kind"]) == (["get"], "Pod")
    assert (entries["pods/binding"]["verbs"], entries["pods/binding"]["kind"]) == (["create"], "Binding")


def test_unknown_groups_are_nowhere():
    with pytest.raises(PageNotFound):
        ask("/apis/nope")


@pytest.mark.parametrize("path", ["/apis/ex.test/v2", "/api/v2"])
def test_unknown_versions_of_built_in_groups_are_not_found(path):
    with pytest.raises(StatusError, match="could not find the requested resource"):
        ask(path)


def test_a_known_etag_saves_the_body():
    first = ask("/apis", accept=discovery.AGGREGATED)
    headers = dict(first.headers)
    again = ask("/apis", accept=discovery.AGGREGATED, if_none_match=headers["etag"])

    assert headers["etag"].startswith('"')
    assert headers["vary"] == "Accept"
    assert (again.status, again.body) == (304, b"")
    assert ask("/apis", if_none_match=headers["etag"]).status == 200, "the plain document is another one"


def test_versions_are_ordered_by_stability_then_number():
    versions = ["v1alpha1", "v2", "foo1", "v1", "v1beta1", "v11alpha2", "v10", "v3beta1", "v1beta2"]

    assert sorted(versions, key=discovery.version_rank, reverse=True) == [
        "v10", "v2", "v1", "v3beta1", "v1beta2", "v1beta1", "v11alpha2", "v1alpha1", "foo1",
    ]  # fmt: skip
