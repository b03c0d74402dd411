"""
Extract what Go's types say and OpenAPI does not: `ktrain/local/apiserver/protobuf/fields.json`, the field tables of
protobuf messages, and `ktrain/api/kubernetes-omitted.json`, the fields that typed encoding leaves out when they are
empty.

    python hack/protobuf_fields.py "$(go env GOMODCACHE)/k8s.io" v0.36.3

`generated.proto` has numbers and types. What it cannot say is how a message looks as JSON: the field's JSON name,
whether it is folded into the message around it, and whether a zero is left out. That is in the tags of `types.go`, so
both are read and joined by message and field number.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "ktrain"
OUTPUT = PACKAGE / "local" / "apiserver" / "protobuf" / "fields.json"
OMITTED = PACKAGE / "api" / "kubernetes-omitted.json"

GROUPS = {
    "v1": "core/v1",
    "admissionregistration.k8s.io/v1": "admissionregistration/v1",
    "admissionregistration.k8s.io/v1beta1": "admissionregistration/v1beta1",
    "apps/v1": "apps/v1",
    "authentication.k8s.io/v1": "authentication/v1",
    "authorization.k8s.io/v1": "authorization/v1",
    "autoscaling/v1": "autoscaling/v1",
    "autoscaling/v2": "autoscaling/v2",
    "batch/v1": "batch/v1",
    "coordination.k8s.io/v1": "coordination/v1",
    "discovery.k8s.io/v1": "discovery/v1",
    "events.k8s.io/v1": "events/v1",
    "networking.k8s.io/v1": "networking/v1",
    "node.k8s.io/v1": "node/v1",
    "policy/v1": "policy/v1",
    "rbac.authorization.k8s.io/v1": "rbac/v1",
    "scheduling.k8s.io/v1": "scheduling/v1",
    "scheduling.k8s.io/v1alpha2": "scheduling/v1alpha2",
    "storage.k8s.io/v1": "storage/v1",
}
META = "meta.v1"

SCALARS = {"string": "s", "bytes": "y", "bool": "b", "int32": "i", "int64": "l", "double": "d"}
# Messages whose JSON is not an object of their fields; `scalars.py` knows them by these names.
SPECIAL = {
    "k8s.io.apimachinery.pkg.api.resource.Quantity": "Quantity",
    "k8s.io.apimachinery.pkg.util.intstr.IntOrString": "IntOrString",
    "k8s.io.apimachinery.pkg.runtime.RawExtension": "Raw",
    "k8s.io.apimachinery.pkg.apis.meta.v1.FieldsV1": "Raw",
    "k8s.io.apimachinery.pkg.apis.meta.v1.Time": "Time",
    "k8s.io.apimachinery.pkg.apis.meta.v1.MicroTime": "MicroTime",
    "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSON": "Raw",
    "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray": "SchemaOr",
    "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool": "SchemaOr",
    "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray": "SchemaOr",
}

_MESSAGE = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^  (optional |repeated |required )?(map<string, ([\w.]+)>|[\w.]+) \w+ = (\d+);", re.MULTILINE)
_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_MEMBER = re.compile(r"^\t(?:\w+ +)?(\S+) +`([^`]*)`", re.MULTILINE)
_KIND = re.compile(r"^\t(metav1\.)?TypeMeta ", re.MULTILINE)
_PROTO_NAME = re.compile(r"name=(\w+)")
_TAG = re.compile(r'(\w+):"([^"]*)"')

Field = list[object]


class Package:
    """One Go package with its `generated.proto` and `types.go`."""

    def __init__(self, directory: Path, short: str) -> None:
        proto = (directory / "generated.proto").read_text()
        self.short = short
        self.name = re.search(r"^package (.+);", proto, re.MULTILINE)[1]
        self.messages = dict(_MESSAGE.findall(proto))
        sources = "".join(file.read_text() for file in sorted(directory.glob("*types*.go")))
        self.structs = dict(_STRUCT.findall(sources))

    def kinds(self) -> list[str]:
        """Return the messages that are kinds of their own, those with a TypeMeta; nobody sends lists."""
        return [n for n in self.messages if _KIND.search(self.structs.get(n, "")) and not n.endswith("List")]


def members(struct: str) -> dict[int, tuple[str, str]]:
    """Return JSON name and flags of a Go struct's members, by field number."""
    found = {}
    for go_type, tags in _MEMBER.findall(struct):
        tag = dict(_TAG.findall(tags))
        if "protobuf" not in tag:
            continue
        # Unions with a JSON form of their own have no JSON names; `scalars.py` reads them by the names used here.
        name, *options = (tag.get("json") or _PROTO_NAME.search(tag["protobuf"])[1]).split(",")
        kept = go_type.startswith("*") or not {"omitempty", "omitzero"} & set(options)
        flags = "n" if "inline" in options else "k" if kept else ""
        found[int(tag["protobuf"].split(",")[1])] = (name, flags)
    return found


