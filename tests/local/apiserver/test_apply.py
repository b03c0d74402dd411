"""
Server-side apply and ownership tracking.

The histories and their outcomes were seen on a real API server. Live specs are given without the defaults that every
widget has, sets without the empty nodes of leaves: `conts[x].image` is an owned path.
"""

import copy
from datetime import UTC, datetime, timedelta

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrain.api.patch import merge_patch
from ktrain.api.schema import Schema, builtin
from ktrain.local.apiserver.fields.apply import (
    LAST_APPLIED,
    ApplyConflict,
    TypedPatchError,
    server_side_apply,
    track_update,
)

SPEC = yaml.safe_load("""
replicas: {type: integer, default: 1}
mode: {type: string, default: A}
image: {type: string}
name: {type: string}
flag: {type: boolean}
ios: {x-kubernetes-int-or-string: true}
tags: {type: array, x-kubernetes-list-type: set, items: {type: string}}
plain: {type: array, items: {type: string}}
atomic: {type: array, x-kubernetes-list-type: atomic, items: {type: string}}
amap: {type: object, x-kubernetes-map-type: atomic, additionalProperties: {type: string}}
labels: {type: object, additionalProperties: {type: string}}
ports:
  type: array
  x-kubernetes-list-type: map
  x-kubernetes-list-map-keys: [port, protocol]
  items:
    type: object
    properties:
      port: {type: integer}
      protocol: {type: string, default: TCP}
      name: {type: string}
      hostPort: {type: integer}
conts:
  type: array
  x-kubernetes-list-type: map
  x-kubernetes-list-map-keys: [name]
  items:
    type: object
    properties:
      name: {type: string}
      image: {type: string}
      env:
        type: array
        x-kubernetes-list-type: map
        x-kubernetes-list-map-keys: [name]
        items: {type: object, properties: {name: {type: string}, value: {type: string}}}
nested: {type: object, properties: {a: {type: string}, b: {type: integer}}}
free: {type: object, x-kubernetes-preserve-unknown-fields: true}
defobj: {type: object, default: {}, properties: {x: {type: integer, default: 5}, y: {type: string}}}
""")
STATUS = yaml.safe_load("""
phase: {type: string}
conditions:
  type: array
  x-kubernetes-list-type: map
  x-kubernetes-list-map-keys: [type]
  items: {type: object, properties: {type: {type: string}, status: {type: string}}}
""")
WIDGET = Schema.from_crd(
    {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": SPEC},
            "status": {"type": "object", "properties": STATUS},
        },
    }
)
DEFAULTS = {"replicas": 1, "mode": "A", "defobj": {"x": 5}}
VERSION = "ex.test/v1"


class Server:
    """One widget, and what a server does around apply and update."""

    def __init__(self, live=None):
        self.live = live
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def apply(self, manager, spec=None, *, force=False, sub="", meta=None, **top):
        body = {"apiVersion": VERSION, "kind": "Widget", "metadata": {"name": "a", **(meta or {})}, **top}
        if spec is not None:
            body["spec"] = spec
        before = copy.deepcopy((self.live, body))
        self.now += timedelta(seconds=1)
        merged = server_side_apply(
            self.live, body, schema=WIDGET, manager=manager, force=force, api_version=VERSION, subresource=sub,
            now=self.now, reset=("spec",) if sub else ("status",),
        )  # fmt: skip
        assert (self.live, body) == before, "arguments stay as they are"
        if merged is self.live:
            return "no-op"
        self.live = WIDGET.default(WIDGET.prune(merged, keep_nulls=True)[0])
        return None

    def force(self, manager, spec):
        return self.apply(manager, spec, force=True)

    def update(self, manager, new, sub=""):
        self.now += timedelta(seconds=1)
        new = WIDGET.default(WIDGET.prune(new)[0])
        reset = {"": ("status",), "status": ("spec",), "scale": ()}[sub]
        self.live = track_update(
            self.live, new, schema=WIDGET, manager=manager, api_version=VERSION, subresource=sub, now=self.now,
            reset=reset,
        )  # fmt: skip

    def post(self, manager, spec):
        self.live = None
        self.update(manager, {"apiVersion": VERSION, "kind": "Widget", "metadata": {"name": "a"}, "spec": spec})

    def patch(self, manager, spec, sub=""):
        self.update(manager, merge_patch(self.live, {"spec": spec}), sub)

    def managed_fields(self, entries):
        """PUT the object with other managedFields."""
        self.update("x", {**self.live, "metadata": {**self.live["metadata"], "managedFields": entries}})

    @property
    def spec(self):
        return {key: value for key, value in self.live.get("spec", {}).items() if DEFAULTS.get(key) != value}

    @property
    def entries(self):
        return self.live["metadata"].get("managedFields", [])

    @property
    def managers(self):
        return [(e["manager"], e["operation"], e.get("subresource", "")) for e in self.entries]

    def owned(self, manager, operation="Apply", sub=""):
        """The manager's paths as text, without the leading `spec.`; None without an entry."""
        for entry in self.entries:
            if (entry["manager"], entry["operation"], entry.get("subresource", "")) == (manager, operation, sub):
                return set(shown(entry["fieldsV1"]))
        return None


