"""Strategic merge patches, on the schemas of built-in kinds."""

import copy

import pytest

from ktrain.api.schema import builtin
from ktrain.api.strategic import StrategicMergeError, strategic_merge

POD = builtin("v1", "Pod")
SERVICE = builtin("v1", "Service")


def named(*names, **fields):
    return [{"name": name, **fields} for name in names]


def names(items):
    return [item["name"] for item in items]


def merge_spec(spec, patch, schema=POD):
    doc, change = {"spec": spec}, {"spec": patch}
    before = copy.deepcopy((doc, change))
    merged = strategic_merge(doc, change, schema)
    assert (doc, change) == before, "inputs stay as they are"
    return merged["spec"]


def test_items_merge_field_by_field():
    spec = {"containers": [{"name": "c", "image": "x", "env": [{"name": "A", "value": "1"}]}]}
    source = {"fieldRef": {"fieldPath": "metadata.name"}}
    merged = merge_spec(spec, {"containers": [{"name": "c", "env": [{"name": "A", "valueFrom": source}]}]})

    assert merged["containers"] == [
        {"name": "c", "image": "x", "env": [{"name": "A", "value": "1", "valueFrom": source}]}
    ]


@pytest.mark.parametrize(
    ("before", "patch", "expected"),
    [
        (["INIT", "DATASET"], ["INIT", "NEW"], ["INIT", "NEW", "DATASET"]),
        (["a", "b"], ["b"], ["a", "b"]),
        (["a", "b", "c"], ["c", "a"], ["b", "c", "a"]),
        (["a", "b"], ["x"], ["x", "a", "b"]),
        (["a"], ["b", "a"], ["b", "a"]),
        ([], ["b"], ["b"]),
    ],
)
def test_patch_items_keep_their_order_and_old_ones_go_first_only_before_a_shared_one(before, patch, expected):
    merged = merge_spec({"volumes": named(*before)}, {"volumes": named(*patch)})

    assert names(merged["volumes"]) == expected


def test_mounts_merge_by_path_and_tolerations_are_replaced():
    container = {"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/a", "readOnly": True}]}
    spec = {"containers": [container], "tolerations": [{"key": "a"}]}
    patch = {
        "containers": [{"name": "c", "volumeMounts": [{"name": "w", "mountPath": "/a"}]}],
        "tolerations": [{"key": "b"}],
    }
    merged = merge_spec(spec, patch)

    assert merged["containers"][0]["volumeMounts"] == [{"name": "w", "mountPath": "/a", "readOnly": True}]
    assert merged["tolerations"] == [{"key": "b"}]


def test_maps_merge_and_null_removes():
    merged = merge_spec({"nodeSelector": {"a": "1", "b": "2"}}, {"nodeSelector": {"a": None, "c": "3"}})

    assert merged == {"nodeSelector": {"b": "2", "c": "3"}}


def test_delete_directive_removes_an_item():
    ports = [{"name": "x", "port": 1}, {"name": "y", "port": 2}]
    merged = merge_spec({"ports": ports}, {"ports": [{"port": 1, "$patch": "delete"}]}, SERVICE)

    assert merged["ports"] == [{"name": "y", "port": 2}]


def test_replace_directive_replaces_list_or_map():
    spec = {"ports": [{"port": 1}], "selector": {"a": "1"}}
    patch = {"ports": [{"port": 3}, {"$patch": "replace"}], "selector": {"$patch": "replace", "b": "2"}}

    assert merge_spec(spec, patch, SERVICE) == {"ports": [{"port": 3}], "selector": {"b": "2"}}


def test_delete_directive_empties_a_map():
    assert merge_spec({"selector": {"a": "1"}}, {"selector": {"$patch": "delete"}}, SERVICE) == {"selector": {}}


def test_scalars_merge_and_are_deleted_by_directive():
    doc = {"metadata": {"finalizers": ["a/b", "c/d"]}}
    deleted = strategic_merge(doc, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/b"]}}, POD)
    added = strategic_merge(doc, {"metadata": {"finalizers": ["e/f", "a/b"]}}, POD)

    assert deleted["metadata"]["finalizers"] == ["c/d"]
    assert added["metadata"]["finalizers"] == ["e/f", "a/b", "c/d"]


def test_set_element_order_orders_what_it_names():
    patch = {"$setElementOrder/containers": named("c", "a"), "containers": named("c", image="z")}
    merged = merge_spec({"containers": named("a", "b", "c")}, patch)

    assert names(merged["containers"]) == ["b", "c", "a"]
    assert merged["containers"][1]["image"] == "z"


def test_retain_keys_drops_the_old_source():
    volume = {"name": "v", "secret": {"secretName": "s"}, "$retainKeys": ["name", "secret"]}
    merged = merge_spec({"volumes": [{"name": "v", "emptyDir": {}}]}, {"volumes": [volume]})

    assert merged["volumes"] == [{"name": "v", "secret": {"secretName": "s"}}]


def test_nulls_and_directives_do_not_enter_what_is_new():
    patch = {
        "containers": [{"name": "c", "image": None, "$setElementOrder/env": []}, {"name": "d", "$patch": "delete"}]
    }

    assert merge_spec({}, patch) == {"containers": [{"name": "c"}]}


def test_a_patch_without_effect_gives_back_the_document():
    doc = {"metadata": {"labels": {"a": "1"}}, "spec": {"nodeSelector": {"b": "2"}}}

    assert strategic_merge(doc, {"metadata": {"labels": {"a": "1"}}}, POD) is doc


@pytest.mark.parametrize(
    ("patch", "text"),
    [
        ({"containers": [{"image": "x"}]}, "does not contain declared merge key: name"),
        ({"containers": [{"name": "x", "$patch": "zork"}]}, "unknown patch type: zork"),
        ({"nodeSelector": {"$patch": "merge"}}, "unknown patch type: merge"),
        ({"$setElementOrder/containers": named("b"), "containers": named("a")}, "The order in patch list"),
        ({"containers": [{"name": "a", "image": "x", "$retainKeys": ["name"]}]}, "retainKeys"),
        ({"containers": ["a"]}, "list element types are not identical"),
        ({"containers": [{"name": {"a": "b"}}]}, "told apart by a scalar"),
        ({"$setElementOrder/containers": "a"}, "expected a"),
    ],
)
def test_senseless_patches_are_refused(patch, text):
    with pytest.raises(StrategicMergeError, match=text):
        merge_spec({"containers": named("a"), "nodeSelector": {"b": "1"}}, patch)
