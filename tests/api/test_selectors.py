"""Label and field selectors: what matches, and the texts of errors (as a real API server 1.36 gives them)."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrain.api.selectors import (
    FieldRequirement,
    FieldSelector,
    LabelSelector,
    SelectorError,
    label_key_errors,
    label_value_errors,
)

LABELS = {"a": "1", "b": "x", "in": "y", "e": ""}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("a", True),
        ("!a", False),
        ("!z", True),
        ("a=1", True),
        ("a == 1", True),
        ("a!=1", False),
        ("z!=1", True),
        ("a in ( 1 , 2 )", True),
        ("a notin (1)", False),
        ("z notin (1)", True),
        ("z in (1)", False),
        ("a>0", True),
        ("a > 1", False),
        ("a<2", True),
        ("b>0", False),
        ("z<1", False),
        ("a=1,b=y", False),
        (" a = 1 , b in (x),!z", True),
        ("in in (y)", True),
        ("in", True),
        ("e=", True),
        ("e in ()", True),
        ("e in (,x)", True),
        ("b in (,x)", True),
        ("a=1,a=2", False),
    ],
)
def test_label_selectors_match(text, matches):
    assert LabelSelector.parse(text).matches(LABELS) is matches


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a===b", "unable to parse requirement: found '=', expected: identifier"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a(b", "unable to parse requirement: found '(', expected: in, notin, =, ==, !=, gt, lt"),
        (
            "a>b",
            (
                "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, "
                "the value must be an integer"
            ),
        ),
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        ("a in (b c)", "unable to parse requirement: found 'c', expected: ',' or ')'"),
        ("a,,b", "found ',', expected: identifier after ','"),
        ("a=b,", "found '', expected: identifier after ','"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("!!a", "unable to parse requirement: found '!', expected: identifier"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (=)", "unable to parse requirement: found '=', expected: ',', ')' or identifier"),
        ("a=b=c", "found '=', expected: ',' or 'end of string'"),
        ("/a", 'unable to parse requirement: <nil>: Invalid value: "/a": prefix part must be non-empty'),
    ],
)
def test_bad_label_selectors_are_refused_in_the_servers_words(text, message):
    with pytest.raises(SelectorError) as caught:
        LabelSelector.parse(text)

    assert str(caught.value) == message


@pytest.mark.parametrize("text", ["a@=b", "a=b@", "a in (b,@)", "A/ ", "a/b/c=d", "a=" + "x" * 64])
def test_keys_and_values_follow_the_label_grammar(text):
    with pytest.raises(SelectorError, match=r"consist of|no more than 63 bytes"):
        LabelSelector.parse(text)


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"a": "1"}}, True),
        ({"matchLabels": {"a": "2"}}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}, True),
        ({"matchExpressions": [{"key": "z", "operator": "NotIn", "values": ["1"]}]}, True),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}, {"key": "z", "operator": "DoesNotExist"}]}, True),
        ({"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "z", "operator": "Exists"}]}, False),
    ],
)
def test_selector_objects_match(selector, matches):
    assert LabelSelector.from_object(selector).matches(LABELS) is matches


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ({"key": "a", "operator": "Zork"}, '"Zork" is not a valid label selector operator'),
        ({"key": "a", "operator": "In"}, "values set can't be empty"),
        ({"key": "a", "operator": "Exists", "values": ["x"]}, "values set must be empty"),
    ],
)
def test_bad_expressions_are_refused(expression, text):
    with pytest.raises(SelectorError, match=text):
        LabelSelector.from_object({"matchExpressions": [expression]})


def test_everything_is_known_as_such():
    assert LabelSelector.parse("").is_everything
    assert not LabelSelector.parse("a").is_everything
    assert not LabelSelector.from_object(None).is_everything


@given(st.text(max_size=12, alphabet="ab=!(),<> in"))
def test_any_text_is_read_or_refused(text):
    with contextlib.suppress(SelectorError):
        LabelSelector.parse(text).matches(LABELS)


def test_field_selectors_are_requirements():
    selector = FieldSelector.parse(r"spec.x!=b\,c\=\\,metadata.name==a")

    assert selector.requirements == (
        FieldRequirement("metadata.name", "a", equal=True),
        FieldRequirement("spec.x", "b,c=\\", equal=False),
    )
    assert selector.matches({"metadata.name": "a"})
    assert not selector.matches({"metadata.name": "a", "spec.x": "b,c=\\"})


def test_an_absent_field_is_empty():
    assert FieldSelector.parse("spec.image=").matches({})
    assert not FieldSelector.parse("spec.image!=").matches({})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("foo", "invalid selector: 'foo'; can't understand 'foo'"),
        ("a=b,foo", "invalid selector: 'a=b,foo'; can't understand 'foo'"),
        (r"a=\x", r"invalid field selector: invalid escape sequence: \x"),
        ("a=b\\", "invalid field selector: invalid escape sequence: \\"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
    ],
)
def test_bad_field_selectors_are_refused_in_the_servers_words(text, message):
    with pytest.raises(SelectorError) as caught:
        FieldSelector.parse(text)

    assert str(caught.value) == message


@pytest.mark.parametrize("key", ["a", "a.b/c_d", "A-1", "x" * 63])
def test_good_keys_have_no_errors(key):
    assert label_key_errors(key) == []


@pytest.mark.parametrize("key", ["", "-a", "a/", "A.b/c", "a/b/c", "x" * 64, "y" * 254 + "/a"])
def test_bad_keys_have_errors(key):
    assert label_key_errors(key)


def test_values_may_be_empty_but_not_long():
    assert label_value_errors("") == []
    assert label_value_errors("x" * 64) == ["must be no more than 63 bytes"]
