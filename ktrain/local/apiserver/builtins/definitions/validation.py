"""
Validation of CustomResourceDefinitions: names, group, conversion; `versions.py` has what a version says.

Fields and texts are upstream's, which validates them in the form that v1beta1 had.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes, names
from ktrain.local.apiserver.builtins.access.admission_rules import check_client, check_review_versions
from ktrain.local.apiserver.builtins.definitions.versions import validate_version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

_SCOPES: Final = ("Cluster", "Namespaced")
_PROTECTED: Final = re.compile(r"(^|\.)(k8s|kubernetes)\.io$")
_APPROVAL: Final = "api-approved.kubernetes.io"
_APPROVAL_RULES: Final = "https://github.com/kubernetes/enhancements/pull/1111"
_ONE_STORAGE: Final = "must have exactly one version marked as storage version"


def validate_definition(obj: Json) -> list[Cause]:
    """Return what is wrong with a definition."""
    spec = obj.get("spec") or {}
    found = [*_validate_names(obj, spec), *_validate_group(obj, spec)]
    if spec.get("preserveUnknownFields"):
        detail = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        )
        found.append(causes.invalid("spec.preserveUnknownFields", value=True, detail=detail))
    found += _validate_conversion(spec.get("conversion") or {})
    found += _validate_versions(obj, spec.get("versions") or [])
    return found


def _validate_versions(obj: Json, versions: list[Json]) -> Iterator[Cause]:
    named = [version.get("name", "") for version in versions]
    storage = [version.get("name", "") for version in versions if version.get("storage")]
    if len(storage) != 1:
        yield causes.invalid("spec.versions", [_printed(one) for one in versions], _ONE_STORAGE)
    if len(set(named)) != len(named):
        yield causes.invalid("spec.versions", [_printed(one) for one in versions], "must contain unique version names")
    for index, version in enumerate(versions):
        for text in names.dns1035_label(named[index]):
            yield causes.invalid(f"spec.versions[{index}].name", named[index], text)
            if index == 0:
                yield causes.invalid("spec.version", named[index], text)
        yield from validate_version(version, index, versions)
    stored = (obj.get("status") or {}).get("storedVersions") or []
    if not stored:
        yield causes.invalid("status.storedVersions", None, "must have at least one stored version")
    for name in storage:
        if stored and name not in stored:
            yield causes.invalid("status.storedVersions", stored, f"must have the storage version {name}")


def _printed(version: Json) -> Json:
    """A version as the API server prints it: Go's names of its fields."""
    return {
        "Name": version.get("name", ""),
        "Served": version.get("served", False),
        "Storage": version.get("storage", False),
        "Deprecated": version.get("deprecated", False),
        "DeprecationWarning": version.get("deprecationWarning"),
        "Schema": None,
        "Subresources": None,
        "AdditionalPrinterColumns": None,
        "SelectableFields": None,
    }


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
        # Kinds are written in any case.
        mixed = field in {"kind", "listKind"}
        for text in names.dns1035_label(value.lower() if mixed else value):
            detail = f"may have mixed case, but should otherwise match: {text}" if mixed else text
            yield causes.invalid(f"spec.names.{field}", value, detail)
    for field in ("shortNames", "categories"):
        for index, value in enumerate(given.get(field) or ()):
            for text in names.dns1035_label(value):
                yield causes.invalid(f"spec.names.{field}[{index}]", value, text)
    if given.get("kind") and given.get("kind") == given.get("listKind"):
        yield causes.invalid("spec.names.listKind", given["listKind"], "kind and listKind may not be the same")


def _validate_group(obj: Json, spec: Json) -> Iterator[Cause]:
    group = spec.get("group", "")
    if group and "." not in group:
        yield causes.invalid("spec.group", group, "should be a domain with at least one dot")
    approval = obj["metadata"].get("annotations", {}).get(_APPROVAL, "")
    if _PROTECTED.search(group) and not approval:
        detail = f'protected groups must have approval annotation "{_APPROVAL}", see {_APPROVAL_RULES}'
        yield causes.required(f"metadata.annotations[{_APPROVAL}]", detail)
    if _PROTECTED.search(group) and approval and not approval.startswith(("https://", "http://", "unapproved")):
        detail = (
            f'protected groups must have approval annotation "{_APPROVAL}" with either a URL or a reason starting with '
            f'"unapproved", see {_APPROVAL_RULES}'
        )
        yield causes.invalid(f"metadata.annotations[{_APPROVAL}]", approval, detail)


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
        yield from check_review_versions(versions or (), fields[1], hint=False)
        return
    if strategy != "None":
        yield causes.not_supported("spec.conversion.strategy", strategy, ["None", "Webhook"])
    for value, field in zip((client, versions), fields, strict=True):
        if value:
            yield causes.forbidden(field, "should not be set when strategy is not set to Webhook")
