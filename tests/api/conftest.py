import pytest

from ktrain.api import assets
from ktrain.api.schema import Schema


@pytest.fixture(scope="session")
def spec_schema():
    """spec_schema(properties, **keywords): the schema of a kind with such a spec."""

    def make(properties, **keywords):
        spec = {"type": "object", "properties": properties, **keywords}
        return Schema.from_crd({"type": "object", "properties": {"spec": spec}})

    return make


@pytest.fixture(scope="session")
def shipped():
    """Kind to compiled schema, of the shipped CRDs."""
    return {
        crd["spec"]["names"]["kind"]: Schema.from_crd(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
        for crd in assets.crds()
    }


@pytest.fixture
def check(spec_schema):
    """check(schema of one field, value) -> [(field, message)] of the causes."""

    def run(field, value, old=None, warnings=None):
        schema = spec_schema({"f": field})
        before = None if old is None else {"spec": {"f": old}}
        return [tuple(c)[::2] for c in schema.validate({"spec": {"f": value}}, before, warnings=warnings)]

    return run
