"""Words to write structural schemas in, and built-in definitions inlined into them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..schema import definition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..meta import Json, JsonValue

QUANTITY: Final = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
"""As all CRDs have it that are made with Kubernetes' own tools: it is in messages. It takes `1e.5`, which is none."""
_DROPPED: Final = frozenset({"x-kubernetes-patch-merge-key", "x-kubernetes-patch-strategy"})
"""Strategic merge knows built-in kinds only; in a CRD these keywords do not exist."""


def obj(
    properties: Json | None = None,
    *,
    required: Sequence[str] = (),
    rules: Sequence[Json] = (),
    description: str = "",
    **keywords: JsonValue,
) -> Json:
    """An object with these properties."""
    schema: Json = {"description": description} if description else {}
    schema |= {"type": "object"}
    if properties:
        schema["properties"] = properties
    if required:
        schema["required"] = list(required)
    return with_rules(schema | keywords, *rules)


def text(low: int | None = None, high: int | None = None, *, description: str = "", **keywords: JsonValue) -> Json:
    """A string of so many characters."""
    schema: Json = {"description": description} if description else {}
    schema |= {"type": "string"}
    if low is not None:
        schema["minLength"] = low
    if high is not None:
        schema["maxLength"] = high
    return schema | keywords


def integer(low: int | None = None, *, bits: int = 32, description: str = "", **keywords: JsonValue) -> Json:
    """An integer, by default of 32 bits."""
    schema: Json = {"description": description} if description else {}
    schema |= {"type": "integer", "format": f"int{bits}"}
    if low is not None:
        schema["minimum"] = low
    return schema | keywords


def flag(*, description: str = "", **keywords: JsonValue) -> Json:
    """A boolean."""
    schema: Json = {"description": description} if description else {}
    return schema | {"type": "boolean"} | keywords


def array(
    items: Json,
    *,
    keys: Sequence[str] = (),
    kind: str = "",
    high: int | None = None,
    description: str = "",
    **more: JsonValue,
) -> Json:
    """A list: a map by `keys`, or of the kind `set` or `atomic`; of at most `high` items."""
    schema: Json = {"description": description} if description else {}
    schema |= {"type": "array", "items": items}
    if high is not None:
        schema["maxItems"] = high
    if keys:
        schema |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}
    elif kind:
        schema["x-kubernetes-list-type"] = kind
    return schema | more


def strings(description: str) -> Json:
    """A map of texts to texts, as labels are."""
    return {"description": description, "type": "object", "additionalProperties": {"type": "string"}}


def moment(description: str) -> Json:
    """A time in RFC 3339."""
    return {"description": description, "type": "string", "format": "date-time"}


def opened(description: str) -> Json:
    """An object of any fields, which somebody else checks."""
    return {"description": description, "type": "object", "x-kubernetes-preserve-unknown-fields": True}


def described(schema: Json, description: str) -> Json:
    """The schema with a description for the field that it is in: what is shared says nothing of the place."""
    return schema | {"description": description}


def rule(expression: str, message: str) -> Json:
    """A CEL rule."""
    return {"rule": expression, "message": message}


def with_rules(schema: Json, *rules: Json) -> Json:
    """The schema with CEL rules added to those it has."""
    if not rules:
        return schema
    return {**schema, "x-kubernetes-validations": [*schema.get("x-kubernetes-validations", []), *rules]}


def immutable(schema: Json, message: str = "field is immutable") -> Json:
    """The schema, its value fixed once set. It can be added and removed: the rule needs a value before and after."""
    return with_rules(schema, rule("self == oldSelf", message))


TEMPLATE_METADATA: Final[Json] = obj(
    {
        "annotations": strings("Annotations of the object."),
        "finalizers": array(text(), description="What has to be taken off before the object can go."),
        "labels": strings("Labels of the object."),
        "name": text(description="Name of the object, where its template may say one."),
        "namespace": text(description="Namespace of the object, where its template may say one."),
    }
)
"""What a template may say about the metadata of the objects made from it."""

