"""What is said of expressions before they run."""

import pytest

from ktrain.api.schema.cel import DYN, check, object_type

TYPES = {
    "self": object_type(
        {"n": ("int",), "s": ("string",), "l": ("list", ("string",)), "m": ("map", ("string",), ("int",))}
    ),
    "any": DYN,
}
OPERANDS = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("self.n > 1 && self.s == 'a'", ("bool",)),
        ("self.l.map(x, x.size())", ("list", ("int",))),
        ("self.m.filter(k, self.m[k] > 1)", ("list", DYN)),
        ("self.?s", ("optional", ("string",))),
        ("self.?s.orValue('x')", ("string",)),
        ("any.whatever + 1", ("int",)),
        ("any", DYN),
        ("[1, 2]", ("list", ("int",))),
        ("quantity(self.s)", ("quantity",)),
        ("self.n > 1 ? 'a' : 'b'", ("string",)),
    ],
)
def test_the_type_of_an_expression_is_known(source, kind):
    assert check(source, TYPES) == (kind, "")


@pytest.mark.parametrize(
    ("source", "place", "text"),
    [
        ("self ==", "1:8", f"Syntax error: mismatched input '<EOF>' expecting {OPERANDS}"),
        ("self.n > 1\n  && foo", "2:6", "undeclared reference to 'foo' (in container '')"),
        ("self.nope", "1:5", "undefined field 'nope'"),
        ("self.n > 'a'", "1:8", "found no matching overload for '_>_' applied to '(int, string)'"),
        ("self.s.size(1)", "1:12", "found no matching overload for 'size' applied to 'string.(int)'"),
        ("self.n.x", "1:7", "type 'int' does not support field selection"),
        ("nope(1)", "1:5", "undeclared reference to 'nope' (in container '')"),
        ("self.n && true", "1:8", "found no matching overload for '_&&_' applied to '(int, bool)'"),
        ("[1, 'a']", "1:5", "expected type 'int' but found 'string'"),
        ("self.s.matches('(')", "1:16", "invalid matches argument"),
        ("duration('x')", "1:10", "invalid duration argument"),
        ("has(self)", "1:5", "invalid argument to has() macro"),
        ("self.n.all(x, true)", "1:5", "expression of type 'int' cannot be range of a comprehension"),
        ("if", "1:1", "reserved identifier: if"),
        ("'a", "1:1", "Syntax error: token recognition error at: '''"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(source, place, text):
    _, problem = check(source, TYPES)
    assert problem.startswith(f"ERROR: <input>:{place}: {text}")
    assert f"\n | {source.splitlines()[int(place[0]) - 1]}\n | " in problem


def test_all_problems_are_told_in_the_order_of_their_places():
    _, problem = check("b == a", {})
    assert [line for line in problem.splitlines() if line.startswith("ERROR")] == [
        "ERROR: <input>:1:1: undeclared reference to 'b' (in container '')",
        "ERROR: <input>:1:6: undeclared reference to 'a' (in container '')",
    ]
