"""The seam for admission plugins."""

from __future__ import annotations

import pytest

from ktrain.local.apiserver.admission.chain import AdmissionPlugin, AdmissionRequest, AdmissionResponse
from ktrain.local.apiserver.errors import StatusError
from ktrain.local.apiserver.server import ApiServer


@pytest.fixture
def seen():
    return []


@pytest.fixture
def server(env, seen):
    def add_label(request: AdmissionRequest) -> AdmissionResponse | None:
        seen.append(("mutating", request.operation, request.name, request.user.name))
        if request.object is None or request.resource.plural != "configmaps":
            return None
        meta = {**request.object["metadata"], "labels": {"added": "yes"}}
        return AdmissionResponse({**request.object, "metadata": meta}, warnings=("labelled",))

    def refuse_secrets(request: AdmissionRequest) -> None:
        obj = request.object or request.old_object
        seen.append(("validating", request.operation, request.name, obj["metadata"].get("labels")))
        if "secret" in obj.get("data", {}):
            raise StatusError(403, "Forbidden", "no secrets here", warnings=("ask the vault",))

    plugins = [AdmissionPlugin("refuse", refuse_secrets), AdmissionPlugin("label", add_label, mutating=True)]
    return ApiServer(env, admission=plugins)


async def test_mutating_plugins_run_before_validating_ones_and_own_nothing(api, seen):
    answer = await api.send("POST", api.path("configmaps"), api.config_map("a"))

    assert seen == [
        ("mutating", "CREATE", "a", "system:admin"),
        ("validating", "CREATE", "a", {"added": "yes"}),
    ]
    assert answer.body["metadata"]["labels"] == {"added": "yes"}
    assert "labelled" in answer.warnings
    assert "f:labels" not in str(answer.body["metadata"]["managedFields"])


async def test_a_refusal_is_the_answer_with_its_warnings_and_nothing_is_stored(api, server):
    revision = server.store.revision

    answer = await api.send("POST", api.path("configmaps"), {"metadata": {"name": "a"}, "data": {"secret": "x"}})

    assert (answer.status, answer.body["message"]) == (403, "no secrets here")
    assert "ask the vault" in answer.warnings
    assert server.store.revision == revision


async def test_updates_and_deletions_are_seen_with_the_old_object(api, seen):
    await api.create("configmaps", api.config_map("a"))
    seen.clear()
    await api.send("PATCH", api.path("configmaps", "a"), {"data": {"x": "y"}}, api.MERGE)
    await api.send("DELETE", api.path("configmaps", "a"))

    assert [entry[:2] for entry in seen] == [("mutating", "UPDATE"), ("validating", "UPDATE"), ("validating", "DELETE")]


async def test_a_plugin_that_breaks_is_one_clients_500(env, api):
    def broken(request: AdmissionRequest) -> None:
        raise ZeroDivisionError("oops")

    server = ApiServer(env, admission=[AdmissionPlugin("broken", broken)])
    other = type(api)(server.transport())

    answer = await other.send("POST", other.path("configmaps"), other.config_map("a"))

    assert (answer.status, answer.body["reason"]) == (500, "InternalError")
    assert (await other.send("GET", other.path("configmaps"))).status == 200


@pytest.mark.parametrize(("given", "said"), [({"list": None}, "Required value"), ({}, "must be of type array")])
async def test_a_null_is_nothing_in_a_request_and_a_value_that_admission_writes(env, api, given, said):
    def write(request: AdmissionRequest) -> AdmissionResponse | None:
        if request.resource.plural != "widgets" or given:
            return None
        return AdmissionResponse({**request.object, "spec": {"list": None}})

    listing = {"type": "object", "properties": {"list": {"type": "array", "items": {"type": "string"}}}}
    server = ApiServer(env, admission=[AdmissionPlugin("write", write, mutating=True)])
    server.install_crds([api.widget_crd({**listing, "required": ["list"]})])

    other = type(api)(server.transport())
    answer = await other.send("POST", other.path("widgets", api="ex.test/v1"), other.widget("w", given))

    assert (answer.status, said in answer.body["message"]) == (422, True), answer.body
