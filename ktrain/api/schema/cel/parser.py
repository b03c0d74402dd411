"""
From tokens to a tree, after the grammar of the CEL specification: by precedence, macros expanded as they are met.

Nesting is bounded, as everything that later walks the tree does so by recursion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .errors import CelError, located
from .lexer import Token, tokenize
from .syntax import Call, Conditional, Ident, Index, ListOf, Literal, Logic, Macro, MapOf, Node, Select

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_DEPTH: Final = 250
_NESTED: Final = 4
"""What parentheses, arguments and the like count: they take more of Python's stack than a link of a chain."""
MAX_LENGTH: Final = 65_536
"""Characters. Upstream bounds the cost instead, which an expression of this size exceeds for other reasons."""
_LEVELS: Final = (
    {"<": "_<_", "<=": "_<=_", ">": "_>_", ">=": "_>=_", "==": "_==_", "!=": "_!=_", "in": "@in"},
    {"+": "_+_", "-": "_-_"},
    {"*": "_*_", "/": "_/_", "%": "_%_"},
)
_RESERVED: Final = frozenset(
    {"as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package"}
    | {"namespace", "return", "var", "void", "while"}
)
_CONSTANTS: Final = {"true": True, "false": False, "null": None}
_MACROS: Final = {
    ("all", 2): 1,
    ("exists", 2): 1,
    ("exists_one", 2): 1,
    ("existsOne", 2): 1,
    ("filter", 2): 1,
    ("map", 2): 1,
    ("map", 3): 1,
    ("optMap", 2): 1,
    ("optFlatMap", 2): 1,
    ("all", 3): 2,
    ("exists", 3): 2,
    ("existsOne", 3): 2,
    ("transformList", 3): 2,
    ("transformList", 4): 2,
    ("transformMap", 3): 2,
    ("transformMap", 4): 2,
    ("transformMapEntry", 3): 2,
    ("transformMapEntry", 4): 2,
}
"""By name and number of arguments: how many of these are variables."""
_EXPECTED: Final = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)


def parse(source: str) -> Node:
    """
    Return the tree of an expression.

    Raises:
        CelError: It does not follow the grammar, or is too large.
    """
    if len(source) > MAX_LENGTH:
        raise CelError(f"expression code point size exceeds limit: size: {len(source)}, limit {MAX_LENGTH}")
    return _Parser(source).whole()


