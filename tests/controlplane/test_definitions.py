"""Which CustomResourceDefinitions are accepted, and what is said of the others: the tables beside this file."""

import json
from pathlib import Path

import pytest
import yaml

TABLES = Path(__file__).parent / "tables"
URL = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FIELD = "spec.validation.openAPIV3Schema.properties[spec].properties[f]"
ROOT = "spec.validation.openAPIV3Schema"
TEXT, COUNT = {"type": "string"}, {"type": "integer"}
PLAIN = {
    "f": TEXT,
    "n": COUNT,
    "l": {"type": "array", "items": TEXT},
    "o": {"type": "object", "properties": {"a": TEXT}},
    **{f"f{i}": TEXT for i in range(9)},
}


def definition(case):
    """The definition of a case, which says in what it differs from an ordinary one."""
    fields = {"f": case["field"]} if "field" in case else PLAIN
    root = {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": case.get("root", root)}}
    if case.get("noschema"):
        del version["schema"]
    spec = {"group": "cmp.test", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.cmp.test"},
        "spec": {**spec, "versions": [{**version, **case.get("version", {})}], **case.get("spec", {})},
    }


def said(body):
    causes = (body.get("details") or {}).get("causes", [])
    return sorted((one["field"].replace(FIELD, "@").replace(ROOT, "^"), one["message"]) for one in causes)


@pytest.mark.parametrize("table", ["schemas", "rules", "versions", "definitions"])
async def test_a_definition_is_accepted_or_refused_field_by_field(control_plane, table):
    cases = yaml.safe_load((TABLES / f"{table}.yaml").read_text())
    differences = {}
    for name, case in cases.items():
        body = json.dumps(definition(case)).encode()
        answer = await control_plane.transport.request(
            "POST", URL, query=[("dryRun", "All")], headers={"Content-Type": "application/json"}, body=body
        )
        wanted = sorted((field, message) for field, message in case["refused"])
        found = said(json.loads(answer.body))
        if found != wanted or answer.status != (422 if wanted else 201):
            differences[name] = (answer.status, found, wanted)
    assert differences == {}
    assert len(cases) > 10
