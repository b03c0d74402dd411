from contextlib import asynccontextmanager

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrain.api.core import CONFIG_MAPS, PODS
from ktrain.api.meta import Key, Resource
from ktrain.framework.client.client import ATTEMPT_TIMEOUT_S, Client, PatchType
from ktrain.framework.client.codec import codec_for
from ktrain.framework.client.transport import Response, Stream
from ktrain.framework.deepjson import cut
from ktrain.framework.errors import (
    AlreadyExists,
    ApplyConflict,
    Conflict,
    DecodeError,
    Gone,
    LeadershipLost,
    ServerError,
    TooManyRequests,
    error_from,
)
from ktrain.framework.writes import recording
from ktrain.testing.time import simulate

STORED = {"kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "7"}}
BODY = {"metadata": {"name": "a", "namespace": "ns"}}


def refusal(code, reason="", **details):
    return code, {"kind": "Status", "code": code, "reason": reason, "message": "no", "details": details}


def call(script, use, **options):
    """Run `use(client)` in virtual time; return its result and how long it took."""

    async def main(env):
        client = Client(script, env, field_manager="me", **options)
        return await use(client), env.clock.monotonic()

    return simulate(main)


@pytest.mark.parametrize(
    ("use", "method", "path", "query", "content_type"),
    [
        (lambda c: c.create(CONFIG_MAPS, BODY), "POST", "", {}, "application/json"),
        (lambda c: c.update(CONFIG_MAPS, BODY), "PUT", "/a", {}, "application/json"),
        (lambda c: c.apply(CONFIG_MAPS, BODY), "PATCH", "/a", {"force": "true"}, "application/apply-patch+yaml"),
        (lambda c: c.apply(CONFIG_MAPS, BODY, force=False), "PATCH", "/a", {}, "application/apply-patch+yaml"),
        (lambda c: c.patch(CONFIG_MAPS, Key("ns", "a"), {}), "PATCH", "/a", {}, "application/merge-patch+json"),
        (
            lambda c: c.patch(CONFIG_MAPS, Key("ns", "a"), [], type=PatchType.JSON, subresource="status"),
            "PATCH",
            "/a/status",
            {},
            "application/json-patch+json",
        ),
        (lambda c: c.create(CONFIG_MAPS, BODY, subresource="binding"), "POST", "/a/binding", {}, "application/json"),
    ],
)
def test_each_verb_says_on_the_wire_what_it_means(script, use, method, path, query, content_type):
    script.answers.append((200, STORED))

    written, _ = call(script, use)

    sent = script.calls[0]
    assert (sent.method, sent.path) == (method, f"/api/v1/namespaces/ns/configmaps{path}")
    assert sent.query == {"fieldManager": "me", **query}
    assert sent.headers["Content-Type"] == content_type
    assert written.metadata.resource_version == "7"


def test_a_deletion_carries_its_preconditions_and_options(script):
    script.answers.append((200, {"kind": "Status", "status": "Success", "details": {"uid": "u"}}))

    call(
        script,
        lambda c: c.delete(CONFIG_MAPS, Key("ns", "a"), uid="u", propagation="Foreground", grace_period_s=0),
    )

    assert msgspec.json.decode(script.calls[0].body) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u"},
        "propagationPolicy": "Foreground",
        "gracePeriodSeconds": 0,
    }


def test_a_throttled_call_comes_back_when_the_server_said_and_not_all_at_once(script):
    script.answers += [(*refusal(429), {"retry-after": "1"}), (200, STORED)]

    _, took = call(script, lambda c: c.get(CONFIG_MAPS, "a", "ns"))

    assert 1 < took < 1.5


def test_a_call_does_not_wait_longer_than_its_budget(script):
    script.answers.append((*refusal(429, retryAfterSeconds=60), {"retry-after": "60"}))

    async def use(client):
        with pytest.raises(TooManyRequests) as caught:
            await client.get(CONFIG_MAPS, "a", "ns")
        return caught.value.status.details.retry_after_seconds

    assert call(script, use) == (60, 0.0)
    script.answers += [(*refusal(503), {"retry-after": "20"}), (200, STORED)]
    assert call(script, lambda c: c.get(CONFIG_MAPS, "a", "ns"), retry_budget_s=60)[1] > 20


def test_a_server_error_without_the_word_to_come_back_is_not_sent_again(script):
    script.answers.append(refusal(500))

    async def use(client):
        with pytest.raises(ServerError):
            await client.create(CONFIG_MAPS, BODY)

    call(script, use)
    assert len(script.calls) == 1


