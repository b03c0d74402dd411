"""
Extract the schemas of built-in kinds from Kubernetes' OpenAPI v3 documents into `ktrain/api/kubernetes.json`.

    python hack/kubernetes_schema.py "$(go env GOMODCACHE)/k8s.io/kubernetes@v1.36.3/api/openapi-spec/v3"

Into that goes structure: types, formats, requirements, list and map types, merge keys. Go's zero values, which the
document repeats as defaults (`""`, `{}`, `0`), are dropped: they are what an absent field means anyway.

Descriptions go into a file of their own, `kubernetes-descriptions.json.gz`: they are Kubernetes' own words (Apache
License 2.0), four times the structure, and read by nobody but `kubectl explain`.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any

Json = dict[str, Any]

OUTPUT = Path(__file__).parent.parent / "ktrain" / "api" / "kubernetes.json"
DESCRIPTIONS = OUTPUT.with_name("kubernetes-descriptions.json.gz")

KINDS = {
    "v1": "Binding ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume PersistentVolumeClaim Pod "
    "PodTemplate ReplicationController ResourceQuota Secret Service ServiceAccount",
    "admissionregistration.k8s.io/v1": "MutatingWebhookConfiguration ValidatingAdmissionPolicy "
    "ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration",
    "apiextensions.k8s.io/v1": "CustomResourceDefinition",
    "authentication.k8s.io/v1": "SelfSubjectReview TokenRequest TokenReview",
    "authorization.k8s.io/v1": "LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview "
    "SubjectAccessReview",
    "apps/v1": "DaemonSet Deployment ReplicaSet StatefulSet",
    "autoscaling/v1": "Scale",
    "autoscaling/v2": "HorizontalPodAutoscaler",
    "batch/v1": "CronJob Job",
    "coordination.k8s.io/v1": "Lease",
    "discovery.k8s.io/v1": "EndpointSlice",
    "events.k8s.io/v1": "Event",
    "networking.k8s.io/v1": "Ingress NetworkPolicy",
    "node.k8s.io/v1": "RuntimeClass",
    "policy/v1": "Eviction PodDisruptionBudget",
    "rbac.authorization.k8s.io/v1": "ClusterRole ClusterRoleBinding Role RoleBinding",
    "scheduling.k8s.io/v1": "PriorityClass",
    "scheduling.k8s.io/v1alpha2": "PodGroup Workload",
    "storage.k8s.io/v1": "StorageClass",
}

META = ("ObjectMeta", "ListMeta", "Status", "DeleteOptions", "LabelSelector", "Condition", "Patch")
META_PREFIX = "io.k8s.apimachinery.pkg.apis.meta.v1."

KEPT = {
    "type", "format", "enum", "required", "properties", "additionalProperties", "items", "default", "oneOf",
    "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type",
    "x-kubernetes-patch-merge-key", "x-kubernetes-patch-strategy",
}  # fmt: skip

# What Go declares as raw JSON: the document says `object`, but anything may be inside.
FREE_FORM = {
    "io.k8s.apimachinery.pkg.runtime.RawExtension": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "io.k8s.apimachinery.pkg.apis.meta.v1.Patch": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}
_JSON = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
FREE_FORM |= {
    f"{_JSON}{name}": {"x-kubernetes-preserve-unknown-fields": True}
    for name in ("JSON", "JSONSchemaPropsOrArray", "JSONSchemaPropsOrBool", "JSONSchemaPropsOrStringArray")
}
INT_OR_STRING = {"x-kubernetes-int-or-string": True}
# A quantity is written as a string, and numbers are read, too. The pattern is the grammar that its type documents.
_NUMBER = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)"
_QUANTITY = rf"^[+-]?{_NUMBER}([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$"
SCALARS = {
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": INT_OR_STRING,
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {**INT_OR_STRING, "pattern": _QUANTITY},
}


def short(name: str) -> str:
    """`io.k8s.api.core.v1.Pod` -> `core.v1.Pod`; unique among what we take."""
    return re.sub(
        r"^io\.k8s\.(api|apimachinery\.pkg\.apis|apimachinery\.pkg|apiextensions-apiserver\.pkg\.apis)\.", "", name
    )


def slim(node: Json, refs: set[str]) -> Json:
    """The node without prose, its references collected into `refs`."""
    inner = node.get("allOf", [])
    target = node.get("$ref") or (inner[0]["$ref"] if len(inner) == 1 and "$ref" in inner[0] else None)
    out: Json = {}
    if target:
        name = target.removeprefix("#/components/schemas/")
        refs.add(name)
        out["$ref"] = short(name)
    for key in KEPT & node.keys():
        value = node[key]
        if key == "default" and not value:
            continue
        if key == "properties":
            value = {k: slim(v, refs) for k, v in sorted(value.items())}
        elif key == "items" or (key == "additionalProperties" and isinstance(value, dict)):
            value = slim(value, refs)
        out[key] = value
    return dict(sorted(out.items()))


def definitions(documents: list[Json]) -> dict[str, Json]:
    """All schemas of all documents by full name."""
    return {name: schema for d in documents for name, schema in d["components"]["schemas"].items()}


def roots(schemas: dict[str, Json]) -> dict[str, str]:
    """`v1/Pod` -> full schema name, for every kind wanted."""
    found = {}
    for name, schema in schemas.items():
        if name.startswith(META_PREFIX):
            continue
        for gvk in schema.get("x-kubernetes-group-version-kind", ()):
            version = f"{gvk['group']}/{gvk['version']}".removeprefix("/")
            if gvk["kind"] in KINDS.get(version, "").split():
                found[f"{version}/{gvk['kind']}"] = name
    missing = {f"{v}/{k}" for v, kinds in KINDS.items() for k in kinds.split()} - found.keys()
    if missing:
        raise SystemExit(f"not in the documents: {', '.join(sorted(missing))}")
    return found


def resources(documents: list[Json]) -> dict[str, Json]:
    """`v1/Pod` -> its plural and scope, from the paths that its objects are created at."""
    found: dict[str, Json] = {}
    for path, operations in ((p, o) for d in documents for p, o in d["paths"].items()):
        match = re.fullmatch(r"/apis?(?:/[^/]+){1,2}(/namespaces/\{namespace\})?/([a-z]+)", path)
        if match and "post" in operations:
            gvk = operations["post"]["x-kubernetes-group-version-kind"]
            version = f"{gvk['group']}/{gvk['version']}".removeprefix("/")
            found[f"{version}/{gvk['kind']}"] = {"plural": match[2], "namespaced": match[1] is not None}
    return found


def extract(documents: list[Json], version: str) -> Json:
    """The kinds wanted, and every definition they reach."""
    schemas = definitions(documents)
    kinds = roots(schemas)
    served = resources(documents)
    todo = [*kinds.values(), *(META_PREFIX + name for name in META)]
    done: dict[str, Json] = {}
    while todo:
        name = todo.pop()
        if short(name) in done:
            continue
        refs: set[str] = set()
        done[short(name)] = FREE_FORM.get(name) or SCALARS.get(name) or slim(schemas[name], refs)
        todo.extend(refs)
    return {
        "version": version,
        "kinds": {kind: {"definition": short(name)} | served.get(kind, {}) for kind, name in sorted(kinds.items())},
        "definitions": dict(sorted(done.items())),
    }


def descriptions(documents: list[Json], names: set[str]) -> dict[str, dict[str, str]]:
    """The words about each definition, under `""`, and about its fields."""
    found = {}
    for full, schema in sorted(definitions(documents).items()):
        if short(full) in names:
            texts = {"": schema, **schema.get("properties", {})}
            found[short(full)] = {field: one["description"] for field, one in texts.items() if one.get("description")}
    return found


def main() -> None:
    """Read the directory of OpenAPI v3 documents named on the command line and write the extract."""
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    source = Path(sys.argv[1])
    names = ["api__v1_openapi.json", *(f"apis__{v.replace('/', '__')}_openapi.json" for v in KINDS if "/" in v)]
    documents = [json.loads((source / name).read_text(encoding="utf-8")) for name in names]
    match = re.search(r"kubernetes@(v[\d.]+)", str(source))
    extracted = extract(documents, match[1] if match else "unknown")
    # One definition a line: small, and a diff between Kubernetes versions stays readable.
    bodies = extracted["definitions"]
    lines = (f"{json.dumps(name)}:{json.dumps(body, separators=(',', ':'))}" for name, body in bodies.items())
    head = json.dumps({"version": extracted["version"], "kinds": extracted["kinds"]}, separators=(",", ":"))
    OUTPUT.write_text(f'{head[:-1]},"definitions":{{\n' + ",\n".join(lines) + "\n}}\n", encoding="utf-8")
    words = json.dumps(descriptions(documents, set(bodies)), separators=(",", ":"), sort_keys=True)
    # Without the time of day inside, the same input gives the same file.
    DESCRIPTIONS.write_bytes(gzip.compress(words.encode(), 9, mtime=0))
    print(f"{DESCRIPTIONS}: {DESCRIPTIONS.stat().st_size} bytes")
    print(f"{OUTPUT}: {len(extracted['kinds'])} kinds, {len(bodies)} definitions, {OUTPUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
