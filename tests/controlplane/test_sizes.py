"""What is too large for etcd is refused on both servers, in the same words, however it is written."""

import re

import pytest
from msgspec import json

from ktrain.api.core import PODS
from ktrain.api.meta import Key, Resource

from ..definitions import definition

BLOBS = Resource("sizes.ktrain.dev", "v1", "Blob", "blobs", namespaced=True, type=dict)
ACCOUNTS = Resource("", "v1", "ServiceAccount", "serviceaccounts", namespaced=True, type=dict)
TEXT = {"type": "string"}
DEFINITION = definition(BLOBS, schema={"type": "object", "properties": {"text": TEXT, "more": TEXT}})
FITS, LARGE, HUGE = 1_570_000, 1_573_000, 2_098_000
TOO_LARGE = "etcdserver: request is too large"
MESSAGE = r"rpc error: code = ResourceExhausted desc = trying to send message larger than max \((\d+) vs. 2097152\)"
WRITES = {
    "create": ("POST", "application/json"),
    "update": ("PUT", "application/json"),
    "merge patch": ("PATCH", "application/merge-patch+json"),
    "json patch": ("PATCH", "application/json-patch+json"),
    "apply": ("PATCH", "application/apply-patch+yaml"),
    "apply of a new one": ("PATCH", "application/apply-patch+yaml"),
}


@pytest.fixture
async def blobs(control_plane):
    """`await blobs("create", 1000)` writes an object with so many bytes of text; returns code, reason and message."""
    await control_plane.install_crds(DEFINITION)
    where = BLOBS.path(control_plane.namespace)

    async def send(method, path, body, content, query=()):
        headers = {"Content-Type": content}
        answer = await control_plane.transport.request(
            method, path, query=query, body=json.encode(body), headers=headers
        )
        said = json.decode(answer.body)
        return (
            (answer.status, said.get("reason"), said.get("message"))
            if answer.status >= 300
            else (answer.status, None, None)
        )

    async def run(how, size, *, dry=False):
        method, content = WRITES[how]
        blob = {"apiVersion": BLOBS.api_version, "kind": BLOBS.kind, "metadata": {"name": "blob"}}
        if "new" not in how and how != "create":
            assert (await send("POST", where, blob, "application/json"))[0] == 201
        body = blob | {"text": "x" * size}
        query = [("dryRun", "All")] if dry else []
        if how == "json patch":
            body = [{"op": "add", "path": "/text", "value": body["text"]}]
        elif how.startswith("apply"):
            query += [("fieldManager", "test")]
        elif how == "update":
            live = await control_plane.transport.request("GET", f"{where}/blob")
            body = json.decode(live.body) | {"text": body["text"]}
        return await send(method, where if how == "create" else f"{where}/blob", body, content, query)

    return run


@pytest.mark.parametrize("how", WRITES)
@pytest.mark.parametrize("size", [FITS, LARGE, HUGE])
async def test_an_object_is_as_large_as_etcd_takes_it(blobs, how, size):
    code, reason, message = await blobs(how, size)

    if size == FITS:
        assert code in (200, 201)
        return
    assert (code, reason) == (500, None)
    if size == LARGE:
        assert message == TOO_LARGE
    else:
        (told,) = re.fullmatch(MESSAGE, message).groups()
        assert size < int(told) < size + 1000


async def test_what_is_not_stored_may_be_larger(blobs):
    assert (await blobs("create", LARGE, dry=True))[0] == 201


async def test_characters_that_go_escapes_count_six_times(control_plane, blobs):
    client = control_plane.client()
    body = {"apiVersion": BLOBS.api_version, "kind": BLOBS.kind, "metadata": {"name": "blob"}, "text": "<" * 262_000}
    await client.raw("POST", BLOBS.path(control_plane.namespace), body=body)
    with pytest.raises(Exception, match=TOO_LARGE):
        await client.raw(
            "PATCH",
            BLOBS.path(*Key(control_plane.namespace, "blob")),
            body={"more": "<" * 1000},
            headers={"Content-Type": "application/merge-patch+json"},
        )


@pytest.mark.parametrize(("variables", "fits"), [(60_000, True), (75_000, False)])
async def test_a_built_in_kind_is_as_large_as_its_protobuf(control_plane, variables, fits):
    """60,000 variables are 2.3 MB of JSON, and 4 MB more say who set each; those are not kept then."""
    client = control_plane.client()
    account = {"metadata": {"name": "default", "namespace": control_plane.namespace}}
    await client.apply(ACCOUNTS, {"apiVersion": "v1", "kind": "ServiceAccount"} | account)
    env = [{"name": f"V{number}", "value": "x" * 10} for number in range(variables)]
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i", "env": env}]}}
    body = json.encode({"apiVersion": "v1", "kind": "Pod"} | pod)
    answer = await control_plane.transport.request(
        "POST", PODS.path(control_plane.namespace), body=body, headers={"Content-Type": "application/json"}
    )

    found = json.decode(answer.body)
    assert "managedFields" not in found.get("metadata", {})
    assert (answer.status, found.get("message", "")) == ((201, "") if fits else (500, TOO_LARGE))
