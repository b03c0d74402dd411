"""CEL rules; the answers are those a kube-apiserver 1.36 was seen to give."""

import sys

import pytest

INTEGER = {"type": "integer"}


def ruled(field, rule, **keywords):
    return {**field, "x-kubernetes-validations": [{"rule": rule, **keywords}]}


def obj(**properties):
    return {"type": "object", "properties": properties}


STRING = {"type": "string"}


@pytest.mark.parametrize(
    ("field", "value", "cause"),
    [
        (ruled(INTEGER, "self > 10"), 6, ("spec.f", "Invalid value: 6: failed rule: self > 10")),
        (
            ruled(INTEGER, "self < 7", messageExpression="'got %d, max 6'.format([self])"),
            9,
            ("spec.f", "Invalid value: 9: got 9, max 6"),
        ),
        (ruled(obj(x=INTEGER), "self.x > 1", message="no bad"), {"x": 1}, ("spec.f", "Invalid value: no bad")),
        (
            ruled(STRING, "self != 'x'", reason="FieldValueRequired", message="req"),
            "x",
            ("spec.f", "Required value: req"),
        ),
        (
            ruled(STRING, "self != 'x'", reason="FieldValueDuplicate", message="d"),
            "x",
            ("spec.f", 'Duplicate value: "x"'),
        ),
        (
            ruled(obj(b=INTEGER), "self.b < 100", reason="FieldValueForbidden", message="too big", fieldPath=".b"),
            {"b": 200},
            ("spec.f.b", "Forbidden: too big"),
        ),
        (
            ruled({"type": "array", "items": INTEGER}, "self[4] == 1"),
            [1],
            ("spec.f", 'Invalid value: "array": index out of bounds: 4 evaluating rule: self[4] == 1'),
        ),
        (
            ruled(obj(a=STRING), "self.a == 'x'", message="m"),
            {},
            ("spec.f", 'Invalid value: "object": no such key: a evaluating rule: m'),
        ),
        (
            ruled(obj(n={**STRING, "nullable": True}), "has(self.n)", message="absent"),
            {"n": None},
            ("spec.f", "Invalid value: absent"),
        ),
        (
            ruled(obj(namespace=STRING), "self.__namespace__ == 'a'", message="ns"),
            {"namespace": "b"},
            ("spec.f", "Invalid value: ns"),
        ),
        (
            ruled(STRING, "isURL(self) && url(self).getScheme() == 'https'", message="https"),
            "http://a/",
            ("spec.f", 'Invalid value: "http://a/": https'),
        ),
        (
            ruled(STRING, "!format.dns1123Label().validate(self).hasValue()", message="label"),
            "A_",
            ("spec.f", 'Invalid value: "A_": label'),
        ),
        (
            ruled(STRING, "quantity(self).isGreaterThan(quantity('1Gi'))", message="q"),
            "1Gi",
            ("spec.f", 'Invalid value: "1Gi": q'),
        ),
    ],
)
def test_a_broken_rule_reads_as_the_api_server_has_it(check, field, value, cause):
    assert [cause] == check(field, value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (ruled(STRING, "self.matches('^[a-c]+$')"), "abc"),
        (ruled(STRING, "quantity(self).isGreaterThan(quantity('1Gi'))"), "2Gi"),
        (
            ruled(obj(**{"a-b": STRING, "a.b": STRING}), "self.a__dash__b == 'x' && self.a__dot__b == 'y'"),
            {"a-b": "x", "a.b": "y"},
        ),
        (ruled(STRING, "self.split(',').all(w, w.trim().size() == 1) && self.indexOf('b') == 2"), "a,b"),
        (ruled({"type": "array", "items": INTEGER}, "self.sum() == 3 && self.isSorted()"), [1, 2]),
    ],
)
def test_rules_that_hold_have_no_causes(check, field, value):
    assert check(field, value) == []


def test_transition_rules_need_a_value_before_and_are_never_ratcheted(check):
    rises = ruled(INTEGER, "self > oldSelf", message="must rise")

    assert check(rises, 4) == []
    assert check(rises, 4, old=5) == [("spec.f", "Invalid value: 4: must rise")]
    assert check(rises, 5, old=5) == [("spec.f", "Invalid value: 5: must rise")]


def test_an_optional_old_self_is_given_on_create_too(check):
    grows = ruled(INTEGER, "!oldSelf.hasValue() || self >= oldSelf.value()", optionalOldSelf=True, message="must grow")

    assert check(grows, 4) == []
    assert check(grows, 4, old=5) == [("spec.f", "Invalid value: 4: must grow")]


def test_items_of_list_maps_correspond_by_key_and_those_of_other_lists_do_not(check):
    fixed = {
        "type": "object",
        "required": ["k"],
        "properties": {"k": STRING, "v": ruled(STRING, "self == oldSelf", message="fixed")},
    }
    by_key = {"type": "array", "items": fixed, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    old = [{"k": "a", "v": "1"}, {"k": "b", "v": "2"}]
    new = [{"k": "b", "v": "2"}, {"k": "a", "v": "9"}, {"k": "c", "v": "3"}]

    assert check(by_key, new, old=old) == [("spec.f[1].v", 'Invalid value: "9": fixed')]
    assert check({"type": "array", "items": fixed}, new, old=old) == []


def test_rules_that_only_unchanged_values_break_become_warnings(spec_schema):
    schema = spec_schema({"n": ruled(INTEGER, "self > 10"), "m": INTEGER})
    warnings = []

    assert schema.validate({"spec": {"n": 5, "m": 2}}, {"spec": {"n": 5, "m": 1}}, warnings=warnings) == []
    assert warnings == ["spec.n: Invalid value: 5: failed rule: self > 10"]


def test_removing_a_field_is_seen_by_a_rule_of_its_parent(spec_schema):
    schema = spec_schema({"n": INTEGER}, **ruled({}, "!has(oldSelf.n) || has(self.n)", message="n stays"))

    assert [str(c) for c in schema.validate({"spec": {}}, {"spec": {"n": 1}})] == ["spec: Invalid value: n stays"]


def test_blocking_errors_keep_rules_from_running_and_say_so(check):
    causes = check(ruled(INTEGER, "self > 10"), "x")

    assert causes[0][0] == "spec.f"
    assert (causes[1][0], "some validation rules were not checked" in causes[1][1]) == ("<nil>", True)


def test_the_cel_package_is_loaded_without_its_command_line(check):
    check(ruled(INTEGER, "self > 0"), 1)

    assert "prompt_toolkit" not in sys.modules