_NAMELESS: Final[Json] = {"name": ""}
_REFERENCES: Final = (
    "ConfigMapEnvSource",
    "ConfigMapKeySelector",
    "ConfigMapProjection",
    "ConfigMapVolumeSource",
    "LocalObjectReference",
    "SecretEnvSource",
    "SecretKeySelector",
    "SecretProjection",
)
_DEFAULTS: Final[Json] = {
    **{f"core.v1.{name}": _NAMELESS for name in _REFERENCES},
    "core.v1.AzureDiskVolumeSource": {"readOnly": False, "cachingMode": None, "kind": None},
    "core.v1.FileKeySelector": {"optional": False},
    "core.v1.GRPCAction": {"service": ""},
}
"""
Defaults that Go's types declare in their comments, so that definitions made from them fill them in. Those that are
declared by the name of a constant (None) they do not.
"""
_WORKLOAD_REF: Final[Json] = obj(
    {
        "name": text(description="Name of the Workload, in the pod's namespace."),
        "podGroup": text(description="Name of the group in the Workload."),
        "podGroupReplicaKey": text(description="Which replica of the group; the policy counts for each by itself."),
    },
    required=("name", "podGroup"),
    description="The group that the scheduler of Kubernetes 1.35 places the pod with.",
)
"""Kubernetes 1.35's field of pods, which 1.36 has replaced by `schedulingGroup`: templates serve clusters of both."""
_ATOMIC: Final = frozenset(f"core.v1.{name}" for name in _REFERENCES if name != "LocalObjectReference")
"""What has a LocalObjectReference inside, and so is one value to server-side apply, as that is."""
_NAME: Final = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_DNS: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
CONDITION: Final[Json] = obj(
    {
        "lastTransitionTime": moment("When its status last changed."),
        "message": text(high=32768, description="Why, in a sentence for people."),
        "observedGeneration": integer(0, bits=64, description="The metadata.generation that it was found of."),
        "reason": text(
            1,
            1024,
            pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
            description="Why, in a word for programs.",
        ),
        "status": text(enum=["True", "False", "Unknown"], description="Whether it holds: True, False or Unknown."),
        "type": text(
            high=316,
            pattern=rf"^({_DNS}(\.{_DNS})*/)?({_NAME})$",
            description="What it says of the object; there is one condition of each type.",
        ),
    },
    required=("lastTransitionTime", "message", "reason", "status", "type"),
)
"""metav1.Condition; the bounds are those its Go type declares."""


def builtin_schema(name: str) -> Json:
    """A built-in definition (`core.v1.PodSpec`) as a structural schema of its own, all references resolved."""
    if name == "meta.v1.ObjectMeta":
        return TEMPLATE_METADATA
    schema = _inline(definition(name))
    for field, value in _DEFAULTS.get(name, {}).items():
        properties = schema["properties"]
        declared = {key: one for key, one in properties[field].items() if key != "default"}
        if value is not None:
            declared["default"] = value
        schema = schema | {"properties": properties | {field: declared}}
    if name == "core.v1.PodSpec":
        schema = schema | {"properties": schema["properties"] | {"workloadRef": _WORKLOAD_REF}}
    return schema | {"x-kubernetes-map-type": "atomic"} if name in _ATOMIC else schema


def _inline(schema: Json) -> Json:
    if "$ref" in schema:
        resolved = builtin_schema(schema["$ref"])
        return resolved | {key: value for key, value in schema.items() if key not in _DROPPED and key != "$ref"}
    out: Json = {}
    for key, value in schema.items():
        if key == "properties":
            out[key] = {name: _inline(child) for name, child in value.items()}
        elif key in {"items", "additionalProperties"} and isinstance(value, dict):
            out[key] = _inline(value)
        elif key not in _DROPPED:
            out[key] = value
    if out.get("x-kubernetes-int-or-string"):
        # Says the same again for clients that do not know the extension.
        out = {"anyOf": [{"type": "integer"}, {"type": "string"}], **out}
        if "pattern" in out:
            out["pattern"] = QUANTITY
    return _with_key_defaults(out)


def _with_key_defaults(schema: Json) -> Json:
    """
    Give an optional key of a list map a default, as structural schemas require.

    Go's types leave such a key empty when it is missing, so that is the default (`imagePullSecrets[].name`).
    """
    items = schema.get("items", {})
    optional = [
        key
        for key in schema.get("x-kubernetes-list-map-keys", ())
        if key not in items.get("required", ()) and "default" not in items["properties"][key]
    ]
    if not optional:
        return schema
    properties = {
        key: child | {"default": ""} if key in optional else child for key, child in items["properties"].items()
    }
    return schema | {"items": items | {"properties": properties}}


def crd(
    group: str,
    version: str,
    kind: str,
    plural: str,
    schema: Json,
    *,
    namespaced: bool = True,
    columns: Sequence[Json] = (),
    scale: Json | None = None,
) -> Json:
    """
    A CustomResourceDefinition of one served and stored version.

    With a `status` property it has that subresource; with `scale`, the paths of it, that one, too.
    """
    served: Json = {"name": version, "served": True, "storage": True}
    if "status" in schema["properties"]:
        served["subresources"] = {"status": {}} | ({"scale": scale} if scale else {})
    if columns:
        served["additionalPrinterColumns"] = list(columns)
    own = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}
    served["schema"] = {"openAPIV3Schema": schema | {"properties": own | schema["properties"]}}
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": names,
            "scope": "Namespaced" if namespaced else "Cluster",
            "versions": [served],
        },
    }


def column(name: str, path: str, kind: str = "string", *, wide: bool = False) -> Json:
    """A column that `kubectl get` prints; a wide one with `-o wide` only."""
    return {"name": name, "type": kind, "jsonPath": path} | ({"priority": 1} if wide else {})