def test_the_guard_is_asked_before_every_attempt_to_write_and_shortens_it(script):
    left = [3.0, 1.5, None]

    def guard():
        seconds = left.pop(0)
        if seconds is None:
            raise LeadershipLost("over")
        return seconds

    async def use(client):
        with pytest.raises(LeadershipLost):
            await client.create(CONFIG_MAPS, BODY)
        return await client.get(CONFIG_MAPS, "a", "ns")

    script.answers += [(*refusal(429), {}), (*refusal(429), {}), (200, STORED)]
    call(script, use, guard=guard)

    assert [(c.method, c.timeout_s) for c in script.calls] == [("POST", 3.0), ("POST", 1.5), ("GET", ATTEMPT_TIMEOUT_S)]


def test_a_list_follows_its_pages_and_reports_the_version_of_the_list(script):
    first = {"metadata": {"resourceVersion": "9", "continue": "t"}, "items": [STORED]}
    script.answers += [(200, first), (200, {"metadata": {"resourceVersion": "9"}, "items": [STORED]})]

    found, _ = call(script, lambda c: c.list(CONFIG_MAPS, "ns", label_selector="a=b"))

    assert (len(found.items), found.resource_version) == (2, "9")
    assert [c.query.get("continue") for c in script.calls] == [None, "t"]
    assert {c.query["labelSelector"] for c in script.calls} == {"a=b"}


def test_a_list_whose_pages_expire_is_read_again_whole(script):
    first = {"metadata": {"resourceVersion": "9", "continue": "t"}, "items": [STORED, STORED]}
    script.answers += [(200, first), refusal(410), (200, {"metadata": {"resourceVersion": "12"}, "items": [STORED]})]

    found, _ = call(script, lambda c: c.list(CONFIG_MAPS))

    assert (len(found.items), found.resource_version) == (1, "12")
    assert script.calls[2].query == {}


def test_an_object_that_does_not_fit_is_named_with_the_field(script):
    bad = {**STORED, "data": {"x": 1}}
    script.answers += [(200, {"metadata": {}, "items": [bad]}), (200, bad)]

    async def use(client):
        with pytest.raises(DecodeError, match=r"ConfigMap ns/a cannot be read: .*\$\.data\[\.\.\.\]"):
            await client.list(CONFIG_MAPS)
        with pytest.raises(DecodeError, match=r"\$\.data"):
            await client.get(CONFIG_MAPS, "a", "ns")

    call(script, use)


def test_confirmed_writes_are_noted_for_the_reconcile_and_reads_are_not(script):
    status = {"kind": "Status", "status": "Success", "details": {"uid": "u"}}
    script.answers += [(200, STORED), (200, STORED), (200, status), refusal(409, "Conflict")]

    async def use(client):
        with recording() as writes:
            await client.get(CONFIG_MAPS, "a", "ns")
            await client.apply(CONFIG_MAPS, BODY)
            await client.delete(CONFIG_MAPS, Key("ns", "a"))
            with pytest.raises(Conflict):
                await client.update(CONFIG_MAPS, BODY)
        return [(w.plural, w.key, w.uid, w.version) for w in writes]

    writes, _ = call(script, use)
    assert writes == [("configmaps", Key("ns", "a"), "u", 7), ("configmaps", Key("ns", "a"), "u", 0)]


@pytest.mark.parametrize(
    ("code", "body", "kind"),
    [
        (409, b'{"reason":"AlreadyExists"}', AlreadyExists),
        (409, b'{"reason":"Conflict"}', Conflict),
        (409, b'{"reason":"Conflict","details":{"causes":[{"reason":"FieldManagerConflict"}]}}', ApplyConflict),
        (410, b"", Gone),
        (502, b"<html>bad gateway</html>", ServerError),
    ],
)
def test_refusals_have_types(code, body, kind):
    assert type(error_from(code, body)) is kind
    assert error_from(code, body).code == code


