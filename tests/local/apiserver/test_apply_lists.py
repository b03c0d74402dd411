"""Server-side apply of lists and sets: merged, ordered, owned item by item."""

import pytest

from .applying import Server, conflicts


@pytest.fixture
def server():
    return Server()


# --- lists ------------------------------------------------------------------------------------------------------------


def test_sets_merge_by_value(server):
    server.apply("s1", {"tags": ["a", "b"]})
    server.apply("s2", {"tags": ["b", "c"]})
    assert server.spec["tags"] == ["a", "b", "c"]

    server.apply("s1", {"tags": ["d"]})
    assert server.spec["tags"] == ["b", "c", "d"]
    assert server.owned("s1") == {"tags=d"}


def test_list_items_merge_by_key_and_go_with_their_last_owner(server):
    server.apply("l1", {"conts": [{"name": "x", "image": "i1", "env": [{"name": "E", "value": "1"}]}, {"name": "y"}]})
    assert server.owned("l1") == {
        "conts[x]", "conts[x].name", "conts[x].image", "conts[x].env[E]", "conts[x].env[E].name",
        "conts[x].env[E].value", "conts[y]", "conts[y].name",
    }  # fmt: skip

    env = [{"name": "F", "value": "2"}]
    server.apply("l2", {"conts": [{"name": "x", "env": env}, {"name": "z", "image": "zz"}]})
    assert [c["name"] for c in server.spec["conts"]] == ["x", "y", "z"]
    assert [e["name"] for e in server.spec["conts"][0]["env"]] == ["E", "F"]

    server.apply("l1", {"conts": [{"name": "x", "image": "i1"}]})
    assert server.spec["conts"] == [{"name": "x", "image": "i1", "env": env}, {"name": "z", "image": "zz"}]

    server.apply("l1", {"conts": []})
    assert server.spec["conts"][0] == {"name": "x", "env": env}
    assert server.owned("l1") is None

    server.apply("l2", {"conts": [{"name": "z", "image": "zz"}, {"name": "x"}]})
    assert server.spec["conts"] == [{"name": "z", "image": "zz"}, {"name": "x"}]


def test_an_empty_list_names_nothing_but_does_not_take_its_parent_along(server):
    server.apply("m1", {})
    server.apply("m1", {"conts": []})

    assert server.spec == {"conts": []}
    assert server.live["spec"]["mode"] == "A"


def test_missing_key_parts_take_their_default(server):
    server.apply("p1", {"ports": [{"port": 80, "name": "h"}]})
    assert server.owned("p1") == {"ports[80,TCP]", "ports[80,TCP].name", "ports[80,TCP].port"}

    server.apply("p2", {"ports": [{"port": 80, "protocol": "TCP", "hostPort": 1}, {"port": 80, "protocol": "UDP"}]})
    assert server.spec["ports"] == [
        {"name": "h", "port": 80, "protocol": "TCP", "hostPort": 1},
        {"port": 80, "protocol": "UDP"},
    ]
    assert "ports[80,UDP].protocol" in server.owned("p2")

    server.apply("p1", {"ports": []})
    assert server.spec["ports"][0] == {"port": 80, "protocol": "TCP", "hostPort": 1}
    assert server.owned("p1") is None


def test_atomic_values_conflict_as_a_whole(server):
    server.apply("a1", {"atomic": ["1"], "plain": ["p"], "amap": {"x": "1"}})
    assert server.owned("a1") == {"amap", "atomic", "plain"}
    assert conflicts(server, "a2", {"atomic": ["2"], "amap": {"y": "1"}}) == (
        'Apply failed with 2 conflicts: conflicts with "a1":\n- .spec.amap\n- .spec.atomic'
    )

    server.apply("a2", {"atomic": ["1"]})
    server.apply("a1", {"plain": ["q", "r"]})
    assert server.spec == {"atomic": ["1"], "plain": ["q", "r"]}


@pytest.mark.parametrize(
    ("live", "config", "expected"),
    [
        ("ab", "bc", "abc"),
        ("b", "ab", "ab"),
        ("ab", "cd", "abcd"),
        ("xz", "zx", "zx"),
        ("axby", "bna", "xbyna"),
        ("ab", "ba", "ba"),
    ],
)
def test_merged_lists_keep_the_order_of_the_configuration_and_the_place_of_others(server, live, config, expected):
    server.apply("o1", {"tags": list(live)})
    server.apply("o2", {"tags": list(config)})

    assert "".join(server.spec["tags"]) == expected
