"""Lists, paging and selectors."""

from __future__ import annotations

import pytest


@pytest.fixture
async def six(api):
    for i in range(1, 7):
        await api.create("configmaps", api.config_map(f"w{i}", labels={"i": str(i), "grp": "t"}))
    return api.path("configmaps")


def names(answer):
    return [item["metadata"]["name"] for item in answer.body["items"]]


async def test_an_empty_list_is_a_list_at_the_newest_version(api, server):
    answer = await api.send("GET", api.path("configmaps"))

    assert answer.body["items"] == []
    assert answer.body["metadata"]["resourceVersion"] == str(server.store.revision)


async def test_items_of_custom_lists_carry_their_type_and_those_of_builtin_lists_do_not(api, server, six):
    server.install_crds([api.widget_crd()])
    await api.create("widgets", api.widget("a", {}), api="ex.test/v1")

    assert "kind" not in (await api.send("GET", six)).body["items"][0]
    custom = (await api.send("GET", api.path("widgets", api="ex.test/v1"))).body
    assert (custom["kind"], custom["items"][0]["kind"]) == ("WidgetList", "Widget")


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ({"labelSelector": "i=2"}, ["w2"]),
        ({"labelSelector": "i in (1,2),grp"}, ["w1", "w2"]),
        ({"labelSelector": "i notin (1,2,3,4)"}, ["w5", "w6"]),
        ({"fieldSelector": "metadata.name!=w1"}, ["w2", "w3", "w4", "w5", "w6"]),
    ],
)
async def test_selectors(api, six, query, wanted):
    assert names(await api.send("GET", six, **query)) == wanted


async def test_a_field_nobody_selects_by_is_refused(api, six):
    answer = await api.send("GET", six, fieldSelector="spec.foo=x")

    assert answer.status == 400
    assert "is not a known field selector" in answer.body["message"]


async def test_pages_show_one_version(api, six):
    first = await api.send("GET", six, limit="2")
    assert names(first) == ["w1", "w2"]
    assert first.body["metadata"]["remainingItemCount"] == 4
    await api.send("DELETE", f"{six}/w3")
    await api.create("configmaps", api.config_map("w35"))

    rest = await api.send("GET", six, limit="100", **{"continue": first.body["metadata"]["continue"]})

    assert names(rest) == ["w3", "w4", "w5", "w6"]
    assert rest.body["metadata"]["resourceVersion"] == first.body["metadata"]["resourceVersion"]


async def test_a_page_of_a_forgotten_version_is_410_with_a_token_that_goes_on(api, server, six):
    first = await api.send("GET", six, limit="2")
    await api.create("configmaps", api.config_map("w7"))
    server.compact(server.store.revision)

    gone = await api.send("GET", six, **{"continue": first.body["metadata"]["continue"]})
    assert (gone.status, gone.body["reason"]) == (410, "Expired")

    rest = await api.send("GET", six, **{"continue": gone.body["metadata"]["continue"]})
    assert names(rest) == ["w3", "w4", "w5", "w6", "w7"]


async def test_an_exact_version_shows_the_past(api, six):
    then = (await api.send("GET", six)).body["metadata"]["resourceVersion"]
    await api.send("DELETE", f"{six}/w1")

    exact = await api.send("GET", six, resourceVersion=then, resourceVersionMatch="Exact")
    legacy = await api.send("GET", six, resourceVersion=then, limit="2")
    newest = await api.send("GET", six, resourceVersion=then)

    assert names(exact)[0] == "w1"
    assert names(legacy) == ["w1", "w2"]
    assert names(newest)[0] == "w2"


async def test_unknown_resources_are_plain_404_and_unknown_names_a_status(api, six):
    assert (await api.send("GET", "/apis/no.such/v1/things")).body == b"404 page not found\n"
    missing = await api.send("GET", f"{six}/nope")
    assert (missing.status, missing.body["message"]) == (404, 'configmaps "nope" not found')


NO_DIGITS = "\u00b2"  # str.isdigit() says it is one
TOO_MANY_DIGITS = "9" * 5000  # int() refuses them


@pytest.mark.parametrize("text", [NO_DIGITS, TOO_MANY_DIGITS, "-1", "x"])
async def test_what_is_no_number_is_told_in_the_words_of_a_real_server(api, six, text):
    problem = "value out of range" if text is TOO_MANY_DIGITS else "invalid syntax"
    unsigned = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": {problem}'

    listed = await api.send("GET", six, resourceVersion=text)
    watched = await api.send("GET", six, resourceVersion=text, watch="1")
    got = await api.send("GET", f"{six}/w1", resourceVersion=text)
    put = await api.send("PUT", f"{six}/w1", {"metadata": {"name": "w1", "resourceVersion": text}})

    assert (listed.status, listed.body["message"]) == (400, f"invalid resource version: {unsigned}")
    assert (watched.status, watched.body["message"]) == (500, unsigned)
    assert (got.status, got.body["message"]) == (500, unsigned)
    assert (put.status, put.body["message"]) == (500, f'strconv.ParseUint: parsing "{text}": {problem}')


@pytest.mark.parametrize("text", [NO_DIGITS, TOO_MANY_DIGITS, "1.0"])
async def test_a_parameter_that_is_no_number_is_a_bad_request(api, six, text):
    problem = "value out of range" if text is TOO_MANY_DIGITS else "invalid syntax"
    for query in ({"limit": text}, {"watch": "1", "timeoutSeconds": text}):
        answer = await api.send("GET", six, **query)
        assert (answer.status, answer.body["message"]) == (400, f'strconv.ParseInt: parsing "{text}": {problem}')


async def test_numbers_may_be_as_large_as_64_bits_and_have_leading_zeros(api, six):
    assert (await api.send("GET", six, limit=str(2**63 - 1))).status == 200
    assert (await api.send("GET", six, limit=str(2**63))).status == 400
    assert (await api.send("GET", six, limit=str(-(2**63)))).status == 200
    assert names(await api.send("GET", six, limit="+" + "0" * 100 + "2")) == ["w1", "w2"]
