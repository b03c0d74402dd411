"""
The part of Kubernetes' JSONPath that printer columns use.

    .a.b   .a\\.b   ['a.b']   [0]   [-1:]   [*]   [?(@.type=="Ready")].status

A path is compiled once, to steps that each map a list of values to a list of values. Missing keys give no result.

Source: https://kubernetes.io/docs/reference/kubectl/jsonpath/
"""

from __future__ import annotations

import operator
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ktrain.api.meta import JsonValue

_TOKEN: Final = re.compile(
    r"""\.(?P<field>(?:[^.\[\]\\'" ]|\\.)+)
      | \[(?P<quoted>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\]
      | \[\?\((?P<filter>.*?)\)\]
      | (?P<all>\[\*\]|\.\*)
      | \[(?P<index>-?\d+)\]
      | \[(?P<start>-?\d*):(?P<stop>-?\d*)\]""",
    re.VERBOSE,
)
_CONDITION: Final = re.compile(r"""\s*@(?P<path>[^=!<>\s]*)\s*(?:(?P<operator>==|!=|<=|>=|<|>)\s*(?P<value>.+?))?\s*""")
_OPERATORS: Final[dict[str, Callable[[JsonValue, JsonValue], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class JsonPath:
    """A compiled path."""

    def __init__(self, steps: list[Callable[[JsonValue], Iterator[JsonValue]]]) -> None:
        self._steps = steps

    def find(self, value: JsonValue) -> list[JsonValue]:
        """Return all that the path leads to, in document order."""
        found = [value]
        for step in self._steps:
            found = [result for one in found for result in step(one)]
        return found


@lru_cache(maxsize=512)
def compile_path(path: str) -> JsonPath:
    """
    Compile a path, with or without the leading dot.

    Raises:
        ValueError: It is no path of this subset.
    """
    text = path.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    if text and text[0] not in ".[":
        text = f".{text}"
    steps: list[Callable[[JsonValue], Iterator[JsonValue]]] = []
    position = 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            raise ValueError(f"cannot read the JSONPath {path!r} from {text[position:]!r} on")
        steps.append(_step(token))
        position = token.end()
    return JsonPath(steps)


def _step(token: re.Match[str]) -> Callable[[JsonValue], Iterator[JsonValue]]:
    kind = token.lastgroup
    if token["field"] is not None:
        return _field(re.sub(r"\\(.)", r"\1", token["field"]))
    if token["quoted"] is not None:
        return _field(re.sub(r"\\(.)", r"\1", token["quoted"][1:-1]))
    if token["filter"] is not None:
        return _filter(token["filter"])
    if kind == "all":
        return _every
    if token["index"] is not None:
        index = int(token["index"])
        return _slice(slice(index, index + 1 or None))
    return _slice(slice(_bound(token["start"]), _bound(token["stop"])))


def _bound(text: str) -> int | None:
    return int(text) if text else None


def _field(name: str) -> Callable[[JsonValue], Iterator[JsonValue]]:
    def step(value: JsonValue) -> Iterator[JsonValue]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _slice(part: slice) -> Callable[[JsonValue], Iterator[JsonValue]]:
    def step(value: JsonValue) -> Iterator[JsonValue]:
        if isinstance(value, list):
            yield from value[part]

    return step


def _every(value: JsonValue) -> Iterator[JsonValue]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _filter(text: str) -> Callable[[JsonValue], Iterator[JsonValue]]:
    condition = _CONDITION.fullmatch(text)
    if condition is None:
        raise ValueError(f"cannot read the JSONPath filter {text!r}")
    path = compile_path(condition["path"])
    compare = _OPERATORS.get(condition["operator"] or "")
    wanted = _literal(condition["value"]) if compare else None

    def holds(item: JsonValue) -> bool:
        results = path.find(item)
        if not results or compare is None:
            return bool(results)
        try:
            return compare(results[0], wanted)
        except TypeError:
            return False

    def step(value: JsonValue) -> Iterator[JsonValue]:
        if isinstance(value, list):
            yield from filter(holds, value)

    return step


def _literal(text: str) -> JsonValue:
    if text[0] == text[-1] == "'":
        return text[1:-1]
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise ValueError(f"cannot read the JSONPath value {text!r}") from error
