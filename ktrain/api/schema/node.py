"""A structural schema compiled to a tree (for built-in kinds: a graph) of nodes."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from .declared import CELS_OWN_FORMATS
from .formats import CHECKS
from .patterns import Pattern, compile_pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..meta import Json, JsonValue

MISSING: Final[Any] = object()
"""No value, where None is one."""

Resolve = Callable[[str], "Node"]

_PLAIN_KEYWORDS: Final = frozenset({"type", "format", "description"})
_ROOT_FIELDS: Final = ("apiVersion", "kind", "metadata")


class Node:
    """
    What the schema says about one place of an object. Immutable once compiled.

    Attributes are plain slots because validation reads them for every field of every request. The branches of
    anyOf, oneOf, allOf and not are nodes, too. `rules` are the raw entries of `x-kubernetes-validations`;
    `omit_empty` are the fields that typed encoding leaves out when they are empty, which only built-in kinds have;
    `has_special`: expressions see something below in another form than it has as JSON.
    """

    __slots__ = (
        "additional",
        "all_of",
        "any_of",
        "bounds",
        "default",
        "embedded",
        "enum",
        "format",
        "format_check",
        "has_defaults",
        "has_logic",
        "has_rules",
        "has_special",
        "has_uniqueness",
        "items",
        "key_defaults",
        "limits",
        "list_type",
        "map_keys",
        "map_type",
        "none_of",
        "nullable",
        "omit_empty",
        "one_of",
        "patch_merge_key",
        "patch_strategies",
        "pattern",
        "pattern_text",
        "preserve_unknown",
        "properties",
        "required",
        "rules",
        "struct",
        "type",
    )

    additional: Node | None
    all_of: tuple[Node, ...]
    any_of: tuple[Node, ...]
    bounds: tuple[float | None, bool, float | None, bool, float | None]
    default: JsonValue
    embedded: bool
    enum: list[JsonValue] | None
    format: str
    format_check: Callable[[str], bool] | None
    has_defaults: bool
    has_logic: bool
    has_special: bool
    has_rules: bool
    has_uniqueness: bool
    items: Node | None
    key_defaults: Mapping[str, JsonValue]
    limits: tuple[int | None, int | None]
    list_type: str
    map_keys: tuple[str, ...]
    map_type: str
    none_of: Node | None
    nullable: bool
    omit_empty: frozenset[str]
    one_of: tuple[Node, ...]
    patch_merge_key: str
    patch_strategies: frozenset[str]
    pattern: Pattern | None
    pattern_text: str
    preserve_unknown: bool
    properties: dict[str, Node]
    required: tuple[str, ...]
    rules: tuple[Json, ...]
    struct: str
    """Which built-in definition this is: `core.v1.PodSpec`; "" if it is none."""
    type: str

    def __init__(self) -> None:
        # What a circle of definitions may read of a node that is still being filled.
        self.default = MISSING
        self.format = ""
        self.omit_empty = frozenset()
        self.struct = ""
        self.nullable = False
        self.has_defaults = self.has_special = self.has_rules = self.has_uniqueness = False

    def child(self, key: str) -> Node | None:
        """The node of a property, or of any key of a map; None if the schema has no such field."""
        return self.properties.get(key, self.additional)


def compile_node(schema: Json, resolve: Resolve, into: Node | None = None) -> Node:
    """
    Compile one schema and all below it.

    `resolve` gives the node of a `$ref`; it may be one that is still being filled, so definitions can refer to each
    other in circles. `into` is that node. Parts of the schema that are one object become one node.
    """
    return _Compiler(resolve).node(schema, into)


class _Compiler:
    """One compilation."""

    def __init__(self, resolve: Resolve) -> None:
        self.resolve: Final = resolve
        self._known: dict[int, Node] = {}
        """By identity, which lasts as long as the schema that is being compiled."""

    def node(self, schema: Json, into: Node | None = None) -> Node:
        if "$ref" in schema and len(schema) == 1:
            return self.resolve(schema["$ref"])
        if into is not None:
            return _compile(schema, self, into)
        if schema.keys() <= _PLAIN_KEYWORDS:
            return _plain(schema.get("type", ""), schema.get("format", ""))
        node = self._known.get(id(schema))
        if node is None:
            node = self._known[id(schema)] = _compile(schema, self, Node())
        return node


@lru_cache(maxsize=256)
def _plain(kind: str, form: str) -> Node:
    """The node of a mere type, shared: two of three nodes are such."""
    return _compile({"type": kind, "format": form}, _Compiler(_no_references), Node())


def _compile(schema: Json, compiler: _Compiler, node: Node) -> Node:
    if "$ref" in schema:
        target = compiler.resolve(schema["$ref"])
        for slot in Node.__slots__:
            setattr(node, slot, getattr(target, slot))
        node.map_type = schema.get("x-kubernetes-map-type", node.map_type)
        return node
    _compile_shape(node, schema, compiler)
    _compile_values(node, schema)
    _compile_logic(node, schema, compiler)
    node.rules = tuple(schema.get("x-kubernetes-validations", ()))
    _compile_flags(node)
    return node


def _compile_shape(node: Node, schema: Json, compiler: _Compiler) -> None:
    int_or_string = schema.get("x-kubernetes-int-or-string", False)
    node.type = "int-or-string" if int_or_string else schema.get("type", "")
    node.nullable = schema.get("nullable", False)
    node.preserve_unknown = schema.get("x-kubernetes-preserve-unknown-fields", False)
    node.embedded = schema.get("x-kubernetes-embedded-resource", False)
    node.required = tuple(schema.get("required", ()))
    node.default = schema.get("default", MISSING)
    if node.default is None and not node.nullable:
        node.default = MISSING
    node.properties = {}
    for name, child in schema.get("properties", {}).items():
        node.properties[name] = compiler.node(child)
    if node.embedded:
        _add_object_fields(node, compiler)
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        node.additional = compiler.node(additional)
    else:
        node.additional = ANYTHING if additional is True else None
    items = schema.get("items")
    node.items = compiler.node(items) if isinstance(items, dict) else None
    _compile_merging(node, schema)


def _add_object_fields(node: Node, compiler: _Compiler) -> None:
    text = compiler.node({"type": "string"})
    for name in _ROOT_FIELDS:
        node.properties.setdefault(name, text)
    node.properties["metadata"] = object_meta(node.properties["metadata"], compiler.resolve)


def object_meta(declared: Node, resolve: Resolve) -> Node:
    """The metadata of an object: the built-in fields, with what a CRD's schema restricts of name and generateName."""
    base = resolve("meta.v1.ObjectMeta")
    own = {name: declared.properties[name] for name in ("name", "generateName") if name in declared.properties}
    if not own:
        return base
    node = Node()
    for slot in Node.__slots__:
        setattr(node, slot, getattr(base, slot))
    node.properties = base.properties | own
    return node


