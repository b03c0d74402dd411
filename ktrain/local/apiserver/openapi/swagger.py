"""
OpenAPI v2 out of v3, for clients and generators that know nothing else.

What v2 has no words for is left out, as upstream does: alternatives (`oneOf`, `anyOf`), `nullable`, defaults of custom
kinds, and the inside of what keeps unknown fields. It then says less than is true, never something else.

The whole takes a tenth of a second to make, so it is made and sent a group at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import anyio.lowlevel
import msgspec

from . import protobuf

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Container, Iterable, Iterator

    from ktrain.api.meta import Json, JsonValue

_V3: Final = "#/components/schemas/"
_V2: Final = "#/definitions/"
_NOT_IN_V2: Final = frozenset({"oneOf", "anyOf", "not", "nullable"})


async def as_json(documents: Iterable[Json]) -> AsyncIterator[bytes]:
    """Yield the JSON of several v3 documents as one of v2. Other tasks run in between."""
    definitions: dict[str, msgspec.Raw] = {}
    start = b'{"swagger":"2.0","paths":{'
    for document in documents:
        for name, schema in _definitions(document, known=definitions):
            definitions[name] = msgspec.Raw(msgspec.json.encode(schema))
        yield start + msgspec.json.encode(_paths(document))[1:-1]
        start = b","
        await anyio.lowlevel.checkpoint()
    security = document["components"]["securitySchemes"]
    rest = {
        "info": document["info"],
        "definitions": dict(sorted(definitions.items())),
        "securityDefinitions": security,
        "security": [{name: []} for name in security],
    }
    yield b"}," + msgspec.json.encode(rest)[1:] + b"\n"


async def as_protobuf(documents: Iterable[Json]) -> AsyncIterator[bytes]:
    """Yield the same as protobuf."""
    known: set[str] = set()
    for document in documents:
        parts = [] if known else [protobuf.head(document["info"])]
        parts.append(protobuf.paths(_paths(document)))
        for name, schema in _definitions(document, known=known):
            known.add(name)
            parts.append(protobuf.definition(name, schema))
        yield b"".join(parts)
        await anyio.lowlevel.checkpoint()


def _paths(document: Json) -> Json:
    return {path: _path(operations) for path, operations in document["paths"].items()}


def _definitions(document: Json, *, known: Container[str]) -> Iterator[tuple[str, Json]]:
    for name, schema in document["components"]["schemas"].items():
        if name not in known:
            yield name, _schema(schema)


def _path(operations: Json) -> Json:
    return {
        method: [_parameter(one) for one in value] if method == "parameters" else _operation(value)
        for method, value in operations.items()
    }


def _operation(operation: Json) -> Json:
    parameters = [_parameter(one) for one in operation["parameters"]]
    consumes = ["*/*"]
    if body := operation.get("requestBody"):
        consumes = list(body["content"])
        schema = _schema(body["content"][consumes[0]]["schema"])
        placed: Json = {"name": "body", "in": "body", "schema": schema}
        parameters.insert(0, placed | {"required": True} if body.get("required") else placed)
    produces: list[str] = []
    responses: Json = {}
    for code, response in operation["responses"].items():
        responses[code] = {"description": response["description"]}
        for media, content in response.get("content", {}).items():
            produces = list(dict.fromkeys([*produces, media]))
            responses[code]["schema"] = _schema(content["schema"])
    rest = {key: value for key, value in operation.items() if key != "requestBody"}
    changed = {"consumes": consumes, "produces": produces, "schemes": ["https"]}
    return {**rest, **changed, "parameters": parameters, "responses": responses}


def _parameter(parameter: Json) -> Json:
    rest = {key: value for key, value in parameter.items() if key != "schema"}
    return {**rest, **parameter["schema"]}


def _schema(schema: JsonValue) -> JsonValue:
    if not isinstance(schema, dict):
        return schema
    found: Json = {}
    for key, value in schema.items():
        if key == "$ref":
            found[key] = value.replace(_V3, _V2, 1)
        elif key == "allOf":
            # A reference with something beside it. Other uses are alternatives of custom kinds.
            if len(value) == 1 and "$ref" in value[0]:
                found |= _schema(value[0])
        elif key == "properties":
            found[key] = {name: _schema(child) for name, child in value.items()}
        elif key in {"items", "additionalProperties"}:
            found[key] = _schema(value)
        elif key not in _NOT_IN_V2:
            found[key] = value
    return _simplified(schema, found)


def _simplified(schema: Json, found: Json) -> Json:
    dropped: set[str] = set()
    if "oneOf" in schema and "type" not in schema:
        found["type"] = "string"
    if schema.get("nullable") or schema.get("x-kubernetes-int-or-string"):
        dropped |= {"type", "items", "properties"}
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        dropped |= {"items", "properties"}
    return {key: value for key, value in found.items() if key not in dropped}
