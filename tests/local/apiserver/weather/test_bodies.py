"""Bodies that are too large, too deep, of the wrong kind or no text at all: refused with a word, and nothing breaks."""

from __future__ import annotations

import gzip
import json

import pytest

from ktrain.local.apiserver.codec import MAX_DEPTH

MAPS = "/api/v1/namespaces/default/configmaps"
MERGE = "Content-Type: application/merge-patch+json"
JSON_PATCH = "Content-Type: application/json-patch+json"
APPLY = "Content-Type: application/apply-patch+yaml"
YAML = "Content-Type: application/yaml"


def nested(depth: int, opening: bytes, closing: bytes) -> bytes:
    return (
        b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"d"},"data":'
        + opening * depth
        + closing * depth
        + b"}"
    )


@pytest.mark.parametrize("depth", [500, 10_000, 1_000_000])
@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("POST", MAPS, ()),
        ("POST", MAPS, (YAML,)),
        ("PUT", f"{MAPS}/d", ()),
        ("PATCH", f"{MAPS}/d", (MERGE,)),
        ("PATCH", f"{MAPS}/d", (JSON_PATCH,)),
        ("PATCH", f"{MAPS}/d?fieldManager=m", (APPLY,)),
        ("DELETE", f"{MAPS}/d", ()),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", ()),
    ],
)
async def test_what_is_nested_too_deeply_is_refused_as_a_bad_request(ask, api, depth, method, path, headers):
    await api.create("configmaps", api.config_map("d"))

    reply = await ask(method, path, nested(depth, b"[", b"]"), *headers)

    assert reply.status == 400, reply
    assert "max depth" in reply.message or "nested deeper" in reply.message


async def test_what_is_nested_within_reason_is_stored(ask, api, server):
    definition = api.widget_crd({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    server.install_crds([definition])
    widgets = "/apis/ex.test/v1/namespaces/default/widgets"
    levels = MAX_DEPTH - 10  # what is around it, in managedFields, too

    deep = b'{"apiVersion":"ex.test/v1","kind":"Widget","metadata":{"name":"w"},"spec":'
    made = await ask("POST", widgets, deep + b'{"a":' * levels + b"1" + b"}" * levels + b"}")
    applied = await ask(
        "PATCH", f"{widgets}/w?fieldManager=m&force=1", deep + b'{"a":' * levels + b"2" + b"}" * levels + b"}", APPLY
    )

    assert (made.status, applied.status) == (201, 200), (made, applied)


async def test_patches_cannot_pile_up_depth(ask, api, server):
    definition = api.widget_crd({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    server.install_crds([definition])
    await api.create("widgets", api.widget("w", {}), "ex.test/v1")
    value = json.loads('{"a":' * 90 + "{}" + "}" * 90)
    answers = []
    for count in range(4):
        operation = {"op": "add", "path": "/spec" + "/a" * 90 * count + "/a", "value": value["a"]}
        body = json.dumps([operation]).encode()
        answers.append(await ask("PATCH", "/apis/ex.test/v1/namespaces/default/widgets/w", body, JSON_PATCH))

    assert [answer.status for answer in answers] == [200, 200, 400, 422]
    assert "nested too deeply" in answers[2].message


async def test_a_body_past_three_megabytes_is_too_large(ask, connect):
    body = b'{"metadata":{"name":"b"},"data":{"k":"' + b"v" * (3 << 20) + b'"}}'

    assert (await ask("POST", MAPS, body)).message == "Request entity too large: limit is 3145728"
    async with connect() as line:
        head = line.request("POST", MAPS).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
        await line.send(head + b"".join(b"10000\r\n" + b"x" * 65536 + b"\r\n" for _ in range(50)))
        assert (await line.reply()).status == 413


async def test_a_yaml_bomb_is_refused(ask):
    lines = [b"a: &a [x, x, x, x, x, x, x, x, x]"]
    for name, before in zip(b"bcdefghijk", b"abcdefghij", strict=True):
        lines.append(b"%c: &%c [%s]" % (name, name, b", ".join([b"*%c" % before] * 9)))

    reply = await ask("POST", MAPS, b"\n".join(lines), YAML)

    assert reply.status == 400
    assert "are there aliases of aliases?" in reply.message


async def test_a_body_of_an_unknown_type_or_compressed_is_unsupported(ask):
    body = b'{"metadata":{"name":"a"}}'

    assert (await ask("POST", MAPS, body, "Content-Type: text/csv")).status == 415
    assert (await ask("POST", MAPS, body, "Content-Encoding: identity")).status == 201
    for encoding, data in (("gzip", gzip.compress(b'{"metadata":{"name":"b"}}')), ("gzip", b"xxx"), ("br", body)):
        reply = await ask("POST", MAPS, data, f"Content-Encoding: {encoding}")
        assert (reply.status, reply.message) == (
            415,
            "the body of the request is compressed, which this server does not accept",
        )


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe\x00",
        b'{"metadata":{"name":"n\x00"}}',
        b'{"metadata":{"name":"n","generation":' + b"9" * 5000 + b"}}",
        b'{"metadata":{"name":"n","generation":1e999}}',
        b'{"metadata":{"name":"n","generation":NaN}}',
        b"[]",
        b'"text"',
        b"{" * 5,
    ],
)
@pytest.mark.parametrize("kind", ["application/json", "application/yaml"])
async def test_what_is_no_object_is_a_bad_request(ask, body, kind):
    assert (await ask("POST", MAPS, body, f"Content-Type: {kind}")).status == 400


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"null", "application/json"),
        (b"null", "application/yaml"),
        (b'{"metadata":{"name":"\xff"}}', "application/json"),
    ],
)
async def test_what_decodes_to_an_object_without_a_fit_name_is_invalid(ask, body, kind):
    """As on a real server: null is the empty object, and what is not UTF-8 becomes replacement characters."""
    assert (await ask("POST", MAPS, body, f"Content-Type: {kind}")).status == 422
