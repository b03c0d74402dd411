"""What is answered to requests that are not quite right: methods, URLs, bodies, and what they accept."""

import pytest

MAPS = "/api/v1/namespaces/{ns}/configmaps"
NOT_ALLOWED = "the server does not allow this method on the requested resource"
NOT_THERE = "the server could not find the requested resource"
JSON_FORM = "application/json;as={form};v=v1;g=meta.k8s.io"

WRONG_METHODS = [
    ("PUT", MAPS),
    ("PATCH", MAPS),
    ("POST", f"{MAPS}/x"),
    ("POST", "/api/v1/configmaps"),
    ("DELETE", "/api/v1/configmaps"),
    ("DELETE", "/api/v1/namespaces"),
    ("GET", "/api/v1/namespaces/{ns}/finalize"),
    ("GET", "/api/v1/namespaces/{ns}/pods/x/binding"),
    ("POST", "/version"),
    ("POST", "/apis/batch/v1"),
]


@pytest.mark.parametrize(("method", "path"), WRONG_METHODS)
async def test_a_method_that_a_url_does_not_have_is_not_allowed(ask, method, path):
    said = await ask(method, path, {})

    assert (said.status, said.body["reason"], said.body["message"]) == (405, "MethodNotAllowed", NOT_ALLOWED)
    assert said.body["details"] == {}


@pytest.mark.parametrize(
    "path", ["/api/v1/namespaces/{ns}/nopes", "/api/v1/configmaps/x", "/apis/batch/v9/jobs", f"{MAPS}/x/status"]
)
async def test_a_url_of_a_built_in_group_that_leads_nowhere_is_answered_with_a_status(ask, path):
    said = await ask("GET", path)

    assert (said.status, said.body["message"], said.body["details"]) == (404, NOT_THERE, {})


async def test_a_put_says_in_its_body_what_it_puts(ask):
    await ask("POST", MAPS, {"metadata": {"name": "x"}})
    said = await ask("PUT", f"{MAPS}/x", {"metadata": {}})

    message = "the name of the object (x based on URL) was undeterminable: name must be provided"
    assert (said.status, said.body["message"]) == (400, message)


async def test_null_is_an_object_without_anything(ask, control_plane):
    path = MAPS.replace("{ns}", control_plane.namespace)
    answer = await control_plane.transport.request(
        "POST", path, headers={"Content-Type": "application/json"}, body=b"null"
    )

    assert answer.status == 422


async def test_times_in_metadata_are_times(ask):
    said = await ask("POST", MAPS, {"metadata": {"name": "x", "creationTimestamp": "noon"}})

    assert said.status == 400
    assert 'parsing time "noon" as "2006-01-02T15:04:05Z07:00": cannot parse "noon" as "2006"' in said.body["message"]


async def test_a_namespace_needs_a_name_and_ends_only_by_deletion(ask):
    nameless = await ask("POST", "/api/v1/namespaces", {})
    ended = await ask(
        "PATCH", "/api/v1/namespaces/{ns}/status", {"status": {"phase": "Terminating"}}, "application/merge-patch+json"
    )

    assert nameless.causes == {("metadata.name", "Required value: name or generateName is required")}
    detail = "Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty"
    assert ended.causes == {("status.Phase", detail)}


async def test_a_form_that_does_not_fit_what_is_asked_for_is_not_acceptable(ask):
    await ask("POST", MAPS, {"metadata": {"name": "x"}})
    of_list = await ask("GET", MAPS, accept=JSON_FORM.format(form="PartialObjectMetadata"))
    of_object = await ask("GET", f"{MAPS}/x", accept=JSON_FORM.format(form="PartialObjectMetadataList"))
    unknown = await ask("GET", f"{MAPS}/x", accept="application/json;as=Table;v=v2;g=meta.k8s.io")
    html = await ask("GET", f"{MAPS}/x", accept="text/html")

    assert {said.status for said in (of_list, of_object, unknown, html)} == {406}
    assert of_list.body["message"] == (
        "you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)"
    )
    assert of_object.body["message"] == (
        "you requested PartialObjectMetadataList, but the requested object is not a list (*core.ConfigMap)"
    )
    assert unknown.body["message"].startswith("only the following media types are accepted: ")
    assert html.body["message"].startswith("406: Not Acceptable\n\nAvailable representations: application/json, ")


async def test_an_amount_that_is_none_is_found_while_decoding(ask):
    body = {"metadata": {"name": "x"}, "spec": {"hard": {"cpu": "much"}}}
    said = await ask("POST", "/api/v1/namespaces/{ns}/resourcequotas?dryRun=All", body)

    assert said.status == 400
    assert "quantities must match the regular expression" in said.body["message"]
