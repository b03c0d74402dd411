"""One rule: what it covers of another."""

from __future__ import annotations

import pytest

from ktrain.local.apiserver.access.quoting import quote
from ktrain.local.apiserver.access.rules import Rule, uncovered


def rule(verbs, resources="", groups="core", names="", urls=""):
    named = tuple("" if group == "core" else group for group in groups.split())
    return Rule(tuple(verbs.split()), named if resources else (), *(tuple(p.split()) for p in (resources, names, urls)))


@pytest.mark.parametrize(
    ("held", "wanted", "missing"),
    [
        ("get list", rule("get", "pods"), []),
        ("get", rule("get watch", "pods"), ['{APIGroups:[""], Resources:["pods"], Verbs:["watch"]}']),
        ("*", rule("bind", "pods"), []),
        ("get", rule("*", "pods"), ['{APIGroups:[""], Resources:["pods"], Verbs:["*"]}']),
        ("get", rule("get", "pods/log"), ['{APIGroups:[""], Resources:["pods/log"], Verbs:["get"]}']),
        ("get", rule("get", "pods", "*"), ['{APIGroups:["*"], Resources:["pods"], Verbs:["get"]}']),
        ("get", rule("get", "pods", names="a"), []),
        ("get", rule("get", urls="/x"), ['{NonResourceURLs:["/x"], Verbs:["get"]}']),
    ],
)
def test_what_a_rule_for_pods_covers(held, wanted, missing):
    assert [str(one) for one in uncovered([rule(held, "pods")], [wanted])] == missing


def test_names_are_covered_one_by_one_and_never_all():
    held = [rule("get", "secrets", names="a b")]

    assert uncovered(held, [rule("get", "secrets", names="b")]) == []
    assert uncovered(held, [rule("get", "secrets", names="b c")]) == [rule("get", "secrets", names="c")]
    assert uncovered(held, [rule("get", "secrets")]) == [rule("get", "secrets")]


def test_paths_are_covered_by_their_prefix():
    held = [rule("get", urls="/a/*")]

    assert uncovered(held, [rule("get", urls="/a/b /a/*")]) == []
    assert uncovered(held, [rule("get", urls="/a")]) == [rule("get", urls="/a")]


def test_several_rules_cover_together():
    held = [rule("get", "pods"), rule("list", "pods"), rule("get list", "nodes")]

    assert uncovered(held, [rule("get list", "pods nodes")]) == []


def test_what_is_missing_of_one_resource_is_put_together():
    missing = uncovered([], [rule("get list", "pods jobs", "core batch"), rule("get", "pods")])

    assert len(missing) == 4
    assert {one.verbs for one in missing} == {("get", "list")}


def test_a_rule_too_broad_to_list_is_shown_whole():
    many = Rule(tuple(map(str, range(100))), ("",), tuple(map(str, range(100))), tuple(map(str, range(100))))

    assert uncovered([rule("get", "pods")], [many]) == [many]


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("a", '"a"'),
        ('"\\', '"\\"\\\\"'),
        ("\n\t\x01", '"\\n\\t\\x01"'),
        ("ü", '"ü"'),
        ("\u2028\U000e0001", '"\\u2028\\U000e0001"'),
    ],
)
def test_names_are_quoted_as_go_quotes_them(text, quoted):
    assert quote(text) == quoted
