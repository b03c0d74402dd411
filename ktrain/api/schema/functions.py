"""
Functions of Kubernetes' CEL environment that the CEL package lacks: strings, format, regex, URLs, quantities, formats.

A URL and a quantity are plain strings inside expressions; their methods parse again. That is enough, because CEL calls
a method as a function of its receiver.
"""

from __future__ import annotations

import re
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, parse_qs, urlsplit

from ..quantity import format_quantity, parse
from .formats import CHECKS
from .patterns import compile_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..meta import JsonValue

_DIRECTIVE: Final = re.compile(r"%(?:\.(\d+))?([a-zA-Z%])")
_NAMED_FORMATS: Final = {
    "byte": "byte",
    "date": "date",
    "datetime": "date-time",
    "dns1035Label": "k8s-short-name",
    "dns1123Label": "k8s-short-name",
    "dns1123Subdomain": "k8s-long-name",
    "uri": "uri",
    "uuid": "uuid",
}


def _named(name: str, _receiver: str) -> str:
    return name


def _text(value: JsonValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, list):
        return "[" + ", ".join(_text(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_text(key)}: {_text(value[key])}" for key in sorted(value)) + "}"
    return str(value)


def _format(template: str, values: list[JsonValue]) -> str:
    """CEL's string format: %s, %d, %f, %e, %b, %o, %x, %X and %%."""
    rest = iter(values)

    def expand(match: re.Match[str]) -> str:
        precision, directive = match.groups()
        if directive == "%":
            return "%"
        value = next(rest, "")
        if directive in "fe":
            return f"{float(value):.{precision or 6}{directive}}"
        if directive in "boxX" and isinstance(value, int):
            return f"{int(value):{directive}}"
        return _text(value)

    return _DIRECTIVE.sub(expand, template)


def _substring(text: str, start: int, end: int | None = None) -> str:
    return text[start:end]


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if separator == "":
        return list(text)
    return text.split(separator, limit - 1 if limit > 0 else -1)


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    return text.replace(old, new, limit)


def _find(text: str, pattern: str) -> str:
    match = compile_pattern(pattern).search(text)
    return match[0] if match else ""


def _find_all(text: str, pattern: str) -> list[str]:
    return [match[0] for match in compile_pattern(pattern).finditer(text)]


def _url(text: str) -> SplitResult | None:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return None
    absolute = bool(parts.scheme) and not re.search(r"\s", text)
    return parts if absolute or text.startswith("/") else None


def _of_url(get: Callable[[SplitResult], JsonValue]) -> Callable[[str], JsonValue]:
    return lambda text: get(_url(text) or SplitResult("", "", "", "", ""))


def _is_quantity(text: JsonValue) -> bool:
    try:
        parse(text)
    except (TypeError, ValueError):
        return False
    return True


def _compare(a: str, b: str) -> int:
    x, y = parse(a), parse(b)
    return (x > y) - (x < y)


_FUNCTIONS: Final[dict[str, Callable[..., JsonValue]]] = {
    "charAt": lambda text, index: text[index : index + 1],
    "find": _find,
    "findAll": _find_all,
    "format": _format,
    "indexOf": lambda where, what: (
        where.find(what) if isinstance(where, str) else (where.index(what) if what in where else -1)
    ),
    "isSorted": lambda items: all(a <= b for a, b in pairwise(items)),
    "join": lambda items, separator="": separator.join(items),
    "lastIndexOf": lambda text, what: text.rfind(what),
    "lowerAscii": lambda text: text.lower(),
    "max": lambda *items: max(items[0] if len(items) == 1 else items),
    "min": lambda *items: min(items[0] if len(items) == 1 else items),
    "replace": _replace,
    "split": _split,
    "substring": _substring,
    "sum": sum,
    "trim": lambda text: text.strip(),
    "upperAscii": lambda text: text.upper(),
    "isURL": lambda text: _url(text) is not None,
    "url": lambda text: text,
    "getScheme": _of_url(lambda url: url.scheme),
    "getHost": _of_url(lambda url: url.netloc.rpartition("@")[2]),
    "getHostname": _of_url(lambda url: url.hostname or ""),
    "getPort": _of_url(lambda url: str(url.port or "")),
    "getEscapedPath": _of_url(lambda url: url.path),
    "getQuery": _of_url(lambda url: parse_qs(url.query, keep_blank_values=True)),
    "isQuantity": _is_quantity,
    "quantity": lambda text: format_quantity(parse(text), like=text),
    "isGreaterThan": lambda a, b: _compare(a, b) > 0,
    "isLessThan": lambda a, b: _compare(a, b) < 0,
    "compareTo": _compare,
    "isInteger": lambda text: parse(text).denominator == 1,
    "asInteger": lambda text: int(parse(text)),
    "asApproximateFloat": lambda text: float(parse(text)),
}
# `format.uuid()` is a call of `uuid` on the variable `format`; its value is the name, which `validate` takes.
_FUNCTIONS.update({name: partial(_named, name) for name in _NAMED_FORMATS})


def functions_for(names: Iterable[str], optional: JsonValue) -> dict[str, Callable[..., JsonValue]]:
    """The functions of these names that the package lacks. `optional` is its type of optional values."""
    found = {name: _FUNCTIONS[name] for name in names if name in _FUNCTIONS}
    if "validate" in names:

        def validate(format_name: str, text: str) -> JsonValue:
            valid = CHECKS[_NAMED_FORMATS[format_name]](text)
            return optional.none() if valid else optional.of([f"must be a valid {format_name}"])

        found["validate"] = validate
    return found
