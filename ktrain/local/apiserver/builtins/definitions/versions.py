"""Validation of one version of a definition: schema, printer columns, selectable fields, scale."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ktrain.api.schema import structural_causes
from ktrain.local.apiserver import causes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_MAX_SELECTABLE: Final = 8
_MAX_WARNING: Final = 256
_LEAVES: Final = ("string", "integer", "boolean")
_SIMPLE_PATH: Final = re.compile(r"(?:\.[A-Za-z_][\w-]*|\['[^']+'\]|\[\d+\])+")


def validate_version(version: Json, index: int, versions: list[Json]) -> Iterator[Cause]:
    """Yield what is wrong with one of the versions, in the fields where v1beta1 had what all of them share."""
    field = f"spec.versions[{index}]"
    warning = version.get("deprecationWarning")
    if warning is not None:
        yield from _validate_warning(version, warning, f"{field}.deprecationWarning")
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema is None:
        yield causes.required(f"{field}.schema.openAPIV3Schema")
        return
    shared = _shared(versions, "schema")
    if not shared or index == 0:
        root = "spec.validation" if shared else f"{field}.schema"
        yield from structural_causes(schema, f"{root}.openAPIV3Schema")
    for name, check in (
        ("additionalPrinterColumns", _validate_columns),
        ("selectableFields", _validate_selectable),
        ("subresources", _validate_subresources),
    ):
        same = _shared(versions, name)
        if version.get(name) is not None and (not same or index == 0):
            prefix = "spec" if same else field
            yield from check(version, f"{prefix}.{name}")


def _shared(versions: list[Json], field: str) -> bool:
    """Whether all versions agree on a field: upstream then reports it where v1beta1 had it, once for all."""
    return all(version.get(field) == versions[0].get(field) for version in versions)


def _validate_warning(version: Json, warning: str, field: str) -> Iterator[Cause]:
    if not version.get("deprecated"):
        yield causes.invalid(field, warning, "can only be set for deprecated versions")
    if len(warning) > _MAX_WARNING:
        yield causes.invalid(field, warning, f"must be <= {_MAX_WARNING} characters long")
    if not warning:
        yield causes.invalid(field, warning, "must not be an empty string")
    if any(not char.isprintable() for char in warning):
        yield causes.invalid(
            field, warning, "must only contain printable UTF-8 characters; non-printable character found"
        )


def _validate_columns(version: Json, field: str) -> Iterator[Cause]:
    for index, column in enumerate(version["additionalPrinterColumns"]):
        path = f"{field}[{index}]"
        if not column.get("name"):
            yield causes.required(f"{path}.name")
        kind, form, where = column.get("type"), column.get("format"), column.get("jsonPath", "")
        if not kind:
            yield causes.required(f"{path}.type", f"must be one of {','.join(_COLUMN_TYPES)}")
        elif kind not in _COLUMN_TYPES:
            yield causes.invalid(f"{path}.type", kind, f"must be one of {','.join(_COLUMN_TYPES)}")
        if form and form not in _COLUMN_FORMATS:
            yield causes.invalid(f"{path}.format", form, f"must be one of {','.join(_COLUMN_FORMATS)}")
        if not where:
            yield causes.required(f"{path}.JSONPath")
        elif not where.startswith("."):
            yield causes.invalid(f"{path}.JSONPath", where, "must be a simple json path starting with .")


def _validate_selectable(version: Json, field: str) -> Iterator[Cause]:
    fields = version["selectableFields"]
    if len(fields) > _MAX_SELECTABLE:
        yield causes.too_many(field, len(fields), _MAX_SELECTABLE)
    before: set[str] = set()
    for index, path in enumerate(one.get("jsonPath", "") for one in fields):
        at = f"{field}[{index}].jsonPath"
        if not path:
            yield causes.required(at)
        elif problem := _selectable_problem(version["schema"]["openAPIV3Schema"], path):
            yield causes.invalid(at, path, problem)
        elif path in before:
            yield causes.duplicate(at, path)
        before.add(path)


def _selectable_problem(schema: Json, path: str) -> str:
    if not path.startswith((".", "[")):
        return f"is an invalid path: expected [ or . but got: {path.partition('.')[0]}"
    if re.search(r"\[\d+\]", path):
        return "is an invalid path: array notation is not allowed"
    node: Json | None = schema
    for part in path.lstrip(".").split("."):
        node = (node or {}).get("properties", {}).get(part)
    if node is None or path.startswith(".metadata"):
        return "is an invalid path: does not refer to a valid field"
    if node.get("type") not in _LEAVES:
        kinds = "string, boolean or integer"
        return f"must point to a field of type {kinds}. Enum string fields and strings with formats are allowed."
    return ""


def _validate_subresources(version: Json, field: str) -> Iterator[Cause]:
    scale = version["subresources"].get("scale")
    if scale is None:
        return
    checks = (
        ("specReplicasPath", (".spec",), "should be a json path under .spec"),
        ("statusReplicasPath", (".status",), "should be a json path under .status"),
        ("labelSelectorPath", (".spec", ".status"), "should be a json path under either .spec or .status"),
    )
    for name, roots, detail in checks:
        path, at = scale.get(name, ""), f"{field}.scale.{name}"
        if not path:
            if name != "labelSelectorPath":
                yield causes.required(at)
        elif not _SIMPLE_PATH.fullmatch(path):
            yield causes.invalid(at, path, "must be a simple json path starting with .")
        elif not path.startswith(tuple(f"{root}." for root in roots)):
            yield causes.invalid(at, path, detail)
