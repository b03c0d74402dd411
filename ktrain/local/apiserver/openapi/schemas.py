"""
Schemas of kinds and their lists, and of all that they refer to, under the names that Kubernetes publishes.

Built-in ones are those that the server validates with, plus Kubernetes' own descriptions. They are published as
upstream has them where ours say more than OpenAPI can: quantities and int-or-strings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api.schema import builtin_kinds, definition, descriptions
from ktrain.local.apiserver.documents.discovery import SUBRESOURCE_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ktrain.api.meta import Json, JsonValue
    from ktrain.local.apiserver.registry import ServedResource

_PREFIXES: Final = {
    "meta.": "io.k8s.apimachinery.pkg.apis.",
    "api.resource.": "io.k8s.apimachinery.pkg.",
    "util.": "io.k8s.apimachinery.pkg.",
    "runtime.": "io.k8s.apimachinery.pkg.",
    "apiextensions.": "io.k8s.apiextensions-apiserver.pkg.apis.",
}
_BUILTIN_PREFIX: Final = "io.k8s.api."
_META: Final = "meta.v1."
OPTIONS: Final = (f"{_META}DeleteOptions", f"{_META}Patch", f"{_META}Status")
"""What operations refer to besides kinds."""
_SCALARS: Final[dict[str, Json]] = {
    "api.resource.Quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "util.intstr.IntOrString": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    "runtime.RawExtension": {"type": "object"},
    "meta.v1.FieldsV1": {"type": "object"},
    "meta.v1.Patch": {"type": "object"},
}


def components(resources: Iterable[ServedResource]) -> Json:
    """Return `components.schemas` of a document of these resources."""
    texts = descriptions()
    found: Json = {}
    wanted = [*OPTIONS, f"{_META}ListMeta", f"{_META}ObjectMeta"]
    for resource in resources:
        name = kind_name(resource)
        if resource.json_schema is None:
            internal = _internal(resource.api_version, resource.kind)
            wanted.append(internal)
            schema = _publish(internal, texts)
        else:
            schema = _custom(resource.json_schema, texts)
        found[name] = {**schema, "x-kubernetes-group-version-kind": [group_version_kind(resource, resource.kind)]}
        if "list" in resource.verbs:
            found[f"{name}List"] = _list(resource, texts)
        wanted += [builtin for sub in resource.subresources if (builtin := _of_subresource(sub))]
        if resource.scale is not None:
            wanted.append(_of_subresource("scale"))
    _add_all(wanted, found, texts)
    return dict(sorted(found.items()))


def kind_name(resource: ServedResource) -> str:
    """Return the name of a kind's schema: a Go package for built-in ones, the reversed group for custom ones."""
    if resource.json_schema is None:
        return _public_name(_internal(resource.api_version, resource.kind))
    return ".".join([*reversed(resource.group.split(".")), resource.version, resource.kind])


def group_version_kind(resource: ServedResource, kind: str) -> Json:
    """Return the value of `x-kubernetes-group-version-kind`."""
    return {"group": resource.group, "version": resource.version, "kind": kind}


def reference(public_name: str) -> Json:
    """Return a reference to a schema of the same document."""
    return {"$ref": f"#/components/schemas/{public_name}"}


def option_reference(name: str) -> Json:
    """Return a reference to one of the kinds of requests and answers (`Status`)."""
    return reference(_public_name(f"{_META}{name}"))


def _internal(api_version: str, kind: str) -> str:
    return builtin_kinds()[f"{api_version}/{kind}"].definition


def subresource_schema(name: str) -> Json | None:
    """Return a reference to the schema of a subresource that has not its parent's kind; None if it has, or has none."""
    internal = _of_subresource(name)
    return reference(_public_name(internal)) if internal else None


def _of_subresource(name: str) -> str:
    """Return the definition of such a subresource, empty if there is none: streams (exec) have a kind, but no body."""
    if name not in SUBRESOURCE_KINDS:
        return ""
    group, version, kind = SUBRESOURCE_KINDS[name]
    known = builtin_kinds().get(f"{group}/{version}/{kind}" if group else f"{version}/{kind}")
    return known.definition if known else ""


def _public_name(name: str) -> str:
    prefix = next((full for short, full in _PREFIXES.items() if name.startswith(short)), _BUILTIN_PREFIX)
    return prefix + name


def _custom(json_schema: Json, texts: Mapping[str, Mapping[str, str]]) -> Json:
    """Return a custom kind's schema with what all kinds have."""
    properties = {**json_schema.get("properties", {}), **_type_and_metadata("ObjectMeta", texts)}
    return {**json_schema, "properties": properties}


def _list(resource: ServedResource, texts: Mapping[str, Mapping[str, str]]) -> Json:
    kind, _version = resource.names_of_list
    items = {"type": "array", "items": reference(kind_name(resource)), "description": f"List of {resource.plural}."}
    return {
        "description": f"{kind} is a list of {resource.kind}.",
        "type": "object",
        "required": ["items"],
        "properties": {**_type_and_metadata("ListMeta", texts), "items": items},
        "x-kubernetes-group-version-kind": [group_version_kind(resource, kind)],
    }


def _type_and_metadata(metadata: str, texts: Mapping[str, Mapping[str, str]]) -> Json:
    of_any = texts.get("core.v1.Pod", {})
    return {
        "apiVersion": {"description": of_any.get("apiVersion", ""), "type": "string"},
        "kind": {"description": of_any.get("kind", ""), "type": "string"},
        "metadata": {"description": of_any.get("metadata", ""), "allOf": [option_reference(metadata)]},
    }


def _add_all(wanted: list[str], found: Json, texts: Mapping[str, Mapping[str, str]]) -> None:
    """Add these built-in schemas, and those that they refer to."""
    seen: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name in seen:
            continue
        seen.add(name)
        wanted.extend(_targets(definition(name)))
        if (public := _public_name(name)) not in found:
            found[public] = _publish(name, texts)


def _targets(schema: JsonValue) -> list[str]:
    if isinstance(schema, list):
        return [target for item in schema for target in _targets(item)]
    if not isinstance(schema, dict):
        return []
    own = [target] if isinstance(target := schema.get("$ref"), str) else []
    return own + [target for value in schema.values() for target in _targets(value)]


def _publish(name: str, texts: Mapping[str, Mapping[str, str]]) -> Json:
    """Return a built-in definition as OpenAPI has it, with its descriptions."""
    of_fields = texts.get(name, {})
    schema = dict(_SCALARS.get(name) or _published(definition(name)))
    if properties := schema.get("properties"):
        schema["properties"] = {
            field: _described(value, of_fields.get(field, "")) for field, value in properties.items()
        }
    return _described(schema, of_fields.get("", ""))


def _described(schema: Json, text: str) -> Json:
    if not text:
        return schema
    if "$ref" in schema:
        return {"description": text, "allOf": [schema]}
    return {"description": text, **schema}


def _published(schema: JsonValue) -> JsonValue:
    """Return a built-in schema with references as OpenAPI has them: alone, or in an allOf beside other keywords."""
    if isinstance(schema, list):
        return [_published(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if isinstance(target := schema.get("$ref"), str):
        rest = {key: _published(value) for key, value in schema.items() if key != "$ref"}
        found = reference(_public_name(target))
        return {"allOf": [found], **rest} if rest else found
    return {key: _published(value) for key, value in schema.items()}
