"""
A value against the keywords of its schema: types, formats, enumerations, bounds, requirements, logic.

Paths appear twice in the API server's answers: as the field of the cause, and in the text. They differ for writes to
`/status`, where the text starts below status, so the walk carries the text's path and a `Report` adds the prefix.

Ratcheting: where the old object has an equal value, nothing is checked again, so that objects that were valid once stay
writable. Inside the branches of anyOf, oneOf, allOf and not nothing corresponds to an old value.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec

from ..selectors import label_key_errors, label_value_errors
from . import causes
from .cel import Budget
from .node import MISSING, Node

if TYPE_CHECKING:
    from ..meta import Json, JsonValue
    from .causes import Cause

_encode = msgspec.json.Encoder().encode

STEPS_OF_ALL_RULES: Final = 2_000_000
"""What all CEL rules of one object may cost: about a second. A fifth of upstream's, whose steps are quicker."""

_NEARLY_WHOLE = 1e-9
"""How far a float may be from a whole number, relative to it, to be taken for one."""
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "int-or-string": (int, str),
    "quantity": (int, float, str),
}


_WHOLE: Final = frozenset({"integer", "int-or-string"})
_UNIONS: Final = {"int-or-string": "integer,string", "quantity": "number,string"}
LARGEST_EXACT: Final = 2**53 - 1
"""Up to it a float is an integer if it is whole."""


def same(value: JsonValue, old: JsonValue) -> bool:
    """Whether two JSON values are equal; unlike Python, JSON tells 1 from true."""
    return value is old or (value == old and _encode(value) == _encode(old))


class Report:
    """What was found so far in one object: causes, and warnings about rules that only old, unchanged values break."""

    __slots__ = ("budget", "causes", "exhausted", "prefix", "warnings")

    def __init__(self, prefix: str = "") -> None:
        self.causes: list[Cause] = []
        self.warnings: list[str] = []
        self.prefix = prefix
        self.budget = Budget(STEPS_OF_ALL_RULES)
        self.exhausted = False

    def field(self, path: str) -> str:
        """The field of a cause: the text's path below the prefix."""
        return f"{self.prefix}.{path}" if self.prefix and path else self.prefix or path


def check(node: Node, value: JsonValue, path: str, report: Report, old: JsonValue = MISSING) -> None:
    """Append the causes of `value` at `path` to the report; `old` is the value that was there before, if any."""
    if old is not MISSING and same(value, old):
        return
    if not _has_type(node, value):
        _complain_of_type(node, value, path, report)
        _check_enum(node, value, path, report)
        return
    kind = type(value)
    if kind is dict:
        _check_object(node, value, path, report, old)
    elif kind is list:
        _check_list(node, value, path, report, old)
    elif kind is str:
        _check_string(node, value, path, report)
    elif kind is not bool and value is not None:
        _check_number(node, value, path, report)
    _check_enum(node, value, path, report)
    if node.has_logic:
        _check_logic(node, value, path, report)


def _check_enum(node: Node, value: JsonValue, path: str, report: Report) -> None:
    if node.enum is not None and value is not None and value not in node.enum:
        report.causes.append(causes.not_supported(report.field(path), value, node.enum))


def _has_type(node: Node, value: JsonValue) -> bool:
    if node.type == "":
        return True
    if value is None:
        return node.nullable
    if type(value) in _TYPES[node.type]:
        return node.type != "int-or-string" or type(value) is str or _fits(node, value)
    return type(value) is float and node.type in _WHOLE and _is_whole(value)


def _is_whole(value: float) -> bool:
    return value.is_integer() and abs(value) <= LARGEST_EXACT


def _check_object(node: Node, value: Json, path: str, report: Report, old: JsonValue) -> None:
    before = old if type(old) is dict else None
    properties, additional = node.properties, node.additional
    for key in node.required:
        if key not in value:
            report.causes.append(causes.required(report.field(f"{path}.{key}" if path else key)))
    if node.embedded:
        _check_embedded(value, path, report)
    for key, item in value.items():
        child = properties.get(key, additional)
        if child is not None:
            below = MISSING if before is None else before.get(key, MISSING)
            check(child, item, f"{path}.{key}" if path else key, report, below)
    low, high = node.limits
    if low is not None and len(value) < low:
        text = f"{path} in body should have at least {low} properties"
        report.causes.append(causes.invalid(report.field(path), len(value), text))
    if high is not None and len(value) > high:
        report.causes.append(causes.too_many(report.field(path), len(value), high))


