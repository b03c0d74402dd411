"""What chaos has found so far, each by itself."""

from __future__ import annotations

import pytest

JSON = "application/json"


async def test_a_body_with_an_empty_api_version_is_stored_under_its_kinds(api, server):
    made = await api.create("serviceaccounts", {"apiVersion": "", "kind": "", "metadata": {"name": "a"}})
    again = await api.send("PUT", api.path("serviceaccounts", "a"), made)

    assert (made["apiVersion"], made["kind"]) == ("v1", "ServiceAccount")
    assert again.body["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_a_namespace_without_a_name_is_invalid(api):
    refused = await api.send("POST", api.path("namespaces", cluster=True), {"metadata": {}})

    assert (refused.status, refused.body["reason"]) == (422, "Invalid")


@pytest.mark.parametrize("part", [{"metadata": 1.5}, {"metadata": "x"}, {"target": "x"}, {"target": [1]}])
async def test_a_binding_of_the_wrong_shape_is_a_bad_request(api, part):
    body = {"metadata": {"name": "p"}, "target": {"name": "n"}, **part}

    assert (await api.send("POST", api.path("bindings"), body)).status == 400
    assert (await api.send("POST", api.path("pods", "p", "binding"), body)).status == 400


async def test_a_budget_without_a_spec_is_counted(api):
    budgets = api.path("poddisruptionbudgets", api="policy/v1")
    made = await api.send("POST", budgets, {"metadata": {"name": "b"}})
    assert made.status == 201
    async with api.watch(budgets, resourceVersion=made.body["metadata"]["resourceVersion"]) as events:
        event = await anext(events)

    assert event["object"]["status"]["expectedPods"] == 0


async def test_a_limit_range_without_a_spec_limits_nothing(api):
    await api.create("limitranges", {"metadata": {"name": "l"}})
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}

    assert (await api.send("POST", api.path("pods"), pod, dryRun="All")).status == 201
