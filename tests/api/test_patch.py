"""Merge patches and JSON patches."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrain.api.patch import PatchError, equal, json_patch, merge_diff, merge_patch

scalars = st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "b"])
keys = st.sampled_from(["a", "b", "c", "d/e", "~"])


def documents(leaves):
    values = st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3))
    return st.dictionaries(keys, values, max_size=4)


null_free = documents(scalars)
with_nulls = documents(scalars | st.none())


@pytest.mark.parametrize(
    ("doc", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch_follows_rfc_7386(doc, patch, expected):
    assert merge_patch(doc, patch) == expected


@given(with_nulls, with_nulls)
def test_merge_patch_is_idempotent_and_leaves_its_inputs_alone(doc, patch):
    before = copy.deepcopy((doc, patch))
    once = merge_patch(doc, patch)

    assert merge_patch(once, patch) is once
    assert (doc, patch) == before


def test_merge_patch_shares_what_it_does_not_change():
    doc = {"spec": {"a": 1}, "status": {"b": 2}}
    patched = merge_patch(doc, {"status": {"b": 3}})

    assert patched["spec"] is doc["spec"]
    assert merge_patch(doc, {"status": {"b": 2}}) is doc


def test_true_is_not_one():
    assert merge_patch({"a": 1}, {"a": True})["a"] is True
    assert not equal([{"a": 1}], [{"a": True}])
    assert equal({"a": 1}, {"a": 1.0})


@given(null_free, null_free)
def test_merge_diff_leads_from_old_to_new(old, new):
    patch = merge_diff(old, new)

    assert equal(merge_patch(old, patch), new)
    assert (patch == {}) is equal(old, new)


def test_merge_diff_holds_only_what_differs():
    old = {"a": {"b": 1, "c": 2}, "d": [1], "e": 1}
    new = {"a": {"b": 1, "c": 3}, "d": [1]}

    assert merge_diff(old, new) == {"a": {"c": 3}, "e": None}


DOC = {"a": {"b": [1, 2]}, "~x/y": 1, "": 2}


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ([{"op": "add", "path": "/a/b/-", "value": 3}], {**DOC, "a": {"b": [1, 2, 3]}}),
        ([{"op": "add", "path": "/a/b/0", "value": 0}], {**DOC, "a": {"b": [0, 1, 2]}}),
        ([{"op": "add", "path": "/a/b/2", "value": 0}], {**DOC, "a": {"b": [1, 2, 0]}}),
        ([{"op": "replace", "path": "/a/b/1", "value": None}], {**DOC, "a": {"b": [1, None]}}),
        ([{"op": "remove", "path": "/~0x~1y"}], {"a": {"b": [1, 2]}, "": 2}),
        ([{"op": "replace", "path": "/", "value": 3}], {**DOC, "": 3}),
        ([{"op": "move", "from": "/a/b/0", "path": "/c"}], {**DOC, "a": {"b": [2]}, "c": 1}),
        ([{"op": "move", "from": "/a", "path": "/a"}], DOC),
        ([{"op": "copy", "from": "/a/b", "path": "/c"}], {**DOC, "c": [1, 2]}),
        ([{"op": "test", "path": "/a", "value": {"b": [1, 2.0]}}], DOC),
        ([{"op": "test", "path": "/a/none", "value": None}], DOC),
        ([{"op": "replace", "path": "", "value": [1]}], [1]),
        ([], DOC),
    ],
)
def test_json_patch_follows_rfc_6902(operations, expected):
    before = copy.deepcopy(DOC)

    assert json_patch(DOC, operations) == expected
    assert before == DOC


@pytest.mark.parametrize(
    ("operation", "text"),
    [
        ({"op": "test", "path": "/a/b/0", "value": True}, "another value"),
        ({"op": "test", "path": "/a"}, "another value"),
        ({"op": "test", "path": "/none", "value": 1}, "another value"),
        ({"op": "test", "path": "/none/a", "value": None}, "there is no"),
        ({"op": "test", "path": "/a/b/9", "value": None}, "there is no"),
        ({"op": "remove", "path": "/nope"}, "there is no 'nope'"),
        ({"op": "replace", "path": "/a/b/2", "value": 1}, "there is no '2'"),
        ({"op": "replace", "path": "/a/b/x", "value": 1}, "there is no 'x'"),
        ({"op": "replace", "path": "/a/b/-3", "value": 1}, "there is no '-3'"),
        ({"op": "copy", "from": "", "path": "/c"}, "cannot be copied"),
        ({"op": "add", "path": "", "value": {}}, "unknown op"),
        ({"op": "add", "path": "/a/b/3", "value": 1}, "no index to insert at"),
        ({"op": "add", "path": "/a/b/0/c", "value": 1}, "no object or list"),
        ({"op": "remove", "path": ""}, "whole document"),
        ({"op": "move", "from": "/a", "path": "/a/b/0"}, "into itself"),
        ({"op": "zork", "path": "/a"}, "unknown op 'zork'"),
        ({"op": "add", "path": "a", "value": 1}, "JSON pointer"),
        ("add", "must be an object"),
    ],
)
def test_an_operation_that_does_not_apply_says_which_and_why(operation, text):
    with pytest.raises(PatchError, match=text) as caught:
        json_patch(DOC, [{"op": "add", "path": "/z", "value": 1}, operation])

    assert str(caught.value).startswith("operation 1: ")


def test_copies_cannot_blow_up_a_document():
    doubling = [{"op": "copy", "from": "/a", "path": f"/a/c{number}"} for number in range(60)]

    with pytest.raises(PatchError, match="copies more than"):
        json_patch({"a": {"x": "y" * 100}}, doubling)


def test_a_path_may_be_longer_than_the_stack_is_deep():
    nest = [{"op": "add", "path": "/a" * depth, "value": {}} for depth in range(1, 1500)]

    patched = json_patch({}, nest)

    depth = 0
    while patched:
        patched, depth = patched["a"], depth + 1
    assert depth == 1499
