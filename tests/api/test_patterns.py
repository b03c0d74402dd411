"""RE2 patterns: its dialect, in linear time, whichever engine does the work."""

import time

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from ktrain.api.schema.patterns import Pattern, compile_pattern


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("a$", "a\n", False),
        (r"^\d+$", "٣", False),
        (r"a\z", "ba", True),
        ("^[[:alpha:]]+$", "abc", True),
        ("(?i)MAIN", "container main", True),
        (r"\Qa.b\E", "a.b", True),
        (r"^(a+)+$", "a" * 5000 + "b", False),
        ("é+", "caféé", True),
    ],
)
def test_what_matches(pattern, text, matches):
    assert compile_pattern(pattern).matches(text) is matches


@pytest.mark.parametrize("pattern", ["(", "(?=a)", r"(a)\1", "(?<!a)b", "a{1001}", "a*+", "[b-a]", "*"])
def test_what_re2_does_not_know_is_no_pattern(pattern):
    with pytest.raises(ValueError, match="error parsing regexp"):
        compile_pattern(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        *("(x+x+)+y", "(.*)(.*)(.*)(.*)z", "([a-z]+)*1", "x*x*x*x*y"),
        *("^" + "x?" * 30 + "x" * 30 + "y$", "(x|xx)?" * 30 + "y", "^" + "(([x-z]| )([x-z]| )?)?" * 25 + "@"),
        "^" + "x{0,9}" * 9 + "y",
    ],
)
def test_no_pattern_takes_longer_than_its_text_is_long(pattern):
    began = time.process_time()
    assert not compile_pattern(pattern).matches("x" * 100_000)
    assert time.process_time() - began < 20


def test_parts_are_found_up_to_a_limit():
    pattern = compile_pattern("[0-9]+")

    assert pattern.find("a1b22c333") == ["1", "22", "333"]
    assert pattern.find("a1b22c333", 2) == ["1", "22"]
    assert pattern.find("a1", 0) == []
    assert compile_pattern("(ab)+").find("xabab ab") == ["abab", "ab"]


ATOMS = st.sampled_from(["a", "b*", "[ab]+", r"\.?", "a{1,2}", "^", "$"])
GROUPS = st.recursive(
    ATOMS,
    lambda inner: st.builds(
        lambda rows, count: f"({'|'.join(rows)}){count}",
        st.lists(st.lists(inner, min_size=1, max_size=3).map("".join), min_size=1, max_size=2),
        st.sampled_from(["", "?", "*", "{2}"]),
    ),
    max_leaves=8,
)


@given(
    pattern=st.text("ab[]^$.*+?|()+-\\dsz-{}1,", max_size=10) | st.lists(GROUPS, max_size=3).map("".join),
    text=st.text("ab1.- \n", max_size=10),
)
def test_both_engines_agree(pattern, text):
    options = re2.Options()
    options.log_errors = False
    try:
        expected = re2.compile(pattern, options).search(text) is not None
    except re2.error:
        with pytest.raises(ValueError, match="error parsing regexp"):
            compile_pattern(pattern)
        return
    assert compile_pattern(pattern).matches(text) is expected


def test_a_quantity_needs_no_second_engine():
    """Which takes an API server with nothing to do three megabytes: every kind that has pods has quantities."""
    number = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    pattern = Pattern(rf"^(\+|-)?{number}(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?{number}))?$")

    assert [text for text in ("1", "-.5Gi", "1e3", "1 Gi", "1Gib", "x") if pattern.matches(text)] == [
        "1",
        "-.5Gi",
        "1e3",
    ]
    assert "_linear" not in vars(pattern)
