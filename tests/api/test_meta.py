"""Metadata that objects have in common."""

import msgspec
import pytest

from ktrain.api.core import CONFIG_MAP_METADATA
from ktrain.api.meta import NOTHING, Object, ObjectMeta
from ktrain.framework.client.codec import codec_for

BARE = b'{"metadata":{"name":"a"}}'
WRITES = {
    "set": lambda labels: labels.__setitem__("a", "b"),
    "update": lambda labels: labels.update(a="b"),
    "setdefault": lambda labels: labels.setdefault("a", "b"),
    "in place": lambda labels: labels.__ior__({"a": "b"}),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("field", ["labels", "annotations"])
def test_nobody_can_write_into_the_labels_that_objects_without_labels_share(field, write):
    labels = getattr(msgspec.json.decode(BARE, type=Object).metadata, field)

    with pytest.raises(TypeError, match="make a new dict instead"):
        write(labels)
    assert (labels, labels | {"a": "b"}, NOTHING) == ({}, {"a": "b"}, {})
    assert type(labels | {}) is dict


@pytest.mark.parametrize("body", [BARE, b'{"metadata":{"name":"a","labels":{},"annotations":{}}}'])
def test_objects_without_labels_have_one_mapping_in_common_and_none_on_the_wire(body):
    metadata = codec_for(CONFIG_MAP_METADATA).decode(body).metadata

    assert metadata.labels is metadata.annotations is ObjectMeta().labels is NOTHING
    assert msgspec.json.encode(metadata) == b'{"name":"a"}'
    assert metadata == ObjectMeta(name="a", labels={})
