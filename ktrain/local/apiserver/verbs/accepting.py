"""From a decoded body to an object that fits its kind: type, shape, unknown fields, defaults."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ktrain.api import quantity
from ktrain.api.schema import builtin_kinds, builtin_node
from ktrain.local.apiserver import causes, codec, go_fields, metadata
from ktrain.local.apiserver.errors import bad_request, invalid, invalid_result, no_kind
from ktrain.local.apiserver.fields import decoding
from ktrain.local.apiserver.storage.store import decode, encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.meta import Json
    from ktrain.local.apiserver.backend import Call
    from ktrain.local.apiserver.registry import ServedResource

# Not null: decoding it into a Go field of any type leaves the field as it is.
_WRONG_TYPE: Final = re.compile(
    r'Invalid value: "(?!null")(?P<found>array|boolean|float64|integer|number|object|string)": '
    r".* must be of type (?P<expected>(?!byte)[\w,]+): "
)
# An empty text is no bytes, and no time.
_WRONG_FORMAT: Final = re.compile(r'must be of type (?P<format>byte(?=: "[^"])|date-time): (?P<text>".*")$', re.DOTALL)
_OUT_OF_RANGE: Final = re.compile(
    r"Checked value must be of type \w+ (?:with format (?P<format>\w+)|\(default format\)) in (?P<path>.*)"
)
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]*={0,2}")

_NOT_A_QUANTITY: Final = re.compile(r'must be of type quantity: (?P<text>".*")$', re.DOTALL)


def read_object(call: Call, validation: str) -> Json:
    """
    Return the object in the body of a POST or PUT, pruned; what is wrong with its fields is told as `validation` asks.

    Raises:
        StatusError: 415, 400 or 422: it is not what this URL takes.
    """
    resource = call.resource
    body = codec.decode_object(
        call.request.body,
        call.header("content-type"),
        kind=resource.kind,
        api_version=resource.api_version,
        protobuf=not resource.custom,
        root=None if resource.custom else resource.schema.root,
    )
    check_type(resource, body.obj)
    check_shape(resource, body.obj)
    obj, complaints = prune(call, body.obj)
    report(call, [*body.duplicates, *complaints], validation)
    check_names(call, obj)
    return obj


def check_type(resource: ServedResource, obj: Json) -> None:
    """
    Refuse a body of another kind or version. Bodies of built-in kinds may leave both out, as stock clients do.

    Raises:
        StatusError: 400, or 422 for a custom kind's wrong `kind`.
    """
    version, kind = obj.get("apiVersion"), obj.get("kind")
    if not resource.custom:
        _check_builtin_type(resource, version or resource.api_version, kind or resource.kind)
        return
    if not kind:
        shown = encode(obj).decode()
        prefix = f"the object provided is unrecognized (must be of type {resource.kind})"
        raise bad_request(f"{prefix}: Object 'Kind' is missing in '{shown}' ({codec.excerpt(shown.encode())})")
    if version != resource.api_version:
        raise bad_request(
            f"the API version in the data ({version or ''}) does not match the expected API version "
            f"({resource.api_version})"
        )
    if kind != resource.kind:
        meta = obj.get("metadata")
        name = meta.get("name", "") if isinstance(meta, dict) else ""
        wrong = [causes.invalid("kind", kind, f"must be {resource.kind}")]
        raise invalid(resource, str(name), wrong, kind=str(kind))


def _check_builtin_type(resource: ServedResource, version: str, kind: str) -> None:
    if (version, kind) == (resource.api_version, resource.kind):
        return
    if f"{version}/{kind}" in builtin_kinds():
        group = resource.group.partition(".")[0] or "core"
        named = f"{version.rpartition('/')[2]}.{kind}"
        error = f"converting ({named}) to ({group}.{resource.kind}): unknown conversion"
    else:
        error = no_kind(kind, version)
    shown = str(version).rpartition("/")[2]
    raise bad_request(f'{kind} in version "{shown}" cannot be handled as a {resource.kind}: {error}')


def check_shape(resource: ServedResource, obj: Json) -> None:
    """
    Refuse what typed decoding would refuse.

    Raises:
        StatusError: 400.
    """
    if error := shape_error(resource, obj):
        raise bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {error}'
        )


def shape_error(resource: ServedResource, obj: Json) -> str:
    """
    Return what typed decoding complains about: metadata of the wrong shape, and wrong types in built-in kinds.

    Custom kinds' other fields are left to validation, which answers 422 instead. Nulls in metadata go, in place.
    """
    if obj.get("metadata") is None:
        obj["metadata"] = {}
    error = metadata.shape_error(obj["metadata"], "" if resource.custom else resource.kind)
    if error or resource.custom:
        return error
    return _type_error(resource, obj) or resource.strategy.check_types(obj)


def prune(call: Call, obj: Json, *, keep_nulls: bool = False) -> tuple[Json, list[str]]:
    """Cut unknown fields; return what is left and the complaints about the rest."""
    schema = call.resource.schema
    if not call.resource.custom:
        obj = decoding.typed(obj, schema.root)
    pruned, unknown = schema.prune(obj, keep_nulls=keep_nulls)
    if call.resource.custom and (meta := _without_empties(pruned["metadata"])) != pruned["metadata"]:
        pruned = {**pruned, "metadata": meta}
    return pruned, [f'unknown field "{path}"' for path in unknown]


def _without_empties(meta: Json) -> Json:
    """Return a custom object's metadata as typed encoding leaves it; that of built-in kinds is pruned with the rest."""
    omitted = builtin_node("meta.v1.ObjectMeta").omit_empty
    return {name: value for name, value in meta.items() if value or name not in omitted}


