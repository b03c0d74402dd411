"""
Label and field selectors: the text forms of list and watch parameters, and the `LabelSelector` objects of specs.

Selectors are immutable and matching is a few dictionary look-ups: a watch matches every event of its kind twice, before
and after. Error texts are the API server's (k8s.io/apimachinery `labels` and `fields`): clients show them as they come.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .meta import Json


class SelectorError(ValueError):
    """A selector that cannot be read; the text is the API server's."""


@dataclass(frozen=True, slots=True)
class LabelRequirement:
    """
    One condition on a label.

    `operator` is one of `in`, `notin`, `exists`, `!`, `gt`, `lt`; equality is `in` with one value. `notin` and `!` hold
    for objects without the label, `gt` and `lt` only for labels that are integers.
    """

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels fulfil this requirement."""
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value is not None and value in self.values
            case "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
        (bound,) = self.values
        if value is None or not _INTEGER.fullmatch(value):
            return False
        return int(value) > int(bound) if self.operator == "gt" else int(value) < int(bound)


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All requirements must hold; without any, everything matches. `nothing` matches no object at all."""

    requirements: tuple[LabelRequirement, ...] = ()
    nothing: bool = False

    @classmethod
    def parse(cls, text: str) -> LabelSelector:
        """
        Read the text form: `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1,m<2`.

        Raises:
            SelectorError: The text does not follow the grammar, or a key or value is no label.
        """
        return cls(tuple(_Parser(text).selector()))

    @classmethod
    def from_object(cls, selector: Json | None) -> LabelSelector:
        """
        Read a `metav1.LabelSelector`. None matches nothing, an empty one everything.

        Raises:
            SelectorError: An expression has an unknown operator, or values that do not go with it.
        """
        if selector is None:
            return cls(nothing=True)
        requirements = [
            _requirement(key, "in", [value]) for key, value in sorted((selector.get("matchLabels") or {}).items())
        ]
        for expression in selector.get("matchExpressions") or ():
            name = expression.get("operator", "")
            if name not in _OBJECT_OPERATORS:
                raise SelectorError(f'"{name}" is not a valid label selector operator')
            values = expression.get("values") or []
            requirements.append(_requirement(expression.get("key", ""), _OBJECT_OPERATORS[name], values))
        return cls(tuple(requirements))

    @property
    def is_everything(self) -> bool:
        """Whether every object matches."""
        return not self.requirements and not self.nothing

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        if self.nothing:
            return False
        for requirement in self.requirements:  # noqa: SIM110 - a generator would cost more than the loop's body
            if not requirement.matches(labels):
                return False
        return True