def shown(node, path=""):
    """Owned paths, list items by their key's values: `spec.conts[x].image`; the item itself is `spec.conts[x]`."""
    if path and (not node or "." in node):
        yield path.removeprefix("spec.")
    for element, below in node.items():
        kind, text = element[:2], element[2:]
        if element == ".":
            continue
        if kind == "k:":
            text = f"[{','.join(str(v) for v in yaml.safe_load(text).values())}]"
        elif kind == "v:":
            text = f"={yaml.safe_load(text)}"
        elif path:
            text = f".{text}"
        yield from shown(below, path + text)


@pytest.fixture
def server():
    return Server()


def conflicts(server, manager, spec, **options):
    with pytest.raises(ApplyConflict) as caught:
        server.apply(manager, spec, **options)
    return str(caught.value)


# --- scalars and maps -------------------------------------------------------------------------------------------------


def test_an_applier_owns_the_leaves_it_names_and_no_defaults(server):
    server.apply("m1", {"image": "a", "labels": {"k": "1"}})

    assert server.spec == {"image": "a", "labels": {"k": "1"}}
    assert server.entries == [
        {
            "manager": "m1",
            "operation": "Apply",
            "apiVersion": VERSION,
            "time": "2026-01-01T00:00:01Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:image": {}, "f:labels": {"f:k": {}}}},
        }
    ]
    assert server.apply("m1", {"image": "a", "labels": {"k": "1"}}) == "no-op"


def test_equal_values_are_shared_and_other_values_conflict(server):
    server.apply("m1", {"image": "a", "labels": {"k": "1"}})
    server.apply("m2", {"image": "a", "labels": {"j": "2"}})

    assert server.spec["labels"] == {"j": "2", "k": "1"}
    assert server.owned("m1") == {"image", "labels.k"}
    assert server.owned("m2") == {"image", "labels.j"}
    assert conflicts(server, "m2", {"image": "b", "labels": {"j": "2"}}) == (
        'Apply failed with 1 conflict: conflict with "m1": .spec.image'
    )
    assert conflicts(server, "m2", {"image": "b", "labels": {"k": "9"}}) == (
        'Apply failed with 2 conflicts: conflicts with "m1":\n- .spec.image\n- .spec.labels.k'
    )


def test_force_takes_and_dropping_removes_what_nobody_else_owns(server):
    server.apply("m1", {"image": "a", "labels": {"k": "1"}})
    server.apply("m2", {"image": "a", "labels": {"j": "2"}})
    server.force("m2", {"image": "b", "labels": {"j": "2"}})
    assert server.owned("m1") == {"labels.k"}
    assert server.owned("m2") == {"image", "labels.j"}

    server.apply("m2", {})
    assert server.spec == {"labels": {"k": "1"}}
    assert server.owned("m2") == {"spec"}, "an empty map is a leaf"

    server.apply("m1", {"image": "c"})
    assert server.spec == {"image": "c"}


