"""Pruning, defaulting, and keywords; the texts are those a kube-apiserver 1.36 was seen to give."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrain.api.schema import Schema, builtin, builtin_kinds

STRING, INTEGER = {"type": "string"}, {"type": "integer"}
PORTS = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["port", "protocol"],
    "items": {
        "type": "object",
        "required": ["port"],
        "properties": {"port": INTEGER, "protocol": {**STRING, "default": "TCP"}},
    },
}
FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
FOUR = {"type": "object", "properties": {"x": {**INTEGER, "default": 4}}}
SCHEMA = Schema.from_crd({
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "a": STRING, "n": {**INTEGER, "default": 1}, "nullable": {**STRING, "nullable": True, "default": "d"},
                "o": {"type": "object", "default": {}, "properties": {"x": {**INTEGER, "default": 5}, "y": STRING}},
                "plain": {"type": "object", "properties": {"x": {**INTEGER, "default": 5}}},
                "free": {**FREE, "properties": {"k": {"type": "object"}}},
                "map": {"type": "object", "additionalProperties": FOUR},
                "ports": PORTS,
                "emb": {**FREE, "x-kubernetes-embedded-resource": True},
            },
        }
    },
})  # fmt: skip


def default(spec):
    return SCHEMA.default({"spec": spec})["spec"]


def prune(spec, **options):
    pruned, unknown = SCHEMA.prune({"spec": spec}, **options)
    return pruned["spec"], unknown


def test_unknown_fields_go_and_their_paths_are_told_in_order():
    spec, unknown = prune({"z": 1, "o": {"q": 1, "y": "k"}, "ports": [{"port": 1, "nme": "x"}], "map": {"k": {"u": 1}}})

    assert spec == {"o": {"y": "k"}, "ports": [{"port": 1}], "map": {"k": {}}}
    assert unknown == ["spec.map.k.u", "spec.o.q", "spec.ports[0].nme", "spec.z"]


def test_below_preserve_unknown_only_declared_properties_are_pruned_again():
    assert prune({"free": {"any": {"thing": None}, "k": {"gone": 1}}}) == (
        {"free": {"any": {"thing": None}, "k": {}}},
        ["spec.free.k.gone"],
    )


def test_metadata_of_the_object_and_of_embedded_resources_is_real_metadata():
    emb = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "zork": 1}, "spec": {"any": 1}}

    pruned, unknown = SCHEMA.prune({"metadata": {"name": "a", "foo": 1}, "spec": {"emb": emb}})

    assert unknown == ["metadata.foo", "spec.emb.metadata.zork"]
    assert pruned["spec"]["emb"]["spec"] == {"any": 1}


def test_nulls_go_unless_null_is_a_value_or_a_default_or_apply_must_refuse_them():
    assert prune({"a": None, "n": None, "nullable": None})[0] == {"n": None, "nullable": None}
    assert prune({"a": None}, keep_nulls=True)[0] == {"a": None}


def test_defaults_let_the_defaults_below_them_in_and_make_no_objects():
    assert default({}) == {"n": 1, "nullable": "d", "o": {"x": 5}}
    assert default({"n": None, "nullable": None, "o": {"y": "k"}, "map": {"k": {}}, "plain": {}}) == {
        "n": 1,
        "nullable": None,
        "o": {"x": 5, "y": "k"},
        "map": {"k": {"x": 4}},
        "plain": {"x": 5},
    }


def test_a_default_object_is_not_shared_between_results():
    first = default({})
    first["o"]["x"] = 6

    assert default({})["o"] == {"x": 5}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("anoxykq"), inner, max_size=3),
    max_leaves=8,
)
specs = st.dictionaries(st.sampled_from([*SCHEMA.root.properties["spec"].properties, "unknown"]), json_values)


@given(specs)
def test_pruning_and_defaulting_are_idempotent_and_change_no_input(spec):
    obj = {"spec": spec}
    before = copy.deepcopy(obj)
    pruned, _ = SCHEMA.prune(obj)
    filled = SCHEMA.default(pruned)

    assert before == obj
    assert (pruned, []) == SCHEMA.prune(pruned)
    assert SCHEMA.prune(pruned)[0] is pruned
    assert SCHEMA.default(filled) is filled


@given(specs)
def test_validation_of_any_json_gives_causes_and_never_an_exception(spec):
    for cause in SCHEMA.validate({"spec": spec}):
        assert cause.reason.startswith("FieldValue")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        (STRING, 5, 'Invalid value: "integer": spec.f in body must be of type string: "integer"'),
        (STRING, None, 'Invalid value: "null": spec.f in body must be of type string: "null"'),
        (INTEGER, 2.5, 'Invalid value: "number": spec.f in body must be of type integer: "number"'),
        (INTEGER, True, 'Invalid value: "boolean": spec.f in body must be of type integer: "boolean"'),
        (
            {"type": "array", "items": STRING},
            {},
            'Invalid value: "object": spec.f in body must be of type array: "object"',
        ),
        (
            {"x-kubernetes-int-or-string": True},
            True,
            'Invalid value: "boolean": spec.f in body must be of type integer,string: "boolean"',
        ),
        ({**STRING, "format": "ipv4"}, "x", 'Invalid value: "x": spec.f in body must be of type ipv4: "x"'),
        ({**STRING, "enum": ["b", "a"]}, "c", 'Unsupported value: "c": supported values: "b", "a"'),
        ({**INTEGER, "enum": [1, 2]}, 3, 'Unsupported value: 3: supported values: "1", "2"'),
        ({**INTEGER, "minimum": 0}, -1, "Invalid value: -1: spec.f in body should be greater than or equal to 0"),
        (
            {**INTEGER, "minimum": 1, "exclusiveMinimum": True},
            1,
            "Invalid value: 1: spec.f in body should be greater than 1",
        ),
        (
            {"type": "number", "maximum": 10},
            10.3,
            "Invalid value: 10.3: spec.f in body should be less than or equal to 10",
        ),
        ({"type": "number", "multipleOf": 0.5}, 0.3, "Invalid value: 0.3: spec.f in body should be a multiple of 0.5"),
        (
            {"type": "number", "multipleOf": 0.5},
            4,
            "Invalid value: 0: factor MultipleOf declared for spec.f must be positive: 0",
        ),
        ({"type": "number", "multipleOf": 2.5}, 5, "Invalid value: 5: spec.f in body should be a multiple of 2"),
        ({**STRING, "minLength": 2}, "a", 'Invalid value: "a": spec.f in body should be at least 2 chars long'),
        ({**STRING, "maxLength": 2}, "äöü", "Too long: may not be more than 2 bytes"),
        ({**STRING, "pattern": "^a$"}, "a\n", "Invalid value: \"a\\n\": spec.f in body should match '^a$'"),
        ({"type": "array", "items": STRING, "maxItems": 1}, ["a", "b"], "Too many: 2: must have at most 1 item"),
        (
            {"type": "array", "items": STRING, "minItems": 1},
            [],
            "Invalid value: 0: spec.f in body should have at least 1 items",
        ),
        (
            {"type": "object", "minProperties": 1},
            {},
            "Invalid value: 0: spec.f in body should have at least 1 properties",
        ),
    ],
)
def test_a_violation_reads_as_the_api_server_has_it(check, field, value, message):
    assert ("spec.f", message) == check(field, value)[0]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (INTEGER, 2.0),
        ({"x-kubernetes-int-or-string": True}, "5%"),
        ({**STRING, "nullable": True}, None),
        ({**STRING, "format": "zork"}, "x"),
        ({**STRING, "pattern": "^[[:alpha:]]+$"}, "abc"),
        ({**STRING, "maxLength": 3}, "äöü"),
        ({**STRING, "format": "date-time"}, "2026-01-02T03:04:05.123456789Z"),
    ],
)
def test_valid_values_have_no_causes(check, field, value):
    assert check(field, value) == []


def test_int32_is_a_range_check_without_a_field(check):
    text = 'Invalid value: "": Checked value must be of type integer with format int32 in spec.f'

    assert [("<nil>", text)] == check({**INTEGER, "format": "int32"}, 3_000_000_000)


@pytest.mark.parametrize(
    ("format_", "expected", "found", "named"),
    [("", "integer", "number", "(default format)"), ("int32", "int32", "float64", "with format int32")],
)
def test_a_fraction_is_no_integer_in_two_ways(check, format_, expected, found, named):
    field = {**INTEGER, "format": format_} if format_ else INTEGER

    assert check(field, 1.5) == [
        ("spec.f", f'Invalid value: "{found}": spec.f in body must be of type {expected}: "{found}"'),
        ("<nil>", f'Invalid value: "": Checked value must be of type integer {named} in spec.f'),
    ]


def test_required_fields_and_embedded_types_are_missed_at_their_own_path(check):
    field = {"type": "object", "required": ["must"], "properties": {"must": STRING}}

    assert check(field, {}) == [("spec.f.must", "Required value")]
    assert [c.field for c in SCHEMA.validate({"spec": {"emb": {}}})] == ["spec.emb.apiVersion", "spec.emb.kind"]


def test_duplicates_of_sets_and_of_list_maps_are_found_with_keys_defaulted(check):
    tags = {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"}

    assert check(tags, ["a", "a"]) == [("spec.f[1]", 'Duplicate value: "a"')]
    assert check(tags, ["a", "b", "a", "a"]) == [("spec.f[2]", 'Duplicate value: "a"')], "and said once"
    assert check(PORTS, [{"port": 1}, {"port": 1, "protocol": "TCP"}]) == [
        ("spec.f[1]", 'Duplicate value: {"port":1,"protocol":"TCP"}')
    ]


def test_logic_keywords_report_without_a_field(check):
    either = [{"required": ["a"]}, {"required": ["b"]}]
    base = {"type": "object", "properties": {"a": STRING, "b": STRING}}

    one, both = '"spec.f" must validate one and only one schema (oneOf).', {"a": "", "b": ""}
    assert ("<nil>", f'Invalid value: "": {one} Found none valid') == check({**base, "oneOf": either}, {})[0]
    assert [("<nil>", f'Invalid value: "": {one} Found 2 valid alternatives')] == check({**base, "oneOf": either}, both)
    assert "must validate at least one schema (anyOf)" in check({**base, "anyOf": either}, {})[0][1]
    assert "must not validate the schema (not)" in check({**base, "not": {"required": ["a"]}}, {"a": ""})[0][1]
    assert "(allOf). None validated" in check({**base, "allOf": either}, {})[0][1]


def test_status_writes_name_paths_below_status():
    schema = Schema.from_crd(
        {
            "type": "object",
            "properties": {"status": {"type": "object", "properties": {"phase": STRING}}},
        }
    )

    assert [str(c) for c in schema.validate_status({"status": {"phase": 1}})] == [
        'status.phase: Invalid value: "integer": phase in body must be of type string: "integer"'
    ]
    assert [str(c) for c in schema.validate_status({"status": "x"})] == [
        'status: Invalid value: "string":  in body must be of type object: "string"'
    ]


@pytest.mark.parametrize(
    ("new", "fields"),
    [
        ({}, []),
        ({"name": "another"}, ["spec.name"]),
        ({"tags": ["b", "b"]}, []),
        ({"o": {"a": "2"}}, ["spec.o.b"]),
        ({"l": [{"k": "y"}, {"k": "x", "v": "bad"}]}, []),
        ({"l": [{"k": "new", "v": "bad"}]}, ["spec.l[0].v"]),
        ({"at": [{"v": "long"}, {"v": "z"}]}, ["spec.at[0].v"]),
        ({"m": {"a": "long", "b": "d"}}, []),
        ({"n": True}, ["spec.n"]),
    ],
    ids=str,
)
def test_what_did_not_change_is_not_an_error_again(new, fields):
    short = {**STRING, "maxLength": 2}
    item = {"type": "object", "required": ["k"], "properties": {"k": STRING, "v": short}}
    schema = Schema.from_crd({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "name": short, "n": INTEGER, "tags": {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"},
        "o": {"type": "object", "required": ["b"], "properties": {"a": STRING, "b": STRING}},
        "l": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": item},
        "at": {"type": "array", "items": {"type": "object", "properties": {"v": short}}},
        "m": {"type": "object", "additionalProperties": short},
    }}}})  # fmt: skip
    old = {
        "name": "toolong", "n": 1, "tags": ["a", "a"], "o": {"a": "1"}, "l": [{"k": "x", "v": "bad"}, {"k": "y"}],
        "at": [{"v": "long"}, {"v": "q"}], "m": {"a": "long"},
    }  # fmt: skip

    assert fields == [c.field for c in schema.validate({"spec": {**old, **new}}, {"spec": old})]


def test_every_built_in_kind_compiles_and_knows_metadata():
    for key in builtin_kinds():
        api_version, _, kind = key.rpartition("/")
        schema = builtin(api_version, kind)

        assert schema is not None
        if kind not in {"SelfSubjectReview"}:
            assert schema.root.child("metadata").child("labels").additional.type == "string"
    assert builtin("v1", "Nonesuch") is None


def test_built_in_schemas_carry_what_merging_needs():
    pod = builtin("v1", "Pod").root.child("spec")
    container = pod.child("containers").items
    ports = container.child("ports")

    assert (
        ports.list_type,
        ports.map_keys,
        ports.key_defaults,
    ) == ("map", ("containerPort", "protocol"), {"protocol": "TCP"})
    assert ("containerPort", frozenset({"merge"})) == (ports.patch_merge_key, ports.patch_strategies)
    assert container.child("volumeMounts").patch_merge_key == "mountPath"
    assert (pod.child("tolerations").list_type, pod.child("tolerations").patch_merge_key) == ("atomic", "")
    assert pod.child("nodeSelector").map_type == "atomic"
    assert {"merge", "retainKeys"} == pod.child("volumes").patch_strategies
    assert container.child("resources").child("limits").additional.type == "quantity"


def test_a_kind_with_an_empty_schema_keeps_metadata_and_lends_its_fields_to_nobody():
    empty = Schema.from_crd({"type": "object"})

    assert empty.prune({"metadata": {"name": "a"}, "spec": {}}) == ({"metadata": {"name": "a"}}, ["spec"])
    assert Schema.from_crd({"type": "object", "properties": {"spec": {"type": "object"}}}).prune(
        {"spec": {"kind": "x"}}
    ) == ({"spec": {}}, ["spec.kind"])


def test_definitions_that_refer_to_themselves_share_nodes():
    props = builtin("apiextensions.k8s.io/v1", "CustomResourceDefinition").root
    schema = props.child("spec").child("versions").items.child("schema").child("openAPIV3Schema")

    assert schema.child("properties").additional is schema
