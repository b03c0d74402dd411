"""What `kubectl explain` says of our kinds: something, of every field that is ours to say."""

from functools import cache

import pytest

from ktrain.api.crds import all_crds
from ktrain.api.crds.build import builtin_schema
from ktrain.api.schema import definition, descriptions

ROOTS = {crd["spec"]["names"]["kind"]: crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] for crd in all_crds()}
OF_EVERY_OBJECT = {"apiVersion", "kind", "metadata"}
"""At the root, where the API server describes them itself."""


PARTS_OF_TEMPLATES = ("core.v1.", "batch.v1.")


@cache
def definitions():
    """Names of the definitions that pods, Jobs and claims are made of, by the names of their fields."""
    found = {}
    for name in descriptions():
        if name.startswith(PARTS_OF_TEMPLATES):
            found.setdefault(frozenset(definition(name).get("properties", ())), []).append(name)
    return found


def is_a_template(properties):
    """Whether an object is declared exactly as Kubernetes declares one of its own."""
    names = definitions().get(frozenset(properties), ())
    return any(builtin_schema(name)["properties"] == properties for name in names)


def fields(schema, path=""):
    """Yield path and schema of every field that is declared below, but not of those within templates."""
    for step in ("items", "additionalProperties"):
        if isinstance(schema.get(step), dict):
            yield from fields(schema[step], path)
    properties = schema.get("properties", {})
    if path == "" or (properties and not is_a_template(properties)):
        for name, child in properties.items():
            if path or name not in OF_EVERY_OBJECT:
                yield f"{path}.{name}", child
                yield from fields(child, f"{path}.{name}")


@pytest.mark.parametrize("kind", ROOTS)
def test_every_field_that_is_not_of_a_template_is_described_in_a_sentence(kind):
    declared = dict(fields(ROOTS[kind]))
    silent = [path for path, schema in declared.items() if not schema.get("description", "").endswith(".")]

    assert silent == []
    assert len(declared) > 40, "else the walk has missed them"
    assert ROOTS[kind]["description"].endswith(".")


def test_what_pod_templates_say_is_left_to_kubernetes():
    declared = dict(fields(ROOTS["JobSet"]))
    template = ".spec.replicatedJobs.template"

    assert [path for path in declared if path.startswith(template)] == [template]
    assert not builtin_schema("core.v1.PodSpec").get("description")
    assert ".spec.volumeClaimPolicies.retentionPolicy.whenDeleted" in declared