def test_conflicts_are_grouped_by_manager_and_all_are_causes(server):
    server.post("u", {"name": "n"})
    server.apply("a1", {"image": "a", "labels": {"x": "1"}})
    server.apply("a2", {"labels": {"y": "1"}})
    with pytest.raises(ApplyConflict) as caught:
        server.apply("z", {"name": "o", "image": "b", "labels": {"x": "2", "y": "2"}})

    assert str(caught.value) == (
        'Apply failed with 4 conflicts: conflicts with "a1":\n- .spec.image\n- .spec.labels.x\n'
        'conflicts with "a2":\n- .spec.labels.y\nconflicts with "u" using ex.test/v1:\n- .spec.name'
    )
    assert caught.value.causes[-1] == {
        "reason": "FieldManagerConflict",
        "message": 'conflict with "u" using ex.test/v1',
        "field": ".spec.name",
    }
    assert len(caught.value.causes) == 4


def test_a_default_comes_back_when_its_value_is_dropped(server):
    server.apply("d1", {"replicas": 3})
    assert server.spec == {"replicas": 3}
    server.apply("d1", {})
    assert server.spec == {}


def test_a_first_apply_that_changes_no_value_has_no_time(server):
    server.apply("d1", {})
    server.apply("d2", {"replicas": 1})

    assert "time" not in server.entries[0]
    assert conflicts(server, "d3", {"replicas": 2}).endswith('conflict with "d2": .spec.replicas')


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


# --- status -----------------------------------------------------------------------------------------------------------


def test_status_has_its_own_entry_and_each_url_leaves_the_other_alone(server):
    server.apply("st", {"image": "a"})
    status = {"phase": "R", "conditions": [{"type": "Ready", "status": "True"}]}
    server.apply("st", {"image": "zzz"}, sub="status", status=status)
    assert server.live["status"] == status
    assert server.spec == {"image": "a"}
    assert server.owned("st", sub="status") == {
        "status.phase", "status.conditions[Ready]", "status.conditions[Ready].type", "status.conditions[Ready].status",
    }  # fmt: skip

    server.apply("st", {"name": "n"}, status={"phase": "x"})
    assert server.live["status"] == status
    assert server.spec == {"name": "n"}

    server.apply("st", sub="status", status={"phase": "R"})
    assert server.live["status"] == {"phase": "R"}


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"zork": 1}, ".spec.zork: field not declared in schema"),
        ({"tags": "a"}, ".spec.tags: expected list, got &{a}"),
        ({"nested": ["a", 1]}, ".spec.nested: expected map, got &{[a 1]}"),
        ({"replicas": "x"}, ".spec.replicas: expected numeric (int or float), got string"),
        ({"image": 1}, ".spec.image: expected string, got &value.valueUnstructured{Value:1}"),
        ({"flag": "a"}, ".spec.flag: expected boolean, got &{a}"),
        ({"ios": {"a": True}}, ".spec.ios: expected any scalar, got &{map[a:true]}"),
        ({"tags": ["d", "d"]}, '.spec.tags: duplicate entries for key [="d"]'),
        ({"conts": [{"name": "q"}, {"name": "q"}]}, '.spec.conts: duplicate entries for key [name="q"]'),
        (
            {"conts": [{"image": "q"}]},
            (
                '.spec.conts: element 0: associative list with keys has an element that omits all key fields ["name"] '
                "(and doesn't have default values for any key fields)"
            ),
        ),
        (
            {"zork": 1, "nested": {"b": "x"}},
            (
                "errors:\n  .spec.zork: field not declared in schema\n"
                "  .spec.nested.b: expected numeric (int or float), got string"
            ),
        ),
    ],
)
def test_a_configuration_that_does_not_fit_says_where(server, spec, text):
    with pytest.raises(TypedPatchError) as caught:
        server.apply("m", spec, meta={"namespace": "ns"})

    assert str(caught.value) == f"failed to create typed patch object (ns/a; ex.test/v1, Kind=Widget): {text}"


