"""The store: one counter, frozen history, watchers that never block a writer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrain.api.meta import Json, Key
from ktrain.local.apiserver.storage.store import Expired, RevisionMismatch, Store


def obj(name: str, value: int = 0) -> Json:
    return {"kind": "K", "apiVersion": "v1", "metadata": {"name": name}, "value": value}


def key(name: str, namespace: str = "") -> Key:
    return Key(namespace, name)


def anything(_: object) -> bool:
    return True


def names(store: Store, revision: int) -> list[str]:
    return [k.name for k, _ in store.collection("things").entries_at(revision)]


def test_one_counter_numbers_commits_of_all_collections():
    store = Store()

    assert store.put("a", key("x"), obj("x"), expected=0).revision == 1
    assert store.put("b", key("x"), obj("x"), expected=0).revision == 2
    assert store.remove("a", key("x"), expected=1).revision == 3


def test_a_commit_computed_from_an_old_version_is_refused():
    store = Store()
    store.put("things", key("x"), obj("x"), expected=0)
    store.put("things", key("x"), obj("x", 1), expected=1)

    with pytest.raises(RevisionMismatch):
        store.put("things", key("x"), obj("x", 2), expected=1)
    with pytest.raises(RevisionMismatch):
        store.put("things", key("x"), obj("x", 2), expected=0)
    with pytest.raises(RevisionMismatch):
        store.remove("things", key("x"), expected=1)


def test_entries_come_by_namespace_then_name_and_can_be_of_one_namespace():
    store = Store()
    for namespace, name in (("b", "a"), ("a", "z"), ("a-b", "c"), ("a", "b")):
        store.put("things", key(name, namespace), obj(name), expected=0)

    things = store.collection("things")

    assert [k for k, _ in things.entries()] == [("a", "b"), ("a", "z"), ("a-b", "c"), ("b", "a")]
    assert [k for k, _ in things.entries("a")] == [("a", "b"), ("a", "z")]


def test_the_past_can_be_read_until_it_is_forgotten():
    store = Store(history=3)
    store.put("things", key("a"), obj("a"), expected=0)
    store.put("things", key("b"), obj("b"), expected=0)
    store.remove("things", key("a"), expected=1)
    store.put("things", key("c"), obj("c"), expected=0)

    assert names(store, 4) == ["b", "c"]
    assert names(store, 3) == ["b"]
    assert names(store, 1) == ["a"]
    with pytest.raises(Expired):
        names(store, 0)


def test_compaction_forgets_and_ends_running_watches_with_410():
    store = Store()
    store.put("things", key("a"), obj("a"), expected=0)
    watcher = store.collection("things").watch(anything, limit=10)
    store.put("things", key("b"), obj("b"), expected=0)

    store.compact(2)

    assert watcher.closed
    assert watcher.expired is not None
    with pytest.raises(Expired):
        names(store, 1)


def test_a_reader_that_is_too_slow_loses_its_watch_and_the_writer_does_not_notice():
    store = Store()
    slow = store.collection("things").watch(anything, limit=2)
    lively = store.collection("things").watch(anything, limit=100)

    for i in range(5):
        store.put("things", key(f"x{i}"), obj(f"x{i}"), expected=0)

    assert slow.closed
    assert slow.drain() == []
    assert [event.item.obj["metadata"]["name"] for event in lively.drain()] == [f"x{i}" for i in range(5)]


def test_a_watcher_sees_objects_enter_and_leave_its_view():
    store = Store()
    watcher = store.collection("things").watch(lambda item: item.obj["value"] > 0, limit=10)
    for number, value in enumerate((0, 1, 2, 0, 3)):
        store.put("things", key("x"), obj("x", value), expected=number)
    store.remove("things", key("x"), expected=5)

    events = [(e.type, e.item.obj["value"], e.item.obj["metadata"]["resourceVersion"]) for e in watcher.drain()]

    assert events == [
        ("ADDED", 1, "2"),
        ("MODIFIED", 2, "3"),
        ("DELETED", 2, "4"),
        ("ADDED", 3, "5"),
        ("DELETED", 3, "6"),
    ]


def test_json_is_made_once_and_shared():
    store = Store()
    item = store.put("things", key("a"), obj("a"), expected=0)

    assert item.body is item.body
    assert item.body == b'{"metadata":{"name":"a","resourceVersion":"1"},"value":0}'


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=30))
def test_undoing_changes_gives_every_past_state(steps: list[tuple[str, bool]]):
    store = Store()
    current: dict[str, int] = {}
    past = [{}]
    for name, remove in steps:
        if remove and name in current:
            store.remove("things", key(name), expected=current.pop(name))
        elif not remove:
            current[name] = store.put("things", key(name), obj(name), expected=current.get(name, 0)).revision
        else:
            continue
        past.append(dict(current))

    for revision, state in enumerate(past):
        found = store.collection("things").entries_at(revision)
        assert {k.name: item.revision for k, item in found} == state
