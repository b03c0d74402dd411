"""The schemas of built-in kinds, from `kubernetes.json` beside this package, and Kubernetes' words about them."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from .. import quantity
from .node import Node, compile_node

if TYPE_CHECKING:
    from ..meta import Json

_FILE: Final = Path(__file__).parent.parent / "kubernetes.json"
_OMITTED: Final = _FILE.with_name("kubernetes-omitted.json")
"""Of each definition, the fields that Go leaves out of JSON when they are empty: OpenAPI does not say it."""
_PRESENT: Final = _FILE.with_name("kubernetes-present.json")
"""Of each definition, the structs and lists that an object has before anybody writes it, as Go declares no pointer."""
_QUANTITY: Final = "api.resource.Quantity"
_INT_OR_STRING: Final = "util.intstr.IntOrString"
_DESCRIPTIONS: Final = _FILE.with_name("kubernetes-descriptions.json.gz")


class BuiltinKind(msgspec.Struct, frozen=True):
    """A built-in kind: its definition, and where its objects live. Without a plural it is only a request's body."""

    definition: str
    plural: str = ""
    namespaced: bool = False


class _Document(msgspec.Struct, frozen=True):
    version: str
    kinds: dict[str, BuiltinKind]
    definitions: dict[str, msgspec.Raw]
    """As JSON: who serves some kinds needs few of them, and those once."""


@lru_cache(maxsize=1)
def _document() -> _Document:
    return msgspec.json.decode(_FILE.read_bytes(), type=_Document)


@lru_cache(maxsize=1)
def _omitted() -> dict[str, list[str]]:
    return msgspec.json.decode(_OMITTED.read_bytes(), type=dict[str, list[str]])


_nodes: dict[str, Node] = {}


def builtin_node(name: str) -> Node:
    """The compiled definition of this name (`core.v1.PodSpec`); compiled on first use, with all that it refers to."""
    node = _nodes.get(name)
    if node is None:
        node = _nodes[name] = Node()
        # First: definitions that refer to each other in circles copy from nodes that are still being filled.
        node.omit_empty = frozenset(_omitted().get(name, ()))
        node.struct = name
        compile_node(definition(name), builtin_node, into=node)
        if name == _QUANTITY:
            # OpenAPI has no word for it, but decoders read fractions, too: `cpu: 0.5`.
            node.type = node.format = "quantity"
            node.pattern, node.format_check = None, _is_quantity
        elif name == _INT_OR_STRING:
            node.format = "int32"
    return node


def _is_quantity(text: str) -> bool:
    return not quantity.complaint(text)


def builtin_kinds() -> dict[str, BuiltinKind]:
    """All built-in kinds there is a schema for, by `apiVersion/kind`."""
    return _document().kinds


def definition(name: str) -> Json:
    """A built-in definition as a JSON schema that refers to others by `$ref: <name>`, decoded anew."""
    found: Json = msgspec.json.decode(_document().definitions[name])
    return found


def kubernetes_version() -> str:
    """Return the version of Kubernetes that the definitions are of, as `v1.36.3`."""
    return _document().version


def descriptions() -> dict[str, dict[str, str]]:
    """
    Read what Kubernetes says about each definition, under `""`, and about its fields.

    Takes some milliseconds and is not kept: nothing but documents for people needs it.
    """
    import gzip

    return msgspec.json.decode(gzip.decompress(_DESCRIPTIONS.read_bytes()), type=dict[str, dict[str, str]])


@lru_cache(maxsize=1)
def _present() -> dict[str, list[str]]:
    return msgspec.json.decode(_PRESENT.read_bytes(), type=dict[str, list[str]])


def empty_object(name: str) -> Json:
    """Return what an object of a built-in definition holds before anybody writes it: structs without fields."""
    properties = definition(name).get("properties", {})
    fields = ((field, properties[field].get("$ref")) for field in _present().get(name, ()))
    return {field: empty_object(target) if target else [] for field, target in fields}
