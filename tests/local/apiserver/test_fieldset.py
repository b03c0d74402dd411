"""The algebra of field sets, checked against plain sets of paths."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrain.local.apiserver.fields.fieldset import (
    EMPTY,
    FieldSetError,
    difference,
    intersection,
    is_member,
    item_key,
    parse,
    paths,
    union,
    without_branches,
)

elements = st.sampled_from(["f:a", "f:b", 'k:{"n":1}', 'v:"x"'])
path_sets = st.sets(st.lists(elements, min_size=1, max_size=3).map(tuple), max_size=8)


def build(members):
    """The canonical set of these paths."""
    tree = {}
    for member in members:
        node = tree
        for element in member:
            node = node.setdefault(element, {})
        node["."] = {}
    return parse(tree)


def flat(fields, prefix=()):
    """The paths of a set."""
    found = set()
    for element, node in fields.items():
        if element == ".":
            continue
        if is_member(node):
            found.add((*prefix, element))
        found |= flat(node, (*prefix, element))
    return found


@given(path_sets, path_sets)
def test_operations_are_those_of_sets_of_paths(a, b):
    x, y = build(a), build(b)

    assert flat(x) == a
    assert union(x, y) == build(a | b)
    assert difference(x, y) == build(a - b)
    assert intersection(x, y) == build(a & b)


@given(path_sets, path_sets)
def test_operations_leave_their_arguments_alone(a, b):
    x, y = build(a), build(b)
    union(x, y), difference(x, y), intersection(x, y)

    assert (x, y) == (build(a), build(b))


@given(path_sets)
def test_what_changes_nothing_gives_back_the_set_itself(a):
    x = build(a)

    assert union(x, EMPTY) is x or not a
    assert union(x, build(a)) is x or not a
    assert difference(x, EMPTY) is x
    assert difference(x, build({("f:z",)})) is x


@given(path_sets)
def test_parsing_a_set_gives_the_same_set(a):
    assert parse(build(a)) == build(a)


def test_parsing_makes_keys_canonical():
    sent = {"f:spec": {'k:{"protocol": "TCP", "port": 80}': {".": {}, "f:name": {}}, "f:image": {".": {}}}}

    assert parse(sent) == {"f:spec": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:name": {}}, "f:image": {}}}
    assert item_key({"protocol": "TCP", "port": 80}) == 'k:{"port":80,"protocol":"TCP"}'


@pytest.mark.parametrize(
    "wire", [None, [], {"f:": {}}, {"x:a": {}}, {"k:": {}}, {"k:[1]": {}}, {"v:zork": {}}, {"i:x": {}}, {"f:a": 1}]
)
def test_what_is_no_tree_of_path_elements_is_refused(wire):
    with pytest.raises(FieldSetError):
        parse(wire)


def test_paths_print_as_in_conflicts():
    fields = {
        "f:spec": {
            "f:labels": {"f:x": {}},
            "f:name": {},
            "f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:name": {}}},
            "f:tags": {'v:"a"': {}},
        }
    }

    assert list(paths(fields)) == [
        ".spec.name",
        ".spec.labels.x",
        '.spec.ports[port=80,protocol="TCP"]',
        '.spec.ports[port=80,protocol="TCP"].name',
        '.spec.tags[="a"]',
    ]


def test_branches_go_with_all_below():
    fields = {"f:spec": {"f:a": {}}, "f:status": {"f:b": {}}}

    assert without_branches(fields, ("status",)) == {"f:spec": {"f:a": {}}}
    assert without_branches(fields, ("other",)) is fields