class _Parser:
    def __init__(self, source: str) -> None:
        self._source = source
        self._tokens = tokenize(source)
        self._at = 0
        self._depth = 0

    def whole(self) -> Node:
        tree = self._expression()
        token = self._peek()
        if token.kind != "end":
            raise self._error(token, f"mismatched input '{token.text}' expecting <EOF>")
        return tree

    def _expression(self) -> Node:
        self._deeper(_NESTED)
        test = self._logic("||", "_||_")
        token = self._peek()
        if self._taken("?"):
            then = self._logic("||", "_||_")
            self._expect(":")
            test = Conditional(token.offset, test, then, self._expression())
        self._depth -= _NESTED
        return test

    def _logic(self, symbol: str, operator: str) -> Node:
        operands = [self._conjunction() if symbol == "||" else self._binary(0)]
        offset = self._peek().offset
        while self._taken(symbol):
            operands.append(self._conjunction() if symbol == "||" else self._binary(0))
        return Logic(offset, operator, tuple(operands)) if len(operands) > 1 else operands[0]

    def _conjunction(self) -> Node:
        return self._logic("&&", "_&&_")

    def _binary(self, level: int) -> Node:
        if level == len(_LEVELS):
            return self._unary()
        left = self._binary(level + 1)
        chained = 0
        while (token := self._peek()).text in _LEVELS[level] and token.kind in {"symbol", "ident"}:
            self._at += 1
            chained += 1
            self._deeper(1)
            left = Call(token.offset, _LEVELS[level][token.text], (left, self._binary(level + 1)))
        self._depth -= chained
        return left

    def _unary(self) -> Node:
        token = self._peek()
        count = 0
        while token.text in {"!", "-"} and self._peek().text == token.text and self._peek().kind == "symbol":
            self._at += 1
            count += 1
        operand = self._member()
        if token.text == "-" and count % 2 and isinstance(operand, Literal) and type(operand.value) in {int, float}:
            return Literal(token.offset, -operand.value)
        return Call(token.offset, f"{token.text}_", (operand,)) if count % 2 else operand

    def _member(self) -> Node:
        node = self._primary()
        chained = 0
        while True:
            token = self._peek()
            if token.kind != "symbol" or token.text not in {".", ".?", "[", "[?"}:
                self._depth -= chained
                return node
            self._at += 1
            chained += 1
            self._deeper(1)
            if token.text in {"[", "[?"}:
                node = Index(token.offset, node, self._expression(), token.text == "[?")
                self._expect("]")
                continue
            name = self._name()
            opening = self._peek()
            if token.text == "." and name.kind == "ident" and self._taken("("):
                node = self._call(opening, str(name.value), node)
            else:
                node = Select(token.offset, node, str(name.value), token.text == ".?")

    def _primary(self) -> Node:
        token = self._take()
        if token.kind == "literal":
            return self._literal(token)
        if token.kind == "ident":
            return self._named(token)
        if token.text == "(":
            inner = self._expression()
            self._expect(")")
            return inner
        if token.kind == "symbol" and token.text in {"[", "[?"}:
            return self._list(token)
        if token.text == "{":
            return self._map(token)
        if token.text == ".":
            return self._named(self._name())
        raise self._error(token, f"mismatched input '{token.text}' expecting {_EXPECTED}")

    def _literal(self, token: Token) -> Node:
        # The most negative number is written with a minus before a literal that is one too large.
        if isinstance(token.value, int) and token.value > 2**63 and type(token.value) is int:
            raise self._error(token, "invalid int literal")
        return Literal(token.offset, token.value)

    def _named(self, token: Token) -> Node:
        name = token.text
        if name in _CONSTANTS:
            return Literal(token.offset, _CONSTANTS[name])
        if name in _RESERVED:
            raise self._error(token, f"reserved identifier: {name}", syntax=False)
        opening = self._peek()
        if self._taken("("):
            return self._call(opening, name, None)
        return Ident(token.offset, name)

    def _call(self, opening: Token, name: str, target: Node | None) -> Node:
        args = tuple(self._arguments(")"))
        self._expect(")")
        if name == "has" and target is None and len(args) == 1:
            if not isinstance(args[0], Select):
                raise CelError(located(self._source, args[0].offset, "invalid argument to has() macro"))
            return Select(opening.offset, args[0].operand, args[0].field, test=True)
        count = _MACROS.get((name, len(args)))
        if count is None or target is None:
            return Call(opening.offset, name, args, target)
        names = args[:count]
        if not all(isinstance(one, Ident) for one in names):
            raise self._error(opening, "argument must be a simple name", syntax=False)
        return Macro(
            opening.offset, name, target, tuple(one.name for one in names if isinstance(one, Ident)), args[count:]
        )

    def _arguments(self, end: str) -> Iterator[Node]:
        while self._peek().text != end or self._peek().kind != "symbol":
            yield self._expression()
            if not self._taken(","):
                return

    def _list(self, token: Token) -> Node:
        items: list[Node] = []
        # The first question mark is read as one token with the bracket, as in an optional index.
        optional: set[int] = {0} if token.text == "[?" else set()
        while self._peek().text != "]":
            if self._taken("?"):
                optional.add(len(items))
            items.append(self._expression())
            if not self._taken(","):
                break
        self._expect("]")
        return ListOf(token.offset, tuple(items), frozenset(optional))

    def _map(self, token: Token) -> Node:
        entries: list[tuple[Node, Node]] = []
        optional: set[int] = set()
        while self._peek().text != "}":
            if self._taken("?"):
                optional.add(len(entries))
            key = self._expression()
            self._expect(":")
            entries.append((key, self._expression()))
            if not self._taken(","):
                break
        self._expect("}")
        return MapOf(token.offset, tuple(entries), frozenset(optional))

    def _name(self) -> Token:
        token = self._take()
        if token.kind not in {"ident", "quoted"}:
            raise self._error(token, f"no viable alternative at input '{token.text}'")
        return token

    def _deeper(self, by: int) -> None:
        self._depth += by
        if self._depth > MAX_DEPTH:
            raise CelError(f"expression recursion limit exceeded: {MAX_DEPTH}")

    def _peek(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._tokens[self._at]
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def _taken(self, symbol: str) -> bool:
        token = self._peek()
        if token.kind == "symbol" and token.text == symbol:
            self._at += 1
            return True
        return False

    def _expect(self, symbol: str) -> None:
        token = self._take()
        if token.kind != "symbol" or token.text != symbol:
            raise self._error(token, f"mismatched input '{token.text}' expecting '{symbol}'")

    def _error(self, token: Token, text: str, *, syntax: bool = True) -> CelError:
        return CelError(located(self._source, token.offset, f"Syntax error: {text}" if syntax else text))
