"""
What CEL may assume of values that fit a schema: the types of `self` and `oldSelf`.

Fields that the schema knows nothing of (below preserve-unknown-fields) are not there for expressions; int-or-string is
anything. Source: `k8s.io/apiserver/pkg/cel/common`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from .cel import STRING, Type, object_type
from .cel.cost import REQUEST_BYTES, Bound

if TYPE_CHECKING:
    from ..meta import Json

CELS_OWN_FORMATS: Final = {
    "byte": ("bytes",),
    "date": ("timestamp",),
    "date-time": ("timestamp",),
    "duration": ("duration",),
}
"""Formats of strings that expressions see as something better."""
_SCALARS: Final = {"boolean": ("bool",), "integer": ("int",), "number": ("double",)}
_KEYWORDS: Final = frozenset(
    {"as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop"}
    | {"namespace", "null", "package", "return", "true", "var", "void", "while"}
)
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ESCAPED: Final = re.compile(r"__|[.\-/]")
_METADATA: Final = object_type({"name": STRING, "generateName": STRING})


def escaped_name(name: str) -> str:
    """A property's name as CEL identifier: `namespace` is `__namespace__`, `x-y` is `x__dash__y`."""
    if name in _KEYWORDS:
        return f"__{name}__"
    return _ESCAPED.sub(lambda match: _ESCAPES[match[0]], name)


def declared_type(schema: Json, *, whole: bool = False) -> Type | None:
    """The type of a schema's values; None if expressions cannot see them. `whole` objects have apiVersion and so on."""
    if schema.get("x-kubernetes-int-or-string"):
        return ("dyn",)
    kind = schema.get("type", "")
    if kind == "array":
        inside = _below(schema.get("items"))
        return None if inside is None else ("list", inside)
    if kind == "object":
        additional = schema.get("additionalProperties")
        if isinstance(additional, dict):
            inside = _below(additional)
            return None if inside is None else ("map", STRING, inside)
        fields = {escaped_name(name): _below(child) for name, child in schema.get("properties", {}).items()}
        known = {name: found for name, found in fields.items() if found is not None}
        if whole:
            known |= {"apiVersion": STRING, "kind": STRING, "metadata": _METADATA}
        return object_type(known)
    if kind == "string":
        return CELS_OWN_FORMATS.get(schema.get("format", ""), STRING)
    return _SCALARS.get(kind)


def _below(schema: Json | None) -> Type | None:
    if not isinstance(schema, dict):
        return None
    return declared_type(schema, whole=schema.get("x-kubernetes-embedded-resource", False))


def declared_bound(schema: Json) -> Bound:
    """How large a schema's values can get."""
    kind = schema.get("type", "")
    if kind == "array":
        items = schema.get("items")
        items = items if isinstance(items, dict) else {}
        most = schema.get("maxItems", REQUEST_BYTES // (smallest(items) + 1))
        return Bound(most, declared_bound(items))
    if kind == "object":
        additional = schema.get("additionalProperties")
        if isinstance(additional, dict):
            most = schema.get("maxProperties", REQUEST_BYTES // (smallest(additional) + 6))
            return Bound(most, declared_bound(additional))
        children = schema.get("properties", {}).items()
        return Bound(1, None, {escaped_name(name): declared_bound(child) for name, child in children})
    if kind == "string":
        longest = max((len(str(one)) for one in schema.get("enum") or ()), default=REQUEST_BYTES)
        return Bound(schema.get("maxLength", longest))
    return Bound()


def smallest(schema: Json) -> int:
    """How many bytes a schema's values take as JSON at least."""
    kind = schema.get("type", "")
    if kind != "object":
        return 2 if kind in {"array", "string"} else 1
    children = schema.get("properties", {})
    required = [name for name in schema.get("required") or () if name in children and "default" not in children[name]]
    return 2 + sum(len(name) + 4 + smallest(children[name]) for name in required)
