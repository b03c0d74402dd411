"""Calls whose answers come in pieces: watches that go on where they broke, and pages."""

import asyncio
from contextlib import aclosing

import msgspec
import pytest
import structlog

from ktrain.api.core import CONFIG_MAPS, PODS
from ktrain.framework.client.transport import Response
from ktrain.framework.errors import (
    DecodeError,
    Gone,
    ServerError,
    TooManyRequests,
    TransportError,
)

from .calling import STORED, call, refusal

# Watches and pages


def event(type_, version, **fields):
    return {"type": type_, "object": {"metadata": {"name": "a", "resourceVersion": version}, **fields}}


def test_a_watch_goes_on_from_the_last_version_when_its_connection_breaks(script):
    script.streams += [
        [event("ADDED", "3"), event("BOOKMARK", "5"), TransportError("cut")],
        (429, {"code": 429, "message": "busy"}),
        [event("MODIFIED", "6"), {"type": "ERROR", "object": {"code": 500, "message": "etcd"}}],
        [event("DELETED", "7")],
    ]

    async def use(client):
        seen = []
        async with aclosing(client.watch(CONFIG_MAPS, "ns", resource_version="1", label_selector="a=b")) as events:
            async for each in events:
                seen.append((each.type, each.resource_version))
                if len(seen) == 3:
                    break
        return seen

    assert call(script, use)[0] == [("ADDED", "3"), ("MODIFIED", "6"), ("DELETED", "7")]
    assert [each.query["resourceVersion"] for each in script.calls] == ["1", "5", "5", "6"]
    assert {each.query["labelSelector"] for each in script.calls} == {"a=b"}


def test_a_watch_that_is_refused_comes_back_when_the_header_says(script):
    script.streams += [
        (429, b"Too many requests, please try again later.", {"retry-after": "30"}),
        [event("ADDED", "3")],
    ]

    async def use(client):
        async with aclosing(client.watch(CONFIG_MAPS, "ns")) as events:
            await anext(events)

    assert 30 <= call(script, use)[1] <= 36


@pytest.mark.parametrize(("header", "asked_s"), [("7", 7), ("86400", 3600), ("soon", 0)])
def test_a_refusal_without_a_status_says_when_to_come_back_by_its_header(script, header, asked_s):
    script.answers.append((503, "away", {"retry-after": header}))
    script.streams.append((429, b"busy", {"retry-after": header}))

    async def use(client):
        with pytest.raises(ServerError) as away:
            await client.get(CONFIG_MAPS, "a", "ns")
        with pytest.raises(TooManyRequests) as busy:
            async with client.stream("/api/v1/configmaps"):
                pass
        return away.value.retry_after_s, busy.value.retry_after_s

    assert call(script, use)[0] == (asked_s, asked_s)


def test_a_watch_that_is_cut_in_the_middle_of_a_line_goes_on_from_the_line_before(script):
    torn = msgspec.json.encode(event("ADDED", "4"))[:-9]
    script.streams += [[event("ADDED", "3"), torn], [event("ADDED", "4")]]

    async def use(client):
        async with aclosing(client.watch(CONFIG_MAPS, "ns")) as events:
            return [(await anext(events)).resource_version for _ in range(2)]

    assert call(script, use)[0] == ["3", "4"]
    assert [each.query.get("resourceVersion") for each in script.calls] == [None, "3"]


def test_a_watch_of_a_server_that_ends_it_at_once_does_not_spin(script):
    script.streams += [[]] * 5

    async def use(client):
        async with asyncio.timeout(60), aclosing(client.watch(CONFIG_MAPS)) as events:
            await anext(events)

    with pytest.raises(TimeoutError):
        call(script, use)
    assert len(script.calls) <= 6


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ({"type": "ERROR", "object": {"code": 410, "message": "too old"}}, Gone),
        (event("ADDED", "2", data={"k": 1}), DecodeError),
    ],
)
def test_a_watch_ends_with_what_it_cannot_go_on_from(script, line, error):
    script.streams.append([line])

    async def use(client):
        with pytest.raises(error):
            await anext(client.watch(CONFIG_MAPS, resource_version="1"))

    call(script, use)


def test_bookmarks_come_to_those_who_want_them(script):
    script.streams.append([event("BOOKMARK", "5")])

    async def use(client):
        async with aclosing(client.watch(CONFIG_MAPS, bookmarks=True)) as events:
            return await anext(events)

    found, _ = call(script, use)
    assert (found.type, found.object, found.resource_version) == ("BOOKMARK", None, "5")


def test_pages_come_one_by_one_and_an_expired_token_ends_them(script):
    first = {"metadata": {"resourceVersion": "9", "continue": "t"}, "items": [STORED]}
    script.answers += [(200, first), refusal(410)]

    async def use(client):
        pages = client.pages(PODS, "ns", page_size=1)
        page = await anext(pages)
        asked = len(script.calls)
        with pytest.raises(Gone):
            await anext(pages)
        return len(page.items), asked

    assert call(script, use)[0] == (1, 1)
    assert [each.query for each in script.calls] == [{"limit": "1"}, {"limit": "1", "continue": "t"}]


def test_a_list_of_ten_thousand_whose_seventh_page_expired_is_read_once_more_at_once(script):
    def page(number, count, token):
        items = [{"metadata": {"name": f"{number}-{each}", "namespace": "ns"}} for each in range(count)]
        return 200, {"metadata": {"resourceVersion": str(number), "continue": token}, "items": items}

    script.answers += [*(page(number, 500, "t") for number in range(6)), refusal(410), page(99, 10_000, "")]

    found, _ = call(script, lambda c: c.list(CONFIG_MAPS, "ns"))

    assert (len(found.items), found.resource_version, len(script.calls)) == (10_000, "99", 8)


def test_several_warning_headers_of_one_answer_are_all_heard():
    """As the transport joins them."""
    from multidict import CIMultiDict

    from ktrain.framework.client.exchange import lowered

    headers = lowered(CIMultiDict([("Warning", '299 - "a"'), ("warning", '299 - "b"'), ("ETag", "x")]))

    class One:
        async def request(self, *args, **options):
            return Response(200, headers, msgspec.json.encode(STORED))

    with structlog.testing.capture_logs() as logs:
        call(One(), lambda c: c.get(CONFIG_MAPS, "a", "ns"))
    assert [line["text"] for line in logs] == ["a", "b"]
    assert headers["etag"] == "x"
