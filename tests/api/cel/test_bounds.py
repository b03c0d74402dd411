"""Expressions that would take too long, too much, or too deep."""

import sys
import time

import pytest

from ktrain.api.schema.cel import Budget, CelError, OutOfBudget, check, compiled

TEN = "[1,2,3,4,5,6,7,8,9,10]"


@pytest.mark.parametrize(
    "source",
    [
        f"{TEN}{f'.map(x, {TEN}' * 9}{')' * 9}",
        f"{TEN}{f'.all(x, {TEN}' * 12}.all(x, true){')' * 12}",
        "optional.of('aaaaaaaaaa')" + ".optMap(x, x + x)" * 40,
        "optional.of(['a'])" + ".optMap(x, x + x)" * 40,
        "'a'.replace('', 'aaaaaaaaaa')" + ".replace('a', 'aaaaaaaaaa')" * 20,
    ],
)
def test_what_grows_or_loops_ends_when_its_budget_is_spent(source):
    begun = time.monotonic()
    with pytest.raises(CelError, match="cost limit exceeded"):
        compiled(source).evaluate({})
    assert time.monotonic() - begun < 10


def test_several_expressions_share_a_budget():
    loop = compiled("l.all(x, x >= 0)")
    budget = Budget(3000)
    loop.evaluate({"l": list(range(100))}, budget)
    assert 0 < budget.left < 3000
    with pytest.raises(OutOfBudget):
        loop.evaluate({"l": list(range(1000))}, budget)


def test_running_out_of_budget_is_no_error_that_logic_overlooks():
    with pytest.raises(OutOfBudget):
        compiled("l.all(x, x >= 0) || true").evaluate({"l": list(range(100))}, Budget(50))


@pytest.mark.parametrize("source", ["(" * 20_000 + "1" + ")" * 20_000, "1" + "+1" * 20_000, "a" + ".b" * 5000])
def test_what_is_nested_too_deep_is_refused(source):
    with pytest.raises(CelError, match="recursion limit exceeded"):
        compiled(source)


def test_what_is_long_but_flat_is_not():
    assert compiled("true" + " && true" * 5000).evaluate({}) is True
    assert compiled("!" * 1000 + "true").evaluate({}) is True


def test_a_text_of_a_million_characters_is_refused():
    with pytest.raises(CelError, match="exceeds limit"):
        compiled("1" * 1_000_000)


def test_no_pattern_takes_longer_than_its_text():
    begun = time.monotonic()
    assert compiled("t.matches('^(a+)+$')").evaluate({"t": "a" * 200 + "b"}) is False
    assert time.monotonic() - begun < 2


def test_an_expression_that_the_stack_has_no_room_for_is_refused():
    def deeper(frames):
        return deeper(frames - 1) if frames else check("1" + "+1" * 240, {})

    assert "recursion limit exceeded" in deeper(sys.getrecursionlimit() - 300)[1]