def _check_embedded(value: Json, path: str, report: Report) -> None:
    for key in ("apiVersion", "kind"):
        if not value.get(key):
            report.causes.append(causes.required(report.field(f"{path}.{key}")))
    labels = value["metadata"].get("labels") if type(value.get("metadata")) is dict else None
    field = report.field(f"{path}.metadata.labels")
    for key, label in labels.items() if type(labels) is dict else ():
        for text in label_key_errors(key):
            report.causes.append(causes.invalid(field, key, text))
        for text in label_value_errors(label) if type(label) is str else ():
            report.causes.append(causes.invalid(field, label, text))


def _check_list(node: Node, value: list[JsonValue], path: str, report: Report, old: JsonValue) -> None:
    items = node.items
    if items is not None:
        before = items_by_key(node, old) if type(old) is list and node.list_type == "map" else {}
        for index, item in enumerate(value):
            below = before.get(item_key(node, item), MISSING) if before else MISSING
            check(items, item, f"{path}[{index}]", report, below)
    low, high = node.limits
    if low is not None and len(value) < low:
        text = f"{path} in body should have at least {low} items"
        report.causes.append(causes.invalid(report.field(path), len(value), text))
    if high is not None and len(value) > high:
        report.causes.append(causes.too_many(report.field(path), len(value), high))


def item_key(node: Node, item: JsonValue) -> bytes:
    """What identifies an item of a list map: its keys, defaulted. As JSON, which unlike Python tells 1 from true."""
    if type(item) is not dict:
        return b""
    defaults = node.key_defaults
    return _encode([item.get(key, defaults.get(key)) for key in node.map_keys])


def items_by_key(node: Node, value: list[JsonValue]) -> dict[bytes, JsonValue]:
    """The items of a list map by their keys."""
    return {item_key(node, item): item for item in value}


def _check_string(node: Node, value: str, path: str, report: Report) -> None:
    low, high = node.limits
    # One complaint about its length or pattern is enough, as upstream has it.
    if high is not None and len(value) > high:
        report.causes.append(causes.too_long(report.field(path), high))
    elif low is not None and len(value) < low:
        text = f"{path} in body should be at least {low} chars long"
        report.causes.append(causes.invalid(report.field(path), value, text))
    elif node.pattern is not None and not node.pattern.matches(value):
        text = f"{path} in body should match '{node.pattern_text}'"
        report.causes.append(causes.invalid(report.field(path), value, text))
    if node.format_check is not None and not node.format_check(value):
        report.causes.append(causes.wrong_format(report.field(path), path, node.format, value))


def _check_number(node: Node, value: float, path: str, report: Report) -> None:
    minimum, above, maximum, under, multiple = node.bounds
    if type(value) is int:
        # Upstream compares an integer with integers, and has no fractions left of these.
        minimum, maximum, multiple = (None if one is None else int(one) for one in (minimum, maximum, multiple))
    wrong = []
    if multiple is not None and multiple <= 0:
        text = f"factor MultipleOf declared for {path} must be positive: {multiple}"
        report.causes.append(causes.invalid(report.field(path), multiple, text))
    elif multiple is not None and not _is_multiple(value, multiple):
        wrong.append(f"a multiple of {_number(multiple)}")
    if maximum is not None and (value >= maximum if under else value > maximum):
        wrong.append(f"less than {'' if under else 'or equal to '}{_number(maximum)}")
    if minimum is not None and (value <= minimum if above else value < minimum):
        wrong.append(f"greater than {'' if above else 'or equal to '}{_number(minimum)}")
    for what in wrong:
        report.causes.append(causes.invalid(report.field(path), value, f"{path} in body should be {what}"))
    if node.type == "integer" and not _fits(node, value):
        if node.format != "int32" or not -(2**63) <= value < 2**63:
            # Its decoder reads this as a float, for want of room.
            _complain_of_float(node, value, path, report)
        else:
            report.causes.append(_unchecked(node, path))


def _fits(node: Node, value: float) -> bool:
    most: int = 2 ** (31 if node.format == "int32" else 63)
    return -most <= value < most


def _is_multiple(value: float, of: float) -> bool:
    if type(value) is int:
        return value % of == 0
    times = 1 / of * value if of < 1 else value / of
    return math.isfinite(times) and abs(times - int(times)) <= _NEARLY_WHOLE * 2 * abs(times)


