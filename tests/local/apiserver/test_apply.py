"""
Server-side apply and ownership tracking.

The histories and their outcomes were seen on a real API server. Live specs are given without the defaults that every
widget has, sets without the empty nodes of leaves: `conts[x].image` is an owned path.
"""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrain.api.patch import merge_patch
from ktrain.api.schema import builtin
from ktrain.local.apiserver.fields.apply import (
    LAST_APPLIED,
    ApplyConflict,
    TypedPatchError,
    server_side_apply,
)

from .applying import VERSION, WIDGET, Server, conflicts


@pytest.fixture
def server():
    return Server()


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


@settings(max_examples=60)
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
