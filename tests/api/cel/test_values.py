"""What expressions evaluate to."""

import pytest

from ktrain.api.schema.cel import CelError, compiled

OBJECT = {"spec": {"n": 3, "x": 1.5, "l": [1, 2, 3], "m": {"a": 1, "b": 2}, "s": "abc", "none": None}}


def value(source, **variables):
    return compiled(source).evaluate({"o": OBJECT, **variables})


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("1 + 2 * 3 - 4 / 2 % 2", 7),
        ("-7 / 2", -3),
        ("-7 % 3", -1),
        ("0x10 + 1", 17),
        ("1u + 2u", 3),
        ("1.5 * 2.0", 3.0),
        ("'a' + \"b\" + r'\\n'", "ab\\n"),
        ("'\\x41\\u00e9\\101'", "AéA"),
        ("b'\\xff' == bytes('x')", False),
        ("[1] + [2] == [1, 2]", True),
        ("1 == 1.0 && 1u == 1 && 2 > 1.5", True),
        ("true == 1", False),
        ("'a' < 'b' ? 'yes' : 'no'", "yes"),
        ("1 in [2, 1] && 'a' in {'a': 1}", True),
        ("o.spec.l[1] + o.spec['n']", 5),
        ("has(o.spec.n) && !has(o.spec.nope)", True),
        ("o.spec.none == null", True),
        ("o.spec.?nope.orValue('d') + o.?nope.?deeper.orValue('e')", "de"),
        ("o.spec[?'n'].value() == 3 && o.spec.l[?9].hasValue() == false", True),
        ("[?optional.of(1), ?optional.none(), 2]", [1, 2]),
        ("{?'a': optional.none(), 'b': 1}", {"b": 1}),
        ("o.spec.l.all(x, x > 0) && o.spec.l.exists(x, x == 2) && o.spec.l.exists_one(x, x == 3)", True),
        ("o.spec.l.filter(x, x > 1).map(x, x * 2)", [4, 6]),
        ("o.spec.l.map(x, x > 1, x * 2)", [4, 6]),
        ("o.spec.m.all(k, v, v > 0) && o.spec.m.exists(k, k == 'b')", True),
        ("o.spec.m.transformMap(k, v, v > 1, v * 10)", {"b": 20}),
        ("o.spec.l.transformList(i, x, i + x)", [1, 3, 5]),
        ("optional.of(2).optMap(x, x * 2).or(optional.of(0)).value()", 4),
        ("o.spec.s.charAt(1) + o.spec.s.substring(1) + o.spec.s.upperAscii()", "bbcABC"),
        ("'a,b,c'.split(',', 2).join('-') + ' x '.trim()", "a-b,cx"),
        ("'banana'.replace('a', 'o', 2).indexOf('o') + 'banana'.lastIndexOf('a')", 6),
        ("'%s is %d of %.1f, %x %b'.format(['x', 1, 2.0, 255, 5])", "x is 1 of 2.0, ff 101"),
        ("'a1b22'.findAll('[0-9]+') == ['1', '22'] && 'a1'.find('[0-9]') == '1'", True),
        ("'abc'.matches('^a.c$') && size('äöü') == 3", True),
        ("[3, 1, 2].max() - [3, 1, 2].min() + [1, 2].sum() + ([1, 2].isSorted() ? 1 : 0)", 6),
        ("sets.contains([1, 2], [2]) && sets.equivalent([1, 2], [2, 1, 1]) && !sets.intersects([1], [2])", True),
        ("duration('90m') == duration('1h30m') && duration('1h').getMinutes() == 60", True),
        ("timestamp('2024-02-29T23:00:00Z') + duration('2h') == timestamp('2024-03-01T01:00:00Z')", True),
        ("timestamp('2024-02-29T23:30:00Z').getDayOfWeek('+01:00')", 5),
        ("quantity('1.5Gi').isGreaterThan(quantity('1G'))", True),
        ("quantity('500m').add(quantity('500m')).asInteger()", 1),
        ("isQuantity('1Zi')", False),
        ("url('https://u@h:8443/p?q=1').getHost() + url('/p').getEscapedPath()", "h:8443/p"),
        ("ip('fd00::1').family() == 6 && cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && !isIP('1.2.3')", True),
        ("semver('1.2.3-rc.1').isLessThan(semver('1.2.3')) && semver('v1.2', true).minor() == 2", True),
        ("format.dns1123Label().validate('A').hasValue() && !format.uuid().validate('x').hasValue()", False),
        ("type(1) == int && type('a') != type(b'a') && string(1.0) + string(true) == '1true'", True),
        ("int('12') + int(3.9) == 15 && double('1.5') == 1.5 && uint(3) == 3u", True),
    ],
)
def test_expressions_have_the_values_that_the_specification_gives_them(source, expected):
    assert value(source) == expected


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("o.nope", "no such key: nope"),
        ("o.spec.l[5]", "index out of bounds: 5"),
        ("o.spec.n + 'a'", "no such overload"),
        ("o.spec.s.all(x, true)", "no such overload"),
        ("1 / 0", "division by zero"),
        ("9223372036854775807 + 1", "integer overflow"),
        ("0u - 1u", "unsigned integer overflow"),
        ("int('x')", "type conversion error from 'string' to 'int'"),
        ("optional.none().value()", "optional.none() dereference"),
        ("[].max()", "max called on empty list"),
        ("{'a': 1, 'a': 2}", "Failed with repeated key: a"),
        ("quantity('x')", "quantities must match the regular expression"),
    ],
)
def test_what_has_no_value_says_why(source, text):
    with pytest.raises(CelError, match=text.replace("(", r"\(").replace(")", r"\)")):
        value(source)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("o.nope || true", True),
        ("true || o.nope", True),
        ("o.nope && false", False),
        ("[1, 2].exists(x, x == 2 || o.nope)", True),
        ("[o, {'spec': {'n': 1}}].all(x, x.spec.n == 4 || x.spec.l == [])", False),
    ],
)
def test_an_error_does_not_matter_beside_what_decides(source, expected):
    assert value(source) is expected


def test_nothing_that_an_expression_does_changes_its_variables():
    items = [1, 2]
    variables = {"l": items, "x": "outer"}
    assert compiled("l.map(x, x + 1) + [l.size()] == [2, 3, 2] && x == 'outer'").evaluate(variables) is True
    assert variables == {"l": [1, 2], "x": "outer"}