def _complain_of_type(node: Node, value: JsonValue, path: str, report: Report) -> None:
    if node.type == "integer" and type(value) is float:
        _complain_of_float(node, value, path, report)
        return
    expected = _UNIONS.get(node.type, node.type)
    if expected == "integer,string" and type(value) is int:
        # It has no room for the integer, so this is a float.
        value = float(value)
    report.causes.append(causes.wrong_type(report.field(path), path, expected, value))


def _complain_of_float(node: Node, value: float, path: str, report: Report) -> None:
    """Append what upstream says of a float where an integer should be."""
    wanted, found = (node.format, "float64") if node.format else ("integer", "number")
    report.causes.append(causes.wrong_type_name(report.field(path), path, wanted, found))
    if not float(value).is_integer() or not _fits(node, value):
        report.causes.append(_unchecked(node, path))


def _unchecked(node: Node, path: str) -> Cause:
    """What upstream says of a number that it does not compare with bounds; it loses the path."""
    named = f"with format {node.format}" if node.format else "(default format)"
    return causes.invalid("", "", f"Checked value must be of type integer {named} in {path}")


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else str(value)


def _check_logic(node: Node, value: JsonValue, path: str, report: Report) -> None:
    if node.all_of:
        failed = [errors for branch in node.all_of if (errors := _errors(branch, value, path, report))]
        if failed:
            none = ". None validated" if len(failed) == len(node.all_of) else ""
            report.causes.append(causes.invalid("", "", f'"{path}" must validate all the schemas (allOf){none}'))
            report.causes.extend(cause for errors in failed for cause in errors)
    if node.any_of and not any(not _errors(branch, value, path, report) for branch in node.any_of):
        _fail_logic(node.any_of, value, path, report, "must validate at least one schema (anyOf)")
    if node.one_of:
        valid = sum(not _errors(branch, value, path, report) for branch in node.one_of)
        if valid == 0:
            text = "must validate one and only one schema (oneOf). Found none valid"
            _fail_logic(node.one_of, value, path, report, text)
        elif valid > 1:
            text = f'"{path}" must validate one and only one schema (oneOf). Found {valid} valid alternatives'
            report.causes.append(causes.invalid("", "", text))
    if node.none_of is not None and not _errors(node.none_of, value, path, report):
        report.causes.append(causes.invalid("", "", f'"{path}" must not validate the schema (not)'))


def _errors(branch: Node, value: JsonValue, path: str, report: Report) -> list[Cause]:
    inner = Report(report.prefix)
    check(branch, value, path, inner)
    return inner.causes


def _fail_logic(branches: tuple[Node, ...], value: JsonValue, path: str, report: Report, text: str) -> None:
    """No branch holds: say so, and what the first branch misses."""
    report.causes.append(causes.invalid("", "", f'"{path}" {text}'))
    report.causes.extend(_errors(branches[0], value, path, report))


def check_uniqueness(node: Node, value: JsonValue, path: str, report: Report) -> None:
    """Append a cause for each item of a set or list map that occurs in its list again, once: where it does so first."""
    if not node.has_uniqueness:
        return
    if type(value) is dict:
        for key, item in value.items():
            child = node.child(key)
            if child is not None and child.has_uniqueness:
                check_uniqueness(child, item, f"{path}.{key}" if path else key, report)
    elif type(value) is list:
        _check_items_unique(node, value, path, report)


def _check_items_unique(node: Node, value: list[JsonValue], path: str, report: Report) -> None:
    seen: Counter[bytes] = Counter()
    for index, item in enumerate(value):
        if node.list_type == "map" and type(item) is not dict:
            if item is not None:
                text = "must be an object for an array of list-type map"
                report.causes.append(causes.invalid(report.field(f"{path}[{index}]"), item, text))
            return
        if node.list_type == "map":
            key = item_key(node, item)
        elif node.list_type == "set":
            key = _encode(item)
        else:
            continue
        seen[key] += 1
        if seen[key] == 2:
            shown = _keys_of(node, item) if node.list_type == "map" else item
            report.causes.append(causes.duplicate(report.field(f"{path}[{index}]"), shown))
    if node.items is not None and node.items.has_uniqueness:
        for index, item in enumerate(value):
            check_uniqueness(node.items, item, f"{path}[{index}]", report)


def _keys_of(node: Node, item: Json) -> Json:
    found = {key: item.get(key, node.key_defaults.get(key)) for key in sorted(node.map_keys)}
    return {key: value for key, value in found.items() if value is not None}