def _compile_merging(node: Node, schema: Json) -> None:
    node.list_type = schema.get("x-kubernetes-list-type", "atomic")
    node.map_keys = tuple(schema.get("x-kubernetes-list-map-keys", ()))
    node.map_type = schema.get("x-kubernetes-map-type", "granular")
    node.patch_merge_key = schema.get("x-kubernetes-patch-merge-key", "")
    node.patch_strategies = frozenset(filter(None, schema.get("x-kubernetes-patch-strategy", "").split(",")))
    defaults = {}
    if node.map_keys and node.items is not None:
        for key in node.map_keys:
            of_key = node.items.properties.get(key)
            if of_key is not None and of_key.default is not MISSING:
                defaults[key] = of_key.default
    node.key_defaults = defaults


def _compile_values(node: Node, schema: Json) -> None:
    node.enum = schema.get("enum")
    node.format = schema.get("format", "")
    node.format_check = CHECKS.get(node.format)
    node.pattern_text = schema.get("pattern", "")
    node.pattern = compile_pattern(node.pattern_text) if node.pattern_text else None
    node.bounds = (
        schema.get("minimum"),
        schema.get("exclusiveMinimum", False),
        schema.get("maximum"),
        schema.get("exclusiveMaximum", False),
        schema.get("multipleOf"),
    )
    for low, high in (("minLength", "maxLength"), ("minItems", "maxItems"), ("minProperties", "maxProperties")):
        if low in schema or high in schema:
            node.limits = (schema.get(low), schema.get(high))
            return
    node.limits = (None, None)


def _compile_logic(node: Node, schema: Json, compiler: _Compiler) -> None:
    # An int-or-string says so again as anyOf in generated CRDs, where it adds nothing.
    any_of = () if node.type == "int-or-string" else schema.get("anyOf", ())
    node.any_of = tuple(compiler.node(s) for s in any_of)
    node.one_of = tuple(compiler.node(s) for s in schema.get("oneOf", ()))
    node.all_of = tuple(compiler.node(s) for s in schema.get("allOf", ()))
    node.none_of = compiler.node(schema["not"]) if "not" in schema else None
    node.has_logic = bool(node.any_of or node.one_of or node.all_of or node.none_of)


def _compile_flags(node: Node) -> None:
    """Whether the subtree holds anything that a pass looks for, so that passes can skip it."""
    below = [*node.properties.values(), *(n for n in (node.additional, node.items) if n is not None)]
    node.has_defaults = any(n.default is not MISSING or n.has_defaults for n in below)
    node.has_special = any(n.nullable or n.has_special or n.format in CELS_OWN_FORMATS for n in below)
    node.has_rules = bool(node.rules) or any(n.has_rules for n in below)
    node.has_uniqueness = node.list_type != "atomic" or any(n.has_uniqueness for n in below)


def _no_references(name: str) -> Node:
    raise ValueError(f"a structural schema cannot refer to {name}")


ANYTHING: Final = compile_node({"x-kubernetes-preserve-unknown-fields": True}, _no_references)
"""Accepts every value and keeps every field."""
