"""RE2 patterns: its dialect, in linear time, whichever engine does the work."""

import time

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from ktrain.api.schema.patterns import compile_pattern


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


@pytest.mark.parametrize("pattern", ["(x+x+)+y", "(.*)(.*)(.*)(.*)z", "([a-z]+)*1", "x*x*x*x*y"])
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


@given(
    pattern=st.text("ab[]^$.*+?|()+-\\dsz-{}1,", max_size=10),
    text=st.text("ab1- \n", max_size=10),
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
