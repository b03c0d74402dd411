import pytest

from ktrain.api.core import ConfigMap
from ktrain.api.meta import ObjectMeta
from ktrain.framework.controller.predicates import (
    ANNOTATIONS_CHANGED,
    GENERATION_CHANGED,
    LABELS_CHANGED,
    VERSION_CHANGED,
    Changed,
    Events,
    Matching,
    label_selector,
)

NOTHING = (None, None)


def obj(**meta):
    return ConfigMap(metadata=ObjectMeta(name="a", namespace="default", **meta))


@pytest.mark.parametrize(
    ("predicate", "field", "before", "after"),
    [
        (VERSION_CHANGED, "resource_version", "1", "2"),
        (GENERATION_CHANGED, "generation", 1, 2),
        (LABELS_CHANGED, "labels", {"a": "1"}, {"a": "2"}),
        (ANNOTATIONS_CHANGED, "annotations", {}, {"a": "2"}),
    ],
)
def test_what_must_have_changed_concerns_updates_only(predicate, field, before, after):
    old, same, new = obj(**{field: before}), obj(**{field: before}), obj(**{field: after})

    assert predicate.rest(old, new) == (old, new)
    assert predicate.rest(old, same) == NOTHING
    assert predicate.rest(None, new) == (None, new)
    assert predicate.rest(old, None) == (old, None)


def test_an_object_that_begins_to_match_is_added_and_one_that_ceases_to_is_deleted():
    ours = label_selector("team=a")
    in_, out = obj(labels={"team": "a"}), obj(labels={"team": "b"})

    assert ours.rest(out, in_) == (None, in_)
    assert ours.rest(in_, out) == (in_, None)
    assert ours.rest(in_, in_) == (in_, in_)
    assert ours.rest(out, out) == NOTHING
    assert ours.rest(None, out) == NOTHING
    assert ours.rest(out, None) == NOTHING


@pytest.mark.parametrize("flipped", [False, True])
def test_a_selector_and_a_change_do_not_miss_the_object_that_is_relabelled(flipped):
    ours = label_selector("team=a")
    both = GENERATION_CHANGED & ours if flipped else ours & GENERATION_CHANGED
    in_, out = obj(labels={"team": "a"}), obj(labels={"team": "b"})
    newer = obj(labels={"team": "a"}, generation=2)

    assert both.rest(out, in_) == (None, in_)
    assert both.rest(in_, out) == (in_, None)
    assert both.rest(in_, in_) == NOTHING
    assert both.rest(in_, newer) == (in_, newer)


def test_either_of_two_changes_is_enough():
    either = GENERATION_CHANGED | LABELS_CHANGED
    first, relabelled, newer = obj(generation=1), obj(generation=1, labels={"a": "b"}), obj(generation=2)

    assert either.rest(first, relabelled) == (first, relabelled)
    assert either.rest(first, newer) == (first, newer)
    assert either.rest(first, first) == NOTHING


def test_or_keeps_the_half_that_one_of_them_keeps():
    either = label_selector("team=a") | label_selector("team=b")
    a, b, c = (obj(labels={"team": team}) for team in "abc")

    assert either.rest(a, b) == (a, b)
    assert either.rest(c, b) == (None, b)
    assert either.rest(a, c) == (a, None)
    assert either.rest(c, c) == NOTHING


def test_not_is_the_rest_of_the_event():
    others = ~label_selector("team=a")
    a, b = obj(labels={"team": "a"}), obj(labels={"team": "b"})

    assert others.rest(a, b) == (None, b)
    assert others.rest(b, a) == (b, None)
    assert others.rest(a, a) == NOTHING
    assert (~others).rest(a, b) == (a, None)
    assert (~GENERATION_CHANGED).rest(a, b) == (a, b)
    assert (~GENERATION_CHANGED).rest(None, b) == NOTHING


def test_functions_decide_by_event_and_those_not_given_let_it_pass():
    quiet = Events(updated=lambda old, new: False, deleted=lambda old: old.metadata.generation > 1)
    first, second = obj(generation=1), obj(generation=2)

    assert quiet.rest(None, first) == (None, first)
    assert quiet.rest(first, second) == NOTHING
    assert quiet.rest(first, None) == NOTHING
    assert quiet.rest(second, None) == (second, None)
    assert Events(added=lambda new: False).rest(None, first) == NOTHING


def test_functions_of_your_own_select_or_compare():
    big = Matching(lambda one: len(one.data) > 1)
    data = Changed(lambda one: one.data)
    small, large = ConfigMap(data={"a": "1"}), ConfigMap(data={"a": "1", "b": "2"})

    assert (big & data).rest(small, large) == (None, large)
    assert (big & data).rest(large, large) == NOTHING