def full_name(package: Package, name: str) -> str:
    """Return the full name of a type mentioned in a package."""
    return name[1:] if name.startswith(".") else f"{package.name}.{name}"


def main() -> None:
    root, version = Path(sys.argv[1]), sys.argv[2]
    api = root / f"api@{version}"
    packages = {group: Package(api / path, path.replace("/", ".")) for group, path in GROUPS.items()}
    meta = Package(root / f"apimachinery@{version}/pkg/apis/meta/v1", META)
    extensions = f"apiextensions-apiserver@{version}/pkg/apis/apiextensions/v1"
    packages["apiextensions.k8s.io/v1"] = Package(root / extensions, "apiextensions.v1")
    by_name = {package.name: package for package in [*packages.values(), meta]}

    kinds = {f"{group}/{kind}": f"{p.short}.{kind}" for group, p in packages.items() for kind in p.kinds()}
    # Options belong to no group: clients send them as of any.
    kinds["DeleteOptions"] = f"{META}.DeleteOptions"
    tables: dict[str, list[Field]] = {}
    wanted = list(kinds.values())
    while wanted:
        short = wanted.pop()
        if short in tables:
            continue
        package = next(p for p in by_name.values() if short.startswith(f"{p.short}."))
        tables[short] = table(package, short.removeprefix(f"{package.short}."), by_name, wanted)
    for name in sorted(name for name in SPECIAL if SPECIAL[name] == "SchemaOr"):
        kind = name.rpartition(".")[2]
        tables[f"apiextensions.v1.{kind}"] = table(packages["apiextensions.k8s.io/v1"], kind, by_name, wanted)
    lines = [f"{json.dumps(name)}:{json.dumps(tables[name], separators=(',', ':'))}" for name in sorted(tables)]
    listed = json.dumps(dict(sorted(kinds.items())), separators=(",", ":"))
    OUTPUT.write_text(f'{{"kinds":{listed},\n"messages":{{\n' + ",\n".join(lines) + "\n}}\n")
    dropped = {name: fields for name in sorted(tables) if (fields := sorted(omitted(name, tables)))}
    lines = [f"{json.dumps(name)}:{json.dumps(fields, separators=(',', ':'))}" for name, fields in dropped.items()]
    OMITTED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def omitted(message: str, tables: dict[str, list[Field]]) -> set[str]:
    """Return the fields of a message that JSON leaves out when empty: scalars, lists and maps, but no structs."""
    found: set[str] = set()
    for _, name, kind, flags in tables[message]:
        if "n" in str(flags):
            found |= omitted(str(kind), tables)
        elif name and "k" not in str(flags) and (kind in SCALARS.values() or {"m", "r"} & set(str(flags))):
            found.add(str(name))
    return found


def table(package: Package, message: str, by_name: dict[str, Package], wanted: list[str]) -> list[Field]:
    """Return a message's fields: number, JSON name, type, flags; remember the messages it needs in `wanted`."""
    known = members(package.structs.get(message, ""))
    fields: list[Field] = []
    for label, plain, value, number in _FIELD.findall(package.messages[message]):
        # A message without a Go struct wraps a list, so that it can be told from an absent one; JSON has no wrapper.
        name, flags = known[int(number)] if known else ("", "")
        kind = type_name(package, value or plain, by_name, wanted)
        flags += "m" if value else "r" if label == "repeated " else ""
        fields.append([int(number), name, kind, flags])
    return fields


def type_name(package: Package, name: str, by_name: dict[str, Package], wanted: list[str]) -> str:
    """Return a type's name in the table."""
    if name in SCALARS:
        return SCALARS[name]
    full = full_name(package, name)
    owner, _, kind = full.rpartition(".")
    short = f"{by_name[owner].short}.{kind}" if owner in by_name else ""
    if full in SPECIAL and SPECIAL[full] != "SchemaOr":
        return SPECIAL[full]
    wanted.append(short)
    return f"{'|' if full in SPECIAL else ''}{short}"


if __name__ == "__main__":
    main()
