"""Values that no client writes by accident: refused in words, and cheap."""

import base64

import pytest

from ktrain.api.schema import Schema
from ktrain.local.apiserver import metadata
from ktrain.local.apiserver.errors import StatusError
from ktrain.local.apiserver.fields import spelling
from ktrain.local.apiserver.reading import tokens


@pytest.mark.parametrize("text", [b'{"a": 1e399, "b": NaN}', b'{"a": -Infinity}', b'{"a": "\\ud800"}'])
def test_what_is_no_json_stays_none_beside_numbers_that_are_spelled(text):
    with pytest.raises(ValueError, match=r"invalid character|surrogates not allowed"):
        spelling.decode(text, None)


@pytest.mark.parametrize(
    ("text", "is_spelled"),
    [
        *((b'{"image": "python:3.11"}', False), (b'{"renewTime": "2026-01-01T00:00:00.000000Z"}', False)),
        *((b'{"n": 1.5}', True), (b'{"n" : 1e3}', True), (b"[1.0]", True), (b"[1,\n 2.0]", True)),
    ],
)
def test_few_bodies_are_read_twice(text, is_spelled):
    assert spelling.is_spelled(text) is is_spelled


def test_a_token_that_nests_without_end_is_none():
    text = base64.urlsafe_b64encode(b"[" * 3000).decode().rstrip("=")

    with pytest.raises(StatusError, match="continue key is not valid"):
        tokens.read(text)


def test_a_number_that_nearly_is_infinite_is_no_multiple():
    schema = Schema.from_crd({"type": "object", "properties": {"x": {"type": "number", "multipleOf": 0.01}}})

    (cause,) = schema.validate({"x": 1.7e308})
    assert "should be a multiple of 0.01" in cause.message


@pytest.mark.parametrize("part", ["apiVersion", "kind", "name", "uid"])
def test_the_parts_of_an_owner_are_texts(part):
    said = metadata.shape_error({"ownerReferences": [{part: 5}]})

    assert said.startswith("json: cannot unmarshal number into Go struct field OwnerReference.ownerReferences." + part)
    assert metadata.shape_error({"ownerReferences": [{part: None}]}) == ""
