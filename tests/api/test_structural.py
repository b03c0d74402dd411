"""What a kube-apiserver 1.36 was seen to say about schemas that are not structural."""

import pytest

from ktrain.api.schema import structural_causes

INTEGER, STRING = {"type": "integer"}, {"type": "string"}
ITEMS = {"type": "object", "properties": {"a": STRING}}


def causes_of(field):
    schema = {"type": "object", "properties": {"f": field}}
    return [(c.field.removeprefix("s.properties[f]"), c.message) for c in structural_causes(schema, "s")]


@pytest.mark.parametrize(
    ("field", "cause"),
    [
        ({"description": "x"}, (".type", "Required value: must not be empty for specified object fields")),
        (
            {"type": "array", "items": {}},
            (".items.type", "Required value: must not be empty for specified array items"),
        ),
        ({"type": "array"}, (".items", "Required value: must be specified")),
        (
            {"type": "zork"},
            (
                ".type",
                (
                    'Unsupported value: "zork": '
                    'supported values: "array", "boolean", "integer", "number", "object", "string"'
                ),
            ),
        ),
        (
            {"type": "string", "not": {"default": "x"}},
            (".not.default", "Forbidden: must be undefined to be structural"),
        ),
        ({"type": "object", "$ref": "#/x"}, (".$ref", "Forbidden: $ref is not supported")),
        (
            {"type": "object", "x-kubernetes-preserve-unknown-fields": False},
            (".x-kubernetes-preserve-unknown-fields", "Invalid value: false: must be true or undefined"),
        ),
        (
            {"type": "array", "x-kubernetes-list-type": "map", "items": ITEMS},
            (".x-kubernetes-list-map-keys", "Required value: must not be empty if x-kubernetes-list-type is map"),
        ),
        (
            {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"], "items": ITEMS},
            (
                ".items.properties[a].default",
                (
                    "Required value: this property is in x-kubernetes-list-map-keys, "
                    "so it must have a default or be a required property"
                ),
            ),
        ),
        (
            {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["z"], "items": ITEMS},
            (".x-kubernetes-list-map-keys", 'Invalid value: ["z"]: entries must all be names of item properties'),
        ),
        (
            {"type": "integer", "default": "x"},
            (".default", 'Invalid value: "string":  in body must be of type integer: "string"'),
        ),
        (
            {"type": "object", "default": {"z": 2}, "properties": {"a": STRING}},
            (".default", 'Invalid value: {"z":2}: must not have unknown fields'),
        ),
        (
            {**INTEGER, "x-kubernetes-validations": [{"rule": ""}]},
            (".x-kubernetes-validations[0].rule", "Required value: rule is not specified"),
        ),
        (
            {**INTEGER, "x-kubernetes-validations": [{"rule": "self > 0", "optionalOldSelf": True}]},
            (
                ".x-kubernetes-validations[0].optionalOldSelf",
                "Invalid value: true: may not be set if oldSelf is not used in rule",
            ),
        ),
    ],
)
def test_a_schema_that_is_not_structural_is_told_where(field, cause):
    assert cause in causes_of(field)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("self ==", "compilation failed: ERROR: <input>:1:8: Syntax error:"),
        ("foo > 1", "undeclared reference to 'foo' (in container '')"),
    ],
)
def test_rules_must_compile(rule, text):
    assert text in causes_of({**INTEGER, "x-kubernetes-validations": [{"rule": rule}]})[0][1]


def test_old_self_needs_a_place_that_corresponds():
    item = {**STRING, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}

    refused = causes_of({"type": "array", "maxItems": 5, "items": {**item, "maxLength": 5}})
    assert "uncorrelatable portion" in refused[0][1]


@pytest.mark.parametrize(
    "field",
    [
        {"x-kubernetes-int-or-string": True, "anyOf": [INTEGER, STRING]},
        {"x-kubernetes-preserve-unknown-fields": True},
        {"type": "object", "additionalProperties": True},
        {
            "type": "array",
            "items": INTEGER,
            "x-kubernetes-validations": [{"rule": "self.all(x, x > 1) && type(self) == list"}],
        },
    ],
)
def test_structural_schemas_have_no_causes(field):
    assert causes_of(field) == []
