"""A kind's schema: one compiled root, and what is done with objects of the kind."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from .builtin import builtin_kinds, builtin_node
from .causes import NO_FIELD, Cause, invalid
from .defaults import fill
from .node import MISSING, Node, compile_node, object_meta
from .prune import prune
from .rules import check_rules
from .validate import Report, check, check_uniqueness

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..meta import Json, JsonValue

_UNCHECKED: Final = invalid(
    NO_FIELD,
    None,
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)


class Schema:
    """
    The schema of one kind and version. Immutable and safe to share.

    No method changes its arguments; results share unchanged parts with them.
    """

    __slots__ = ("root",)

    def __init__(self, root: Node) -> None:
        self.root: Final = root

    @classmethod
    def from_crd(cls, schema: Json) -> Schema:
        """
        Compile a version's `openAPIV3Schema`. apiVersion, kind and metadata are known fields whether declared or not.

        Raises:
            ValueError: If a pattern is not valid; `structural_causes` tells where.
        """
        # A node of its own: the fields added below must not appear in a shared one.
        root = compile_node(schema, builtin_node, into=Node())
        text = compile_node({"type": "string"}, builtin_node)
        for name in ("apiVersion", "kind"):
            root.properties.setdefault(name, text)
        root.properties["metadata"] = object_meta(root.properties.get("metadata", text), builtin_node)
        return cls(root)

    @classmethod
    def shared_from_crd(cls, schema: Json) -> Schema:
        """
        Compile a schema that nobody changes, or return what was compiled from the same object before.

        The shipped CRDs are compiled for users' files and for the server, and tests start many servers with them.

        Raises:
            ValueError: As for `from_crd`.
        """
        known = _SHARED.get(id(schema))
        if known is not None and known[0] is schema:
            return known[1]
        compiled = cls.from_crd(schema)
        if len(_SHARED) >= _MAX_SHARED:
            del _SHARED[next(iter(_SHARED))]
        # Holding the document keeps its identity from being taken by another.
        _SHARED[id(schema)] = (schema, compiled)
        return compiled

    def prune(self, obj: Json, *, keep_nulls: bool = False) -> tuple[Json, list[str]]:
        """
        The object without fields that the schema does not know, and their paths, sorted.

        Nulls where null is no value and no default stands ready go too, unless `keep_nulls` (server-side apply refuses
        them, so they must reach `validate`).
        """
        unknown: list[str] = []
        pruned = prune(self.root, obj, "", unknown, keep_nulls=keep_nulls)
        return pruned, sorted(unknown)

    def default(self, obj: Json) -> Json:
        """The object with missing fields filled in, from the top down."""
        filled: Json = fill(self.root, obj)
        return filled

    def validate(
        self,
        obj: Json,
        old: Json | None = None,
        *,
        warnings: list[str] | None = None,
        blocked: bool = False,
        counts: Sequence[Cause] = (),
    ) -> list[Cause]:
        """
        Everything wrong with the object, in the API server's words. Give it pruned and defaulted.

        With `old`, the stored object, transition rules run, and what did not change is not an error again; rules that
        an unchanged part breaks become texts in `warnings`. `blocked`: the metadata is not fit for rules to be run.
        `counts`: what is wrong with the counts of a Scale, which is told after what keywords find.
        """
        before = MISSING if old is None else old
        report = Report()
        _check(self.root, obj, before, report, unchecked="metadata", counts=counts)
        return self._check_rules(obj, before, report, warnings, blocked=blocked)

    def validate_shape(self, obj: Json) -> list[Cause]:
        """What is wrong by keywords alone: no uniqueness, no CEL. For users' files, which the server checks again."""
        report = Report()
        check(self.root, obj, "", report)
        return report.causes

    def validate_status(self, obj: Json, old: Json | None = None, *, warnings: list[str] | None = None) -> list[Cause]:
        """
        The same for a write to `/status`: of keywords only those of `status`, whose texts name paths below it.

        Rules run for the whole object.
        """
        node = self.root.child("status")
        report = Report("status")
        if node is not None and "status" in obj:
            _check(node, obj["status"], MISSING if old is None else old.get("status", MISSING), report)
        return self._check_rules(obj, MISSING if old is None else old, report, warnings)

    def _check_rules(
        self, obj: Json, old: JsonValue, report: Report, warnings: list[str] | None, *, blocked: bool = False
    ) -> list[Cause]:
        found = report.causes
        if not self.root.has_rules:
            return found
        if blocked or any(cause.blocks_rules for cause in found):
            return [*found, _UNCHECKED]
        rules = Report()
        check_rules(self.root, obj, rules, old)
        if warnings is not None:
            warnings.extend(rules.warnings)
        return [*found, *rules.causes]


def _check(
    node: Node,
    value: JsonValue,
    old: JsonValue,
    report: Report,
    *,
    unchecked: str = "",
    counts: Sequence[Cause] = (),
) -> None:
    """
    Keywords and uniqueness; what was not unique before may stay so.

    `unchecked` may always be: nobody minds a finalizer given twice in an object's metadata.
    """
    check(node, value, "", report, old)
    report.causes += counts
    if not node.has_uniqueness:
        return
    earlier = Report()
    if old is not MISSING:
        check_uniqueness(node, _without(old, unchecked), "", earlier)
    if not earlier.causes:
        check_uniqueness(node, _without(value, unchecked), "", report)


def _without(value: JsonValue, field: str) -> JsonValue:
    return {name: child for name, child in value.items() if name != field} if isinstance(value, dict) else value


@lru_cache(maxsize=64)
def builtin(api_version: str, kind: str) -> Schema | None:
    """The schema of a built-in kind, or None."""
    found = builtin_kinds().get(f"{api_version}/{kind}")
    return Schema(builtin_node(found.definition)) if found else None


_MAX_SHARED: Final = 64
_SHARED: Final[dict[int, tuple[Json, Schema]]] = {}
"""By the identity of the document."""
