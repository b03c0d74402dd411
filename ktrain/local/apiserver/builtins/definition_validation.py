"""Validation of CustomResourceDefinitions; `ktrain.api.schema.structural_causes` judges the schemas themselves."""

from __future__ import annotations

import base64
import re
import ssl
from typing import TYPE_CHECKING, Final

from ktrain.api.schema import Cause, structural_causes
from ktrain.local.apiserver import causes, names
from ktrain.local.apiserver.builtins.admission_rules import check_client, check_review_versions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json

_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_SCOPES: Final = ("Cluster", "Namespaced")
_PROTECTED: Final = re.compile(r"(^|\.)(k8s|kubernetes)\.io$")
_APPROVAL: Final = "api-approved.kubernetes.io"
_ONE_STORAGE: Final = "must have exactly one version marked as storage version"
_MAX_SELECTABLE: Final = 8
_LEAVES: Final = ("string", "integer", "boolean")


def validate_definition(obj: Json) -> list[Cause]:
    """Return what is wrong with a definition."""
    spec = obj.get("spec") or {}
    found = [*_validate_names(obj, spec), *_validate_group(obj, spec)]
    versions = spec.get("versions") or []
    if sum(bool(version.get("storage")) for version in versions) != 1:
        found.append(causes.invalid("spec.versions", versions, _ONE_STORAGE))
    if spec.get("preserveUnknownFields"):
        detail = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        )
        found.append(causes.invalid("spec.preserveUnknownFields", value=True, detail=detail))
    found += _validate_conversion(spec.get("conversion") or {})
    seen: set[str] = set()
    for index, version in enumerate(versions):
        name = version.get("name", "")
        if name in seen:
            found.append(causes.duplicate(f"spec.versions[{index}].name", name))
        seen.add(name)
        found += [causes.invalid(f"spec.versions[{index}].name", name, text) for text in names.label(name)]
        found += _validate_version(version, index, versions)
    return found


def validate_transition(obj: Json, old: Json, *, established: bool) -> list[Cause]:
    """Return what of a definition may not change the way it did."""
    spec, before = obj["spec"], old["spec"]
    found = [
        causes.invalid(f"spec.{field}", spec.get(field), causes.IMMUTABLE)
        for field in ("group", "scope")
        if spec.get(field) != before.get(field)
    ]
    if established:
        for field in ("plural", "kind"):
            value = spec["names"].get(field)
            if value != before["names"].get(field):
                found.append(causes.invalid(f"spec.names.{field}", value, causes.IMMUTABLE))
    present = {version.get("name") for version in spec.get("versions") or ()}
    for index, name in enumerate(old["status"].get("storedVersions", ())):
        if name not in present:
            detail = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {name} and removes "
                f"{name} from status.storedVersions"
            )
            found.append(causes.invalid(f"status.storedVersions[{index}]", name, detail))
    return found


def _validate_names(obj: Json, spec: Json) -> Iterator[Cause]:
    given, name = spec.get("names") or {}, obj["metadata"].get("name", "")
    if name != f"{given.get('plural', '')}.{spec.get('group', '')}":
        yield causes.invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    if spec.get("scope") not in _SCOPES:
        if spec.get("scope"):
            yield causes.not_supported("spec.scope", spec["scope"], _SCOPES)
        else:
            yield causes.required("spec.scope")
    if not spec.get("group"):
        yield causes.required("spec.group")
    for field in ("plural", "singular", "kind", "listKind"):
        value = given.get(field)
        if not value:
            yield causes.required(f"spec.names.{field}")
            continue
        for text in names.label(value.lower()):
            yield causes.invalid(f"spec.names.{field}", value, text)
    if given.get("kind") and given.get("kind") == given.get("listKind"):
        yield causes.invalid("spec.names.listKind", given["listKind"], "kind and listKind may not be the same")


def _validate_group(obj: Json, spec: Json) -> Iterator[Cause]:
    group = spec.get("group", "")
    if group and "." not in group:
        yield causes.invalid("spec.group", group, "should be a domain with at least one dot")
    approval = obj["metadata"].get("annotations", {}).get(_APPROVAL, "")
    if _PROTECTED.search(group) and not approval:
        detail = 'protected groups must have approval annotation "api-approved.kubernetes.io", see https://github.com/kubernetes/enhancements/pull/1111'
        yield causes.required(f"metadata.annotations[{_APPROVAL}]", detail)