@given(st.recursive(st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_what_is_cut_out_of_a_document_is_what_lies_below_the_level(document):
    shallow, pieces = cut(msgspec.json.encode([document]), 1)

    if isinstance(document, list | dict):
        assert (shallow, [msgspec.json.decode(piece) for piece in pieces]) == (b"[null]", [document])
    else:
        assert (msgspec.json.decode(shallow), pieces) == ([document], [])


def test_an_object_nested_too_deeply_leaves_its_neighbours_in_a_list_alone():
    deep = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    meta = b'{"name":"%s","namespace":"ns","labels":{"odd":"]}{[\\"x"}}'
    items = [b'{"metadata":%s,"spec":%s}' % (meta % name, spec) for name, spec in ((b"a", deep), (b"b", b"{}"))]
    body = b'{"metadata":{"resourceVersion":"7","continue":"next"},"items":[%s]}' % b",".join(items)

    page = codec_for(PODS).decode_page(body)

    assert (page.resource_version, page.continue_token) == ("7", "next")
    assert [item.metadata.name for item in page.items] == ["b"]
    assert [(bad.key, "recursion" in bad.reason) for bad in page.bad] == [(Key("ns", "a"), True)]


def test_an_answer_nested_too_deeply_is_an_error_of_decoding_whatever_the_call():
    deep = b'{"metadata":{"name":"a"},"x":%s}' % (b"[" * 100_000 + b"]" * 100_000)

    async def use(client):
        for awaited in (client.get(CONFIG_MAPS, "a", "ns"), client.delete(CONFIG_MAPS, Key("ns", "a"))):
            with pytest.raises(DecodeError, match="recursion"):
                await awaited
        with pytest.raises(ServerError):
            await client.create(CONFIG_MAPS, BODY)

    call(Bytes([(200, deep), (200, deep), (500, deep)]), use)


def test_what_is_not_utf_8_is_an_error_of_decoding_and_costs_a_list_its_item_only():
    bad = b'{"metadata":{"name":"a","namespace":"ns"},"data":{"k":"\xff"}}'

    async def use(client):
        with pytest.raises(DecodeError, match="utf-8"):
            await client.get(CONFIG_MAPS, "a", "ns")
        with pytest.raises(ServerError):
            await client.create(CONFIG_MAPS, BODY)

    call(Bytes([(200, bad), (500, bad)]), use)
    page = codec_for(CONFIG_MAPS).decode_page(b'{"metadata":{},"items":[%s,{"metadata":{"name":"b"}}]}' % bad)
    assert [item.metadata.name for item in page.items] == ["b"]
    assert [found.key for found in page.bad] == [Key("ns", "a")]
    _, found = codec_for(CONFIG_MAPS).decode_event(b'{"type":"ADDED","object":%s}' % bad)
    assert found.key == Key("ns", "a")


class Bytes:
    """Answers with bodies as they are."""

    def __init__(self, answers):
        self.answers = answers

    async def request(self, *args, **options):
        status, body = self.answers.pop(0)
        return Response(status, {}, body)


def test_an_untyped_object_passes_whole(script):
    script.answers.append((200, {**STORED, "anything": [1]}))
    untyped = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True, type=dict)

    found, _ = call(script, lambda c: c.get(untyped, "a", "ns"))

    assert found["anything"] == [1]
    assert codec_for(PODS) is codec_for(PODS)


def test_an_empty_list_of_metadata_which_go_writes_as_null_is_empty():
    body = b'{"kind":"PartialObjectMetadataList","metadata":{"resourceVersion":"9"},"items":null}'

    page = codec_for(CONFIG_MAPS).decode_page(body)

    assert (page.items, page.resource_version) == ([], "9")


@pytest.mark.parametrize("key", [Key("ns", ""), Key("", "a"), Key("ns", ".."), Key("..", "a"), Key("", "")])
@pytest.mark.parametrize(
    "use",
    [
        lambda c, key: c.get(CONFIG_MAPS, key.name, key.namespace),
        lambda c, key: c.delete(CONFIG_MAPS, key),
        lambda c, key: c.patch(CONFIG_MAPS, key, {}),
        lambda c, key: c.update(CONFIG_MAPS, {"metadata": {"name": key.name, "namespace": key.namespace}}),
        lambda c, key: c.apply(CONFIG_MAPS, {"metadata": {"name": key.name, "namespace": key.namespace}}),
    ],
)
def test_a_call_about_one_object_never_becomes_one_about_all_or_about_another(script, use, key):
    with pytest.raises(ValueError, match="ConfigMap"):
        call(script, lambda client: use(client, key))
    assert not script.calls


def test_a_namespaced_object_cannot_be_created_without_a_namespace(script):
    with pytest.raises(ValueError, match=r"^ConfigMap needs a namespace"):
        call(script, lambda client: client.create(CONFIG_MAPS, {"metadata": {"generateName": "a-"}}))
    assert not script.calls


def test_a_refused_stream_whose_body_never_ends_is_read_as_far_as_a_status_could_be():
    lines = 0

    class Endless:
        @asynccontextmanager
        async def stream(self, path, **_):
            async def body():
                nonlocal lines
                while True:
                    lines += 1
                    yield b"x" * 1024

            yield Stream(503, {}, body())

    async def follow(client):
        with pytest.raises(ServerError, match="xxx"):
            async with client.stream("/api/v1/pods"):
                pass
        return lines

    assert call(Endless(), follow)[0] == 64


@pytest.mark.parametrize("when", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "2030-06-30T23:59:59.999999999Z"])
def test_times_at_the_ends_of_the_calendar_can_be_read(when):
    stored = codec_for(PODS).decode(msgspec.json.encode({"metadata": {"name": "a", "creationTimestamp": when}}))

    assert str(stored.metadata.creation_timestamp.year) == when[:4].lstrip("0")