def test_a_null_leaf_reaches_the_object_for_validation_to_refuse(server):
    body = {"apiVersion": VERSION, "kind": "Widget", "metadata": {"name": "a"}, "spec": {"image": None}}
    merged = server_side_apply(None, body, schema=WIDGET, manager="m", force=False, api_version=VERSION, now=server.now)

    assert merged["spec"] == {"image": None}


# --- kubectl ----------------------------------------------------------------------------------------------------------

APPLIED = '{"apiVersion":"ex.test/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"image":"a"}}'


def client_side_applied(image):
    server = Server()
    server.post("kubectl-client-side-apply", {"image": "a"})
    annotated = merge_patch(server.live, {"metadata": {"annotations": {LAST_APPLIED: APPLIED}}})
    server.update("kubectl-client-side-apply", merge_patch(annotated, {"spec": {"image": image}}))
    return server


def test_kubectl_may_change_what_it_applied_itself_client_side():
    server = client_side_applied("a")
    server.apply("kubectl", {"image": "b"})

    assert server.spec == {"image": "b"}
    assert (
        server.live["metadata"]["annotations"][LAST_APPLIED]
        == APPLIED.replace('"a"}}', '"b"}}').replace('{"name":"a"}', '{"annotations":{},"name":"a"}') + "\n"
    )


def test_kubectl_conflicts_where_somebody_changed_the_value_since():
    assert ".spec.image" in conflicts(client_side_applied("changed"), "kubectl", {"image": "b"})


def test_other_managers_get_no_such_favour():
    assert ".spec.image" in conflicts(client_side_applied("a"), "m", {"image": "b"})


# --- built-in kinds ---------------------------------------------------------------------------------------------------


def test_a_dropped_probe_goes_with_the_defaults_inside_it():
    schema = builtin("v1", "Pod")
    container = {"name": "c", "image": "x"}
    probe = {"livenessProbe": {"httpGet": {"port": 80}}}

    def config(*parts):
        spec = {"containers": [{**container, **{k: v for part in parts for k, v in part.items()}}]}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}

    options = {"schema": schema, "manager": "m", "force": False, "api_version": "v1", "now": datetime.now(UTC)}
    live = server_side_apply(None, config(probe), **options)
    live["spec"]["containers"][0]["livenessProbe"]["timeoutSeconds"] = 1
    after = server_side_apply(live, config(), **options)

    assert after["spec"]["containers"] == [container]


# --- laws -------------------------------------------------------------------------------------------------------------

items = st.lists(st.sampled_from("klm"), unique=True, min_size=1, max_size=3)
specs = st.fixed_dictionaries(
    {},
    optional={
        "image": st.sampled_from("xy"),
        "labels": st.dictionaries(st.sampled_from("abc"), st.sampled_from("12"), min_size=1),
        "tags": st.lists(st.sampled_from("pqr"), unique=True, min_size=1),
        "conts": items.flatmap(
            lambda names: st.tuples(
                *(st.fixed_dictionaries({"name": st.just(n)}, optional={"image": st.sampled_from("uv")}) for n in names)
            ).map(list)
        ),
        "free": st.sampled_from([{"a": {"b": 1}}, {"a": {}}, {"l": [1]}, {"a": True}]),
    },
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["m1", "m2", "u"]), specs), min_size=1, max_size=6))
def test_a_forced_apply_is_live_and_doing_it_again_changes_nothing(steps):
    server = Server()
    for manager, spec in steps:
        if manager == "u":
            if server.live:
                server.patch("u", spec)
            continue
        server.force(manager, spec)
        live = server.live["spec"]

        assert spec.get("labels", {}).items() <= live.get("labels", {}).items()
        assert set(spec.get("tags", [])) <= set(live.get("tags", []))
        assert live.get("image") == spec["image"] if "image" in spec else True
        assert {c["name"] for c in spec.get("conts", [])} <= {c["name"] for c in live.get("conts", [])}
        assert all(entry["fieldsV1"] for entry in server.entries)
        assert server.force(manager, spec) == "no-op"
