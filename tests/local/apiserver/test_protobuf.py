"""Protobuf bodies: what Go wrote is what is read, and what nobody wrote is refused at once."""

import base64
import itertools
import json
import random
import time
from pathlib import Path

import pytest

from ktrain.local.apiserver import protobuf
from ktrain.local.apiserver.protobuf import wire

TYPE = "application/vnd.kubernetes.protobuf"
# Bodies of objects as a kube-apiserver 1.36.3 answered them in protobuf and in JSON.
RECORDED = json.loads((Path(__file__).parent / "recorded_protobuf.json").read_text())
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def field(number, value):
    """One length-delimited field."""
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def body(api_version, kind, *fields):
    return b"k8s\0" + field(1, field(1, api_version) + field(2, kind)) + field(2, b"".join(fields))


def named(name):
    return field(1, field(1, name))


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda r: r["json"]["kind"])
def test_what_a_real_server_writes_in_protobuf_is_read_as_what_it_writes_in_json(recorded):
    decoded = protobuf.decode(protobuf.unwrap(base64.b64decode(recorded["protobuf"])))

    for template in decoded.get("spec", {}).get("volumeClaimTemplates", []):
        # The one difference: JSON carries the type of an embedded object, and protobuf leaves it to the defaults.
        template |= {"kind": "PersistentVolumeClaim", "apiVersion": "v1"}

    assert without_nulls(recorded["json"]) == decoded


def without_nulls(value):
    if isinstance(value, dict):
        return {name: without_nulls(child) for name, child in value.items() if child is not None}
    return [without_nulls(child) for child in value] if isinstance(value, list) else value


async def test_a_config_map_can_be_created_and_replaced_in_protobuf(api):
    data = (
        field(2, field(1, "a") + field(2, "b"))
        + field(2, field(1, "empty"))
        + field(3, field(1, "c") + field(2, b"\0"))
    )
    created = await api.send("POST", CONFIG_MAPS, body("v1", "ConfigMap", named("x"), data), TYPE)
    replaced = await api.send("PUT", f"{CONFIG_MAPS}/x", body("v1", "ConfigMap", named("x")), TYPE)

    assert (
        created.status,
        created.body["data"],
        created.body["binaryData"],
    ) == (201, {"a": "b", "empty": ""}, {"c": "AA=="})
    assert (replaced.status, "data" in replaced.body) == (200, False)


async def test_a_body_whose_envelope_names_no_kind_is_of_the_kind_of_the_url(api):
    answer = await api.send("POST", CONFIG_MAPS, b"k8s\0" + field(2, named("x")), TYPE)

    assert (answer.status, answer.body["kind"]) == (201, "ConfigMap")


async def test_delete_options_may_be_protobuf(api):
    await api.create("configmaps", api.config_map("x"))
    foreground = body("v1", "DeleteOptions", field(4, "Foreground"), field(5, "All"))
    answer = await api.send("DELETE", f"{CONFIG_MAPS}/x", foreground, TYPE)
    left = await api.send("GET", f"{CONFIG_MAPS}/x")

    assert answer.body["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert "deletionTimestamp" not in left.body["metadata"]


async def test_custom_kinds_and_patches_are_never_protobuf(api):
    await api.send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", api.widget_crd())
    custom = await api.send(
        "POST", api.path("widgets", api="ex.test/v1"), body("ex.test/v1", "Widget", named("x")), TYPE
    )
    await api.create("configmaps", api.config_map("x"))
    patch = await api.send("PATCH", f"{CONFIG_MAPS}/x", body("v1", "ConfigMap"), TYPE)

    assert [custom.status, patch.status] == [415, 415]
    assert "accepted media types include: application/json" in custom.body["message"]


UNREADABLE = {
    "nothing": (b"", "empty data (<empty>)"),
    "only the mark": (b"k8s\0", "empty body (6b387300)"),
    "no mark": (b"nope", "expected prefix [107 56 115 0] (6e6f7065)"),
    "json": (b'{"a":1}', 'expected prefix [107 56 115 0] ({"a":1})'),
    "cut": (body("v1", "ConfigMap", named("x"))[:-2], "unexpected EOF ("),
    "of another kind": (body("v1", "Secret", named("x")), 'Secret in version "v1" cannot be handled as a ConfigMap'),
    "of an unknown kind": (body("v1", "Foo", named("x")), 'no kind "Foo" is registered for version "v1"'),
    "cut inside": (body("v1", "ConfigMap", b"\x0a\xff"), "cannot be handled as a ConfigMap: unexpected EOF"),
    "a number for a message": (body("v1", "ConfigMap", b"\x08\x01"), "proto: wrong wireType = 0 for field"),
    "an overlong number": (body("v1", "ConfigMap", b"\x0a" + b"\xff" * 12), "proto: integer overflow"),
    "a group": (body("v1", "ConfigMap", b"\x0b\x0c"), "proto: illegal wireType 3"),
    "the number 0": (body("v1", "ConfigMap", b"\x02\x00"), "proto: illegal tag 0"),
    "times beyond the calendar": (
        body("v1", "ConfigMap", field(1, field(8, b"\x08" + varint(1 << 62)))),
        "year outside of range",
    ),
}


@pytest.mark.parametrize("case", UNREADABLE)
async def test_a_broken_body_is_a_bad_request(api, case):
    sent, expected = UNREADABLE[case]
    answer = await api.send("POST", CONFIG_MAPS, sent, TYPE)

    assert (answer.status, answer.body["reason"]) == (400, "BadRequest")
    assert expected in answer.body["message"]


def test_schemas_nest_only_so_deep():
    deep = b""
    for _ in range(100):
        deep = field(27, deep)  # JSONSchemaProps.anyOf
    version = field(7, field(4, field(1, deep)))
    sent = body("apiextensions.k8s.io/v1", "CustomResourceDefinition", field(2, version))

    with pytest.raises(protobuf.WireError):
        protobuf.decode(protobuf.unwrap(sent))


@pytest.mark.parametrize("filler", [b"\x08\x00", b"\x98\x06\x00", b"\x12\x00", b"\x0a\x00", b"\xff"], ids=bytes.hex)
def test_three_megabytes_of_nothing_are_refused_or_read_within_seconds(filler):
    sent = body("v1", "Pod", filler * (3 * 1024 * 1024 // len(filler)))
    began = time.process_time()
    with pytest.raises(protobuf.WireError):
        protobuf.decode(protobuf.unwrap(sent))

    assert time.process_time() - began < 10


def test_bytes_changed_at_random_are_read_or_refused_but_never_fail_otherwise():
    """Every prefix of a recorded body, and two thousand with bytes exchanged."""
    choose = random.Random(5)
    bodies = [base64.b64decode(recorded["protobuf"]) for recorded in RECORDED]
    changed = []
    for original in itertools.islice(itertools.cycle(bodies), 2000):
        mutable = bytearray(original)
        for _ in range(choose.randint(1, 4)):
            mutable[choose.randrange(4, len(mutable))] = choose.randrange(256)
        changed.append(bytes(mutable))
    refused = 0
    for sent in [*(bodies[0][:end] for end in range(len(bodies[0]))), *changed]:
        try:
            json.dumps(protobuf.decode(protobuf.unwrap(sent)))
        except protobuf.WireError:
            refused += 1

    assert refused > 1000


def test_numbers_of_the_wire_are_twos_complement():
    assert [wire.signed(2**64 - 1, 32), wire.signed(5, 64), wire.signed(2**31, 32)] == [-1, 5, -(2**31)]
