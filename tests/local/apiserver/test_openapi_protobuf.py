"""OpenAPI v2 in the encoding that kubectl reads. tests/e2e/kubectl proves that kubectl can."""

import json

from ktrain.local.apiserver import builtins, openapi
from ktrain.local.apiserver.requests import Request

ACCEPT = {"accept": "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"}


def fields(message):
    """Yield (number, value) of an encoded message: integers, and bytes of everything else."""
    position = 0

    def varint():
        nonlocal position
        value = shift = 0
        while True:
            byte = message[position]
            position += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while position < len(message):
        number, kind = divmod(varint(), 8)
        if kind == 0:
            yield number, varint()
        else:
            assert kind == 2
            size = varint()
            yield number, message[position : position + size]
            position += size


def only(message, number):
    return [value for found, value in fields(message) if found == number]


def merged(message, number):
    """A message that was sent in parts, as protobuf readers see it."""
    return b"".join(only(message, number))


def named(entries):
    return {merged(entry, 1).decode(): merged(entry, 2) for entry in entries}


async def body(headers):
    answer = openapi.answer_v2(builtins.RESOURCES, Request("GET", "/openapi/v2", headers=headers))
    return dict(answer.headers), b"".join([chunk async for chunk in answer.chunks])


async def test_it_holds_what_the_json_holds():
    headers, encoded = await body(ACCEPT)
    _, text = await body({})
    expected = json.loads(text)

    assert headers["content-type"] == "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
    assert merged(encoded, 1) == b"2.0"
    definitions = named(only(merged(encoded, 9), 1))
    assert set(definitions) == set(expected["definitions"])
    assert set(named(only(merged(encoded, 8), 2))) == set(expected["paths"])

    container = definitions["io.k8s.api.core.v1.Container"]
    shape = expected["definitions"]["io.k8s.api.core.v1.Container"]
    properties = named(only(merged(container, 25), 1))
    assert set(properties) == set(shape["properties"])
    assert merged(properties["resources"], 1) == b"#/definitions/io.k8s.api.core.v1.ResourceRequirements"
    assert merged(merged(properties["args"], 22), 1) == b"array"
    assert [value.decode() for value in only(container, 19)] == shape["required"]
    extensions = {name: json.loads(merged(value, 2)) for name, value in named(only(properties["ports"], 31)).items()}
    assert extensions["x-kubernetes-list-map-keys"] == ["containerPort", "protocol"]


async def test_operations_say_which_kind_they_are_about_and_what_they_take():
    _, encoded = await body(ACCEPT)

    patch = merged(named(only(merged(encoded, 8), 2))["/api/v1/namespaces/{namespace}/pods/{name}"], 8)

    kind = {name: json.loads(merged(value, 2)) for name, value in named(only(patch, 13)).items()}
    assert kind["x-kubernetes-group-version-kind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert kind["x-kubernetes-action"] == "patch"
    queries = [merged(merged(merged(one, 1), 2), 3) for one in only(patch, 8)]
    assert b"fieldValidation" in [merged(query, 4) for query in queries if query]
