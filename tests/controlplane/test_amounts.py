"""Amounts and numbers as they are stored, by how JSON spells them and by which field they are for."""

import json

import pytest

from ktrain.api.meta import Resource

from ..definitions import definition

MEASURES = Resource("amounts.test", "v1", "Measure", "measures", namespaced=True, type=dict)
FIELDS = {"integer": {"type": "integer"}, "number": {"type": "number"}, "either": {"x-kubernetes-int-or-string": True}}
SCHEMA = {"type": "object", "properties": {"spec": {"type": "object", "properties": FIELDS}}}
DEFINITION = definition(MEASURES, schema=SCHEMA)
QUOTA = '{"kind": "ResourceQuota", "apiVersion": "v1", "metadata": {"name": "x"}, "spec": {"hard": {"cpu": %s}}}'
LEASE = '{"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": {"name": "x"}, "spec": {%s}}'
POD = (
    '{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "x"}, "spec": {"containers": [{"name": "c", "image": "i",'
    ' "readinessProbe": {"httpGet": {"port": %s}}}]}}'
)


@pytest.fixture
def post(control_plane):
    """`await post("v1", "pods", text)` sends a body as it is written; returns the status and what was answered."""

    async def send(api, plural, text, content_type="application/json"):
        root = "/api" if api == "v1" else "/apis"
        path = f"{root}/{api}/namespaces/{control_plane.namespace}/{plural}"
        answer = await control_plane.transport.request(
            "POST", path, query=[("dryRun", "All")], headers={"Content-Type": content_type}, body=text.encode()
        )
        return answer.status, json.loads(answer.body)

    return send


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        *(('" 1 "', "1"), ('"1Gi "', "1Gi"), ('"e1"', "0"), ("null", "0"), ('"0.0001Ki"', "103m"), ('"1n"', "1m")),
        *(("1.250", "1.250"), ("1e3", "1e3"), ("1E3", "1E3"), ("1e0", "1e0"), ("-0", "0"), ("1.0", "1")),
        *(("1e309", "1e309"), ("1e-400", "1e-3"), ("3.00000000000000000001", "3001m")),
        *(("9007199254740993.0", "9007199254740993"), ("18446744073709551616", "18446744073709551616")),
    ],
)
async def test_an_amount_keeps_the_value_that_is_written(post, written, stored):
    status, quota = await post("v1", "resourcequotas", QUOTA % written)

    assert (status, quota["spec"]["hard"]) == (201, {"cpu": stored})


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ('"1K"', "unable to parse quantity's suffix"),
        ('"--1"', "unable to parse quantity's suffix"),
        ('"1e99999999999999999999"', "unable to parse quantity's suffix"),
        ('"Ei"', "unable to parse numeric part of quantity"),
        *((text, "quantities must match the regular expression") for text in ('"abc"', '" "', '"\\t1"', "true", "[]")),
    ],
)
async def test_what_is_no_amount_is_refused_with_the_part_that_is_wrong(post, written, said):
    status, answer = await post("v1", "resourcequotas", QUOTA % written)

    prefix = 'ResourceQuota in version "v1" cannot be handled as a ResourceQuota: '
    assert (status, answer["message"].startswith(prefix + said)) == (400, True)


@pytest.mark.parametrize("written", ["1.0", "1e2", "-0.0", "1e400", "2147483648"])
async def test_an_integer_of_a_built_in_kind_is_written_as_one(post, written):
    lease = await post("coordination.k8s.io/v1", "leases", LEASE % f'"leaseTransitions": {written}')
    pod = await post("v1", "pods", POD % written)

    assert (lease[0], pod[0]) == (400, 400)
    said = "cannot be handled as a Pod: json: cannot unmarshal number "
    assert said in pod[1]["message"]


async def test_yaml_has_lost_how_a_number_is_written(post):
    yaml = "application/yaml"
    lease = await post("coordination.k8s.io/v1", "leases", "# YAML\n" + LEASE % '"leaseTransitions": 1.0', yaml)
    quota = await post("v1", "resourcequotas", "# YAML\n" + QUOTA % "1.250", yaml)

    assert (lease[1]["spec"], quota[1]["spec"]) == ({"leaseTransitions": 1}, {"hard": {"cpu": "1250m"}})


def measure(field, written):
    """The text of an object of the custom kind with this in a field."""
    head = f'"apiVersion": "{MEASURES.api_version}", "kind": "Measure", "metadata": {{"name": "x"}}'
    return f'{{{head}, "spec": {{"{field}": {written}}}}}'


@pytest.mark.crds(DEFINITION)
@pytest.mark.parametrize(
    ("field", "written", "stored"),
    [
        *(("integer", "1.0", 1), ("integer", "1e15", 10**15), ("integer", "9007199254740993", 9007199254740993)),
        *(
            ("number", "1.250", 1.25),
            ("number", "18446744073709551615", 2.0**64),
            ("number", "1e400", None),
            ("number", "9" * 400, None),
        ),
        *(("either", "1e3", 1000), ("either", '" 1"', " 1"), ("either", "1e16", None)),
        *(("either", "9223372036854775808", None), ("integer", "9007199254740993.0", None), ("integer", "1.5", None)),
    ],
)
async def test_a_number_of_a_custom_kind_is_an_integer_where_a_float_holds_it_exactly(post, field, written, stored):
    status, obj = await post(MEASURES.api_version, "measures", measure(field, written))

    if stored is None:
        assert status in {400, 422}
    else:
        # Of a float with many digits both are seen: 18446744073709552000 and 1.8446744073709552e19.
        found = obj["spec"][field] if isinstance(stored, int | str) else float(obj["spec"][field])
        assert (status, found, type(found)) == (201, stored, type(stored))


@pytest.mark.crds(DEFINITION)
async def test_a_number_that_no_float_holds_is_refused_with_its_text(post):
    status, answer = await post(MEASURES.api_version, "measures", measure("number", "-1e400"))

    said = (
        'Measure in version "v1" cannot be handled as a Measure: json: cannot unmarshal number -1e400 into Go value of'
    )
    assert (status, answer["message"]) == (400, f"{said} type float64")