def report(call: Call, complaints: Sequence[str], validation: str) -> None:
    """
    Say what is wrong with the fields of a POST or PUT, in the way `fieldValidation` asks for.

    Raises:
        StatusError: 400 under Strict.
    """
    if not complaints or validation == "Ignore":
        return
    if validation == "Strict":
        kind, version = call.resource.kind, call.resource.version
        listed = ", ".join(complaints)
        raise bad_request(
            f'{kind} in version "{version}" cannot be handled as a {kind}: strict decoding error: {listed}'
        )
    for complaint in complaints:
        # YAML's complaints come in one piece, and are warned of one by one.
        head, *lines = complaint.split("\n  ")
        call.warnings.extend(lines or [head])


def report_patch(call: Call, complaints: Sequence[str], validation: str, text: object) -> None:
    """
    Do the same for a patch, where the text of the patch, or of the whole patched object, is the offending value.

    Raises:
        StatusError: 422 under Strict.
    """
    if not complaints or validation == "Ignore":
        return
    if validation == "Strict":
        raise invalid_result(str(text), f"strict decoding error: {', '.join(complaints)}")
    call.warnings.extend(complaints)


def default(resource: ServedResource, obj: Json) -> Json:
    """Return the object with what the schema and the kind fill in. `obj` belongs to the request."""
    filled = resource.schema.default(obj)
    resource.strategy.default(filled)
    return filled


def check_names(call: Call, obj: Json) -> None:
    """
    Make the body's name and namespace agree with the URL's.

    Raises:
        StatusError: 400.
    """
    meta = obj["metadata"]
    if call.resource.namespaced:
        if meta.get("namespace", call.namespace) not in {call.namespace, ""}:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        meta["namespace"] = call.namespace
    else:
        meta.pop("namespace", None)
    if call.name:
        if not meta.get("name"):
            message = f"the name of the object ({call.name} based on URL) was undeterminable: name must be provided"
            raise bad_request(message)
        if meta["name"] != call.name:
            raise bad_request(
                f"the name of the object ({meta['name']}) does not match the name on the URL ({call.name})"
            )


def private_copy(obj: Json) -> Json:
    """
    Return a copy that shares nothing with the original: what is stored must not change under its readers.

    Raises:
        StatusError: 400: patches have made it nested too deeply.
    """
    try:
        text = encode(obj)
        copy: Json = decode(text)
        codec.check_depth(copy, text)
    except (RecursionError, codec.TooDeep) as error:
        raise bad_request("the object is nested too deeply: exceeded max depth") from error
    return copy


def _type_error(resource: ServedResource, obj: Json) -> str:
    found = resource.schema.validate_shape(obj)
    for cause in found:
        if wrong := _NOT_A_QUANTITY.search(cause.message):
            return quantity.complaint(decode(wrong["text"]))
        if wrong := _OUT_OF_RANGE.search(cause.message):
            return go_fields.mismatch(resource.api_version, resource.kind, wrong["path"], "number", obj)
        if cause.reason == "FieldValueTypeInvalid" and (wrong := _WRONG_TYPE.match(cause.message)):
            fraction = obj if wrong["found"] == "float64" else None
            return go_fields.mismatch(resource.api_version, resource.kind, cause.field, wrong["found"], fraction)
    for cause in found:
        if wrong := _WRONG_FORMAT.search(cause.message):
            return resource.strategy.check_types(obj) or _format_error(wrong["format"], decode(wrong["text"]))
    return ""


def _format_error(name: str, text: str) -> str:
    if name == "byte":
        legal = len(_BASE64.findall(text)[0])
        return f"illegal base64 data at input byte {legal if legal < len(text) else 0}"
    return f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": cannot parse "{text}" as "2006"'
