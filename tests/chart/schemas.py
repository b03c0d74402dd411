"""JSON schemas for kubeconform, made from what an API server says about its kinds (/openapi/v3)."""

import json

GROUP_VERSION_KIND = "x-kubernetes-group-version-kind"
OPEN = ("x-kubernetes-preserve-unknown-fields", "additionalProperties")
LOCATION = "{{.ResourceKind}}-{{.Group}}-{{.ResourceAPIVersion}}.json"
"""As kubeconform names files; the group of core kinds is their version."""


def write_schemas(kubectl, kinds, directory):
    """Write a file for each kind, `kinds` being pairs of apiVersion and kind."""
    paths = json.loads(kubectl("get", "--raw", "/openapi/v3"))["paths"]
    for api_version in sorted({api_version for api_version, _ in kinds}):
        prefix = "apis" if "/" in api_version else "api"
        where = paths[f"{prefix}/{api_version}"]["serverRelativeURL"]
        components = json.loads(kubectl("get", "--raw", where))["components"]["schemas"]
        definitions = {name: closed(schema) for name, schema in components.items()}
        group, _, version = api_version.rpartition("/")
        for name, schema in components.items():
            for kind in schema.get(GROUP_VERSION_KIND, ()):
                if (kind["group"], kind["version"]) == (group, version) and (api_version, kind["kind"]) in kinds:
                    file = f"{kind['kind'].lower()}-{group or version}-{version}.json"
                    whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": definitions}
                    (directory / file).write_text(json.dumps({**whole, "$ref": f"#/$defs/{name}"}))


def closed(schema):
    """Return a schema of OpenAPI as a JSON schema that refuses unknown fields, as the server does in strict mode."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    # Values of these are data, or names.
    data = {key: schema[key] for key in ("enum", "default", "example") if key in schema}
    kept = {key: value for key, value in schema.items() if key not in (*data, "nullable", "properties", "$ref")}
    found = {key: closed(value) for key, value in kept.items()} | data
    if "$ref" in schema:
        found["$ref"] = schema["$ref"].replace("#/components/schemas/", "#/$defs/")
    if "properties" in schema:
        found["properties"] = {name: closed(one) for name, one in schema["properties"].items()}
        if not any(key in schema for key in OPEN):
            found["additionalProperties"] = False
    return found
