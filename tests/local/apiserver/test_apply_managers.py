"""Who owns what beside appliers: updates, and what clients write into managedFields."""

import pytest

from .applying import Server, conflicts


@pytest.fixture
def server():
    return Server()


# --- updates ----------------------------------------------------------------------------------------------------------


def test_who_creates_owns_everything_with_containers_and_defaults(server):
    server.post("upd", {"image": "a", "labels": {"k": "1"}})

    assert server.owned("upd", "Update") == {
        "spec", "defobj", "defobj.x", "image", "labels", "labels.k", "mode", "replicas",
    }  # fmt: skip
    assert conflicts(server, "ap", {"image": "b"}) == (
        'Apply failed with 1 conflict: conflict with "upd" using ex.test/v1: .spec.image'
    )


def test_an_update_takes_what_it_changes(server):
    server.post("upd", {"image": "a"})
    server.apply("ap", {"image": "a"})
    server.patch("upd", {"image": "z"})
    assert server.owned("ap") is None
    assert "image" in server.owned("upd", "Update")

    server.force("ap", {"image": "a"})
    server.patch("ap", {"image": "w"})
    assert server.owned("ap") is None
    assert server.owned("ap", "Update") == {"image"}
    assert conflicts(server, "ap", {"image": "a"}).endswith('conflict with "ap" using ex.test/v1: .spec.image')


def test_an_update_that_removes_owns_nothing_and_takes_it_from_all(server):
    server.post("upd", {"image": "a", "labels": {"k": "1"}})
    server.patch("other", {"labels": None})

    assert server.owned("other", "Update") is None
    assert not {"labels", "labels.k"} & server.owned("upd", "Update")


def test_an_updater_keeps_a_dropped_field_alive(server):
    server.post("upd", {"image": "a"})
    server.apply("ap", {"image": "a", "name": "n"})
    server.apply("ap", {})

    assert server.spec == {"image": "a"}


def test_what_is_written_equal_is_not_claimed(server):
    server.apply("m", {"image": "a"})
    server.patch("o", {"image": "a", "name": "q"})
    assert server.owned("o", "Update") == {"name"}

    server.apply("m", {"image": "a", "name": "q"})
    server.patch("o", {"image": None})
    assert server.owned("m") == {"name"}


def test_an_update_without_effect_leaves_the_object_equal(server):
    server.post("upd", {"image": "a"})
    before = server.live
    server.patch("other", {"image": "a"})

    assert server.live == before


def test_scaling_moves_replicas_to_the_subresource(server):
    server.apply("d2", {"replicas": 3})
    server.patch("hpa", {"replicas": 8}, "scale")

    assert server.owned("d2") is None
    assert server.owned("hpa", "Update", "scale") == {"replicas"}
    assert conflicts(server, "d2", {"replicas": 1}) == (
        'Apply failed with 1 conflict: conflict with "hpa" with subresource "scale" using ex.test/v1: .spec.replicas'
    )


# --- managedFields ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sent", [[], None, [{"manager": "x"}], [{"operation": "Apply", "fieldsType": "V2"}]])
def test_absent_or_broken_entries_keep_the_stored_ones(server, sent):
    server.post("u1", {"image": "a"})
    before = server.entries
    server.managed_fields(sent)

    assert server.entries == before


def test_valid_entries_are_taken_over(server):
    server.post("kubectl-client-side-apply", {"image": "a"})
    server.managed_fields([{**server.entries[0], "manager": "kubectl", "operation": "Apply"}])

    assert server.managers == [("kubectl", "Apply", "")]


def test_one_empty_entry_ends_tracking_until_the_next_apply(server):
    server.post("u1", {"image": "a"})
    server.managed_fields([{}])
    server.patch("u2", {"name": "n"})
    assert server.entries == []
    assert conflicts(server, "ap", {"image": "b"}) == (
        'Apply failed with 1 conflict: conflict with "before-first-apply" using ex.test/v1: .spec.image'
    )

    server.apply("ap", {"image": "a"})
    assert server.managers == [("ap", "Apply", ""), ("before-first-apply", "Update", "")]
    assert {"image", "name", "mode"} <= server.owned("before-first-apply", "Update")


def test_appliers_come_first_then_the_older_entry(server):
    server.post("z", {"name": "n"})
    server.apply("y", {"image": "a"})
    server.apply("x", {"labels": {"a": "1"}})
    server.patch("a", {"replicas": 2})

    assert [manager for manager, *_ in server.managers] == ["y", "x", "z", "a"]


def test_more_than_ten_updaters_of_a_version_are_joined_the_oldest_first(server):
    server.post("u0", {"labels": {}})
    for number in range(1, 13):
        server.patch(f"u{number}", {"labels": {f"k{number}": "1"}})

    names = [manager for manager, *_ in server.managers]
    assert sorted(names) == sorted(["ancient-changes", *(f"u{number}" for number in range(4, 13))])
    assert {"image", "labels.k3"} - server.owned("ancient-changes", "Update") == {"image"}


def test_metadata_lists_merge_by_owner(server):
    mine = {"finalizers": ["x/y"], "ownerReferences": [{"uid": "11", "name": "o"}], "labels": {"a": "1"}}
    server.apply("me", meta=mine)
    assert server.owned("me") == {"metadata.finalizers=x/y", "metadata.ownerReferences[11]", "metadata.labels.a"}

    server.apply("me2", meta={"finalizers": ["x/z"], "ownerReferences": [{"uid": "12", "name": "p"}]})
    server.apply("me")
    assert server.live["metadata"]["finalizers"] == ["x/z"]
    assert [o["uid"] for o in server.live["metadata"]["ownerReferences"]] == ["12"]
    assert server.live["metadata"]["name"] == "a", "what nobody may own stays"


def test_free_keys_are_owned_with_their_content(server):
    server.apply("me", {"free": {"a": {"b": 1}, "l": [1, 2]}, "nested": {}})
    assert server.owned("me") == {"free.a", "free.a.b", "free.l", "nested"}
    assert conflicts(server, "x", {"free": {"a": {"b": 2}}}).endswith('"me": .spec.free.a.b')
    assert ".spec.free.a" in conflicts(server, "x", {"free": {"a": "s"}})