def _validate_conversion(conversion: Json) -> Iterator[Cause]:
    strategy = conversion.get("strategy", "None")
    webhook = conversion.get("webhook") or {}
    client, versions = webhook.get("clientConfig"), webhook.get("conversionReviewVersions")
    # The fields are named as v1beta1 had them.
    fields = ("spec.conversion.webhookClientConfig", "spec.conversion.conversionReviewVersions")
    if strategy == "Webhook":
        if client is None:
            yield causes.required(fields[0], "required when strategy is set to Webhook")
        else:
            yield from check_client(client, fields[0])
            yield from _validate_bundle(client.get("caBundle"), f"{fields[0]}.caBundle")
        yield from check_review_versions(versions or (), fields[1], hint=False)
        return
    if strategy != "None":
        yield causes.not_supported("spec.conversion.strategy", strategy, ["None", "Webhook"])
    for value, field in zip((client, versions), fields, strict=True):
        if value:
            yield causes.forbidden(field, "should not be set when strategy is not set to Webhook")


def _validate_bundle(bundle: str | None, field: str) -> Iterator[Cause]:
    if not bundle:
        return
    try:
        ssl.create_default_context(cadata=base64.b64decode(bundle).decode("ascii"))
    except (ValueError, ssl.SSLError):
        yield causes.invalid(field, bundle, "unable to load root certificates: unable to parse bytes as PEM block")


def _validate_version(version: Json, index: int, versions: list[Json]) -> Iterator[Cause]:
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema is None:
        yield causes.required(f"spec.versions[{index}].schema.openAPIV3Schema", "schemas are required")
        return
    shared = _shared(versions, "schema")
    if not shared or index == 0:
        root = "spec.validation" if shared else f"spec.versions[{index}].schema"
        yield from structural_causes(schema, f"{root}.openAPIV3Schema")
    for field, check in (
        ("additionalPrinterColumns", _validate_columns),
        ("selectableFields", _validate_selectable),
        ("subresources", _validate_subresources),
    ):
        same = _shared(versions, field)
        if version.get(field) is not None and (not same or index == 0):
            prefix = "spec" if same else f"spec.versions[{index}]"
            yield from check(version, f"{prefix}.{field}")


def _shared(versions: list[Json], field: str) -> bool:
    """Whether all versions agree on a field: upstream then reports it where v1beta1 had it, once for all."""
    return all(version.get(field) == versions[0].get(field) for version in versions)


def _validate_columns(version: Json, field: str) -> Iterator[Cause]:
    for index, column in enumerate(version["additionalPrinterColumns"]):
        path = f"{field}[{index}]"
        if not column.get("name"):
            yield causes.required(f"{path}.name")
        kind = column.get("type")
        if not kind:
            yield causes.required(f"{path}.type", f"must be one of {','.join(_COLUMN_TYPES)}")
        elif kind not in _COLUMN_TYPES:
            yield causes.invalid(f"{path}.type", kind, f"must be one of {','.join(_COLUMN_TYPES)}")
        if not column.get("jsonPath", "").startswith("."):
            detail = "must be a simple json path starting with ."
            yield causes.invalid(f"{path}.JSONPath", column.get("jsonPath", ""), detail)


def _validate_selectable(version: Json, field: str) -> Iterator[Cause]:
    fields = version["selectableFields"]
    if len(fields) > _MAX_SELECTABLE:
        text = f"Too many: {len(fields)}: must have at most {_MAX_SELECTABLE} items"
        yield Cause(field, "FieldValueTooMany", text)
    for index, selectable in enumerate(fields):
        path = selectable.get("jsonPath", "")
        node: Json | None = version["schema"]["openAPIV3Schema"]
        for part in path.lstrip(".").split("."):
            node = (node or {}).get("properties", {}).get(part)
        if node is None or path.startswith(".metadata"):
            detail = "is an invalid path: does not refer to a valid field"
            yield causes.invalid(f"{field}[{index}].jsonPath", path, detail)
        elif node.get("type") not in _LEAVES:
            detail = "is an invalid path: must point to a field of type string, boolean or integer"
            yield causes.invalid(f"{field}[{index}].jsonPath", path, detail)


def _validate_subresources(version: Json, field: str) -> Iterator[Cause]:
    scale = version["subresources"].get("scale")
    if scale is None:
        return
    for name, root in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        path = scale.get(name, "")
        if not path:
            yield causes.required(f"{field}.scale.{name}")
        elif not path.startswith(f"{root}."):
            yield causes.invalid(f"{field}.scale.{name}", path, f"should be a json path under {root}")
