"""
Extract from Kubernetes' Go types which structs are always there, into `ktrain/api/kubernetes-present.json`.

    python hack/kubernetes_structs.py "$(go env GOMODCACHE)/k8s.io" v0.36.3

A struct that is a field, and no pointer, is part of an object from the beginning, and so is a list without `omitempty`.
Whoever creates the object writes what is inside and does not own the struct itself, which managedFields show and no
OpenAPI document says. Run it after `kubernetes_schema.py`, whose definitions it looks at.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

API = Path(__file__).parent.parent / "ktrain" / "api"
OUTPUT = API / "kubernetes-present.json"

PACKAGES = {
    "meta": "apimachinery@{version}/pkg/apis/meta/{api}",
    "apiextensions": "apiextensions-apiserver@{version}/pkg/apis/apiextensions/{api}",
}
STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
FIELD = re.compile(r'^\t(?:\w+ +)?([*\[\]\w.{}]+) +`[^`]*json:"([^"]*)"', re.MULTILINE)


class Field(NamedTuple):
    """A field as Go declares it."""

    name: str
    type: str
    options: tuple[str, ...]


def structs(directory: Path) -> dict[str, list[Field]]:
    """All structs of a package."""
    found = {}
    for file in directory.glob("*.go"):
        if not file.name.startswith("zz_") and not file.name.endswith("_test.go"):
            for name, body in STRUCT.findall(file.read_text(encoding="utf-8")):
                tags = ((type_, tag.split(",")) for type_, tag in FIELD.findall(body))
                found[name] = [Field(tag[0], type_, tuple(tag[1:])) for type_, tag in tags]
    return found


def fields_of(name: str, package: dict[str, list[Field]]) -> dict[str, Field]:
    """The fields of a struct, those of inlined structs of the package included."""
    found = {}
    for field in package.get(name, ()):
        if "inline" in field.options or not field.name:
            found |= fields_of(field.type.rpartition(".")[2].lstrip("*"), package)
        else:
            found[field.name] = field
    return found


def resolved(schema: dict[str, Any], definitions: dict[str, Any]) -> str:
    """The JSON type of a property; empty for what is encoded by a method of its own (times, quantities)."""
    if "$ref" not in schema:
        return str(schema.get("type", ""))
    target = definitions[schema["$ref"]]
    return "struct" if target.get("type") == "object" and "properties" in target else ""


def extract(root: Path, version: str, definitions: dict[str, Any]) -> dict[str, list[str]]:
    """The fields of each definition that are there when nothing says so."""
    packages: dict[str, dict[str, list[Field]]] = {}
    found = {}
    for name, definition in definitions.items():
        package, _, kind = name.rpartition(".")
        group, _, api = package.rpartition(".")
        if package not in packages:
            path = PACKAGES.get(group, f"api@{{version}}/{group}/{{api}}").format(version=version, api=api)
            packages[package] = structs(root / path)
        go = fields_of(kind, packages[package])
        present = [
            field
            for field, schema in definition.get("properties", {}).items()
            if field in go and is_present(go[field], resolved(schema, definitions))
        ]
        if present:
            found[name] = present
    return found


def is_present(field: Field, shape: str) -> bool:
    """Whether encoding shows a field that nobody has set."""
    if field.type.startswith("*") or "omitzero" in field.options:
        return False
    return shape == "struct" or (shape == "array" and not field.options)


def main() -> None:
    """Read the packages below the directory, of the version named, and write the extract."""
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    definitions = json.loads((API / "kubernetes.json").read_text(encoding="utf-8"))["definitions"]
    found = extract(Path(sys.argv[1]), sys.argv[2], definitions)
    lines = (f"{json.dumps(name)}:{json.dumps(fields, separators=(',', ':'))}" for name, fields in found.items())
    OUTPUT.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{OUTPUT}: {len(found)} definitions, {OUTPUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