class FieldRequirement(NamedTuple):
    """One condition on a field: equal to the value, or not equal."""

    field: str
    value: str
    equal: bool


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """All requirements must hold; without any, everything matches. Which fields a kind knows is the server's matter."""

    requirements: tuple[FieldRequirement, ...] = ()

    @classmethod
    def parse(cls, text: str) -> FieldSelector:
        r"""
        Read the text form: `metadata.name=a,status.phase!=Failed`. In values, `\` escapes `,`, `=` and itself.

        Raises:
            SelectorError: A term has no operator, or a value a bad escape.
        """
        # Sorted as upstream sorts them, so that the first bad term reported is the same.
        terms = sorted(filter(None, _TERM.findall(text)))
        return cls(tuple(_field_requirement(term, text) for term in terms))

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Whether an object with these fields is selected. An absent field counts as empty."""
        return all((fields.get(r.field, "") == r.value) is r.equal for r in self.requirements)


_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_OBJECT_OPERATORS: Final = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}

_NAME: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_PREFIX: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_RULE: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', "
    "regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_PREFIX_RULE: Final = (
    "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and "
    "must start and end with an alphanumeric character (e.g. 'example.com', "
    "regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_VALUE_RULE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', "
    "regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def label_key_errors(key: str) -> list[str]:
    """Return what is wrong with a label or annotation key (`[prefix/]name`), in the API server's words."""
    prefix, slash, name = key.rpartition("/")
    if key.count("/") > 1:
        return [
            f"a valid label key {_NAME_RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    errors = []
    if slash and not prefix:
        errors.append("prefix part must be non-empty")
    elif slash and len(prefix) > 253:
        errors.append("prefix part must be no more than 253 bytes")
    if prefix and not _PREFIX.fullmatch(prefix):
        errors.append(_PREFIX_RULE)
    if not name:
        errors.append("name part must be non-empty")
    elif len(name) > 63:
        errors.append("name part must be no more than 63 bytes")
    if not _NAME.fullmatch(name):
        errors.append(f"name part {_NAME_RULE}")
    return errors


def label_value_errors(value: str) -> list[str]:
    """Return what is wrong with a label value, in the API server's words."""
    errors = ["must be no more than 63 bytes"] if len(value) > 63 else []
    if value and not _NAME.fullmatch(value):
        errors.append(_VALUE_RULE)
    return errors


def _requirement(key: str, operator: str, values: list[str]) -> LabelRequirement:
    _check_key(key)
    if operator in ("in", "notin") and not values:
        raise SelectorError("values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty")
    if operator in ("exists", "!") and values:
        raise SelectorError(f"values: Invalid value: {values}: values set must be empty for exists and does not exist")
    for index, value in enumerate(sorted(values)):
        if operator in ("gt", "lt") and not _INTEGER.fullmatch(value):
            detail = "for 'Gt', 'Lt' operators, the value must be an integer"
            raise SelectorError(f'values[{index}]: Invalid value: "{value}": {detail}')
        if errors := label_value_errors(value):
            raise SelectorError(f'values[{index}][{key}]: Invalid value: "{value}": {"; ".join(errors)}')
    return LabelRequirement(key, operator, frozenset(values))


def _check_key(key: str) -> None:
    if errors := label_key_errors(key):
        # Upstream has no path for the key, and says so.
        raise SelectorError(f'<nil>: Invalid value: "{key}": {"; ".join(errors)}')


_TOKEN: Final = re.compile(r"==|!=|[=!(),<>]|[^=!(),<>\s]+")
_SYMBOLS: Final = frozenset(("", "=", "==", "!=", "!", "(", ")", ",", "<", ">"))
_OPERATORS: Final = {"in": "in", "notin": "notin", "=": "in", "==": "in", "!=": "notin", ">": "gt", "<": "lt"}


class _Parser:
    """Reads the text form of a label selector. The end of the text is the empty token."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = [*_TOKEN.findall(text), ""]
        self._position = 0

    def selector(self) -> Iterator[LabelRequirement]:
        """Yield the requirements one by one."""
        if not self._peek():
            return
        self._expect_requirement("!, identifier, or 'end of string'")
        while True:
            try:
                yield self._requirement()
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from None
            symbol = self._take()
            if not symbol:
                return
            if symbol != ",":
                raise SelectorError(f"found '{symbol}', expected: ',' or 'end of string'")
            self._expect_requirement("identifier after ','")

    def _peek(self) -> str:
        return self._tokens[self._position]

    def _take(self) -> str:
        symbol = self._tokens[self._position]
        self._position = min(self._position + 1, len(self._tokens) - 1)
        return symbol

    def _expect_requirement(self, expected: str) -> None:
        symbol = self._peek()
        if symbol in _SYMBOLS and symbol != "!":
            raise SelectorError(f"found '{symbol}', expected: {expected}")

    def _requirement(self) -> LabelRequirement:
        negated = self._peek() == "!"
        if negated:
            self._take()
        key = self._identifier()
        _check_key(key)
        if negated:
            return _requirement(key, "!", [])
        if self._peek() in ("", ","):
            return _requirement(key, "exists", [])
        symbol = self._take()
        if symbol not in _OPERATORS:
            raise SelectorError(f"found '{symbol}', expected: in, notin, =, ==, !=, gt, lt")
        values = self._values() if symbol in ("in", "notin") else [self._value()]
        return _requirement(key, _OPERATORS[symbol], values)

    def _identifier(self) -> str:
        symbol = self._take()
        if symbol in _SYMBOLS:
            raise SelectorError(f"found '{symbol}', expected: identifier")
        return symbol

    def _value(self) -> str:
        return "" if self._peek() in ("", ",") else self._identifier()

    def _values(self) -> list[str]:
        """Read `(a,b)`. A missing value, as in `()`, `(,a)` or `(a,,b)`, is the empty one."""
        if (symbol := self._take()) != "(":
            raise SelectorError(f"found '{symbol}' expected: '('")
        if self._peek() in _SYMBOLS - {",", ")"}:
            raise SelectorError(f"found '{self._peek()}', expected: ',', ')' or identifier")
        values = {""} if self._peek() == ")" else set()
        while (symbol := self._take()) != ")":
            if symbol not in _SYMBOLS:
                values.add(symbol)
                if self._peek() not in (",", ")"):
                    raise SelectorError(f"found '{self._peek()}', expected: ',' or ')'")
            elif symbol != ",":
                raise SelectorError(f"found '{symbol}', expected: ',', or identifier")
            elif not values or self._peek() in (",", ")"):
                values.add("")
        return sorted(values)


_TERM: Final = re.compile(r"(?:[^,\\]|\\.)+\\?|\\", re.DOTALL)
_ASSIGNMENT: Final = re.compile(r"(.*?)(!=|==|=)(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(.?)|[,=]", re.DOTALL)


def _field_requirement(term: str, text: str) -> FieldRequirement:
    parts = _ASSIGNMENT.fullmatch(term)
    if parts is None:
        raise SelectorError(f"invalid selector: '{text}'; can't understand '{term}'")
    field, operator, value = parts.groups()
    return FieldRequirement(field, _ESCAPE.sub(_unescape, value), operator != "!=")


def _unescape(match: re.Match[str]) -> str:
    escaped: str | None = match[1]
    if escaped is None:
        raise SelectorError(f"invalid field selector: unescaped character in value: {ord(match[0])}")
    if escaped not in ("\\", ",", "="):
        raise SelectorError(f"invalid field selector: invalid escape sequence: {match[0]}")
    return escaped
