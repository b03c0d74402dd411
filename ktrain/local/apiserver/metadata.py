"""
ObjectMeta: what the server sets, restores and refuses in every object's metadata.

Runs on every write, so the common case (nothing unusual) takes dictionary look-ups only.
"""

from __future__ import annotations

import json
import re
import uuid
from typing import TYPE_CHECKING, Final

from ktrain.api.meta import format_time
from ktrain.api.selectors import label_key_errors, label_value_errors
from ktrain.local.apiserver import causes

if TYPE_CHECKING:
    import random
    from datetime import datetime

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause
    from ktrain.local.apiserver.strategy import Strategy

GC_FINALIZERS: Final = frozenset({"foregroundDeletion", "orphan"})
_STANDARD_FINALIZERS: Final = GC_FINALIZERS | {"kubernetes"}
_SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_MAX_GENERATE_BASE: Final = 58
_ANNOTATIONS_LIMIT: Final = 256 * 1024
_SERVER_OWNED: Final = ("selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion")


_SHAPES: Final[dict[str, tuple[type, ...]]] = {
    "name": (str,),
    "generateName": (str,),
    "namespace": (str,),
    "uid": (str,),
    "resourceVersion": (str,),
    "labels": (dict,),
    "annotations": (dict,),
    "finalizers": (list,),
    "ownerReferences": (list,),
    "managedFields": (list,),
    "generation": (int,),
    "creationTimestamp": (str,),
    "deletionTimestamp": (str,),
    "deletionGracePeriodSeconds": (int,),
}
_OWNER_PARTS: Final = ("apiVersion", "kind", "name", "uid")
"""What an owner reference always has, if empty."""
_GO_TYPES: Final = {
    "uid": "types.UID",
    "labels": "map[string]string",
    "annotations": "map[string]string",
    "finalizers": "[]string",
    "ownerReferences": "[]v1.OwnerReference",
    "managedFields": "[]v1.ManagedFieldsEntry",
    "generation": "int64",
    "deletionGracePeriodSeconds": "int64",
}
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$")
_WORDS: Final[dict[type, str]] = {
    str: "string",
    bool: "bool",
    int: "number",
    float: "number",
    list: "array",
    dict: "object",
    type(None): "null",
}


def shape_error(metadata: object, kind: str = "") -> str:
    """
    Return the decoder's complaint when metadata is not ObjectMeta-shaped; also drops its nulls in place.

    `kind` is that of the built-in object around it; a custom object's metadata are decoded by themselves.
    """
    path = "metadata." if kind else ""
    if not isinstance(metadata, dict):
        where = f"struct field {kind}.metadata" if kind else "value"
        return f"json: cannot unmarshal {_WORDS[type(metadata)]} into Go {where} of type v1.ObjectMeta"
    for name in [name for name, value in metadata.items() if value is None]:
        del metadata[name]
    for name, value in metadata.items():
        expected = _SHAPES.get(name)
        if expected and (not isinstance(value, expected) or isinstance(value, bool)):
            return _mismatch(value, f"{path}{name}", _GO_TYPES.get(name, "string"))
        if name in {"creationTimestamp", "deletionTimestamp"} and not _TIME.match(value):
            return f'parsing time "{value}" as "2006-01-02T15:04:05Z07:00": cannot parse "{value}" as "2006"'
        if name in {"labels", "annotations"}:
            for key in [key for key, entry in value.items() if entry is None]:
                value[key] = ""
            if wrong := [entry for entry in value.values() if not isinstance(entry, str)]:
                return _mismatch(wrong[0], f"{path}{name}", "string")
        if name in {"finalizers", "ownerReferences"}:
            item_type = str if name == "finalizers" else dict
            metadata[name] = entries = [item_type() if entry is None else entry for entry in value]
            if wrong := [entry for entry in entries if not isinstance(entry, item_type)]:
                return _mismatch(wrong[0], f"{path}{name}", "string" if item_type is str else "v1.OwnerReference")
    return _read_owners(metadata, path)


def _read_owners(metadata: Json, path: str) -> str:
    """Fill in what owner references lack, as empty; return the decoder's complaint about one, or nothing."""
    for reference in metadata.get("ownerReferences", ()):
        for part in _OWNER_PARTS:
            if (value := reference.get(part)) is None:
                reference[part] = ""
            elif not isinstance(value, str):
                expected = _GO_TYPES.get(part, "string")
                return _mismatch(value, f"{path}ownerReferences.{part}", expected, struct="OwnerReference")
    return ""


def _mismatch(value: object, field: str, expected: str, struct: str = "ObjectMeta") -> str:
    found = f"number {value}" if isinstance(value, float) else _WORDS[type(value)]
    return f"json: cannot unmarshal {found} into Go struct field {struct}.{field} of type {expected}"


def prepare_create(metadata: Json, *, now: datetime, random: random.Random, has_generation: bool) -> None:
    """Set what the server owns on a new object, whatever the client sent."""
    for name in _SERVER_OWNED:
        metadata.pop(name, None)
    metadata["uid"] = str(uuid.UUID(int=random.getrandbits(128), version=4))
    metadata["creationTimestamp"] = format_time(now)
    if has_generation:
        metadata["generation"] = 1
    # Of the other kinds nobody looks at it: what the client says stays.
    _drop_empty(metadata)


def prepare_update(metadata: Json, old: Json) -> None:
    """Restore what no client may change silently."""
    metadata.setdefault("uid", old.get("uid"))
    metadata["creationTimestamp"] = old.get("creationTimestamp")
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        if name in old:
            metadata.setdefault(name, old[name])
    if "generation" in old:
        metadata["generation"] = old["generation"]
    else:
        metadata.pop("generation", None)
    _drop_empty(metadata)


def generate_name(base: str, random: random.Random) -> str:
    """Return a name with five random letters at its end."""
    return base[:_MAX_GENERATE_BASE] + "".join(random.choices(_SUFFIX_LETTERS, k=5))


def dedup_owners(metadata: Json) -> str:
    """Drop owner references that are there twice; return the warning about it, or nothing."""
    references = metadata.get("ownerReferences")
    if not references or len(references) < 2:
        return ""
    kept: dict[str, Json] = {}
    doubled: list[str] = []
    for reference in references:
        text = json.dumps(reference, sort_keys=True)
        if text in kept:
            doubled.append(str(reference.get("uid")))
        else:
            kept[text] = reference
    if not doubled:
        return ""
    metadata["ownerReferences"] = list(kept.values())
    return (
        ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may "
        "reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: "
        + ", ".join(doubled)
    )


def finalizer_warnings(metadata: Json) -> list[str]:
    """Warn of finalizers that two writers of custom objects might both choose."""
    return [
        f'metadata.finalizers: "{name}": prefer a domain-qualified finalizer name to avoid accidental conflicts with '
        "other finalizer writers"
        for name in metadata.get("finalizers", ())
        if _is_unqualified(name)
    ]


def _is_unqualified(finalizer: str) -> bool:
    return "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS


def validate(metadata: Json, strategy: Strategy) -> list[Cause]:
    """Return what is wrong with an object's metadata."""
    found = _validate_name(metadata, strategy)
    for key, value in metadata.get("labels", {}).items():
        found += [causes.invalid("metadata.labels", key, text) for text in label_key_errors(key)]
        found += [causes.invalid("metadata.labels", value, text) for text in label_value_errors(value)]
    if annotations := metadata.get("annotations"):
        found += [
            causes.invalid("metadata.annotations", key, text)
            for key in annotations
            for text in label_key_errors(key.lower())
        ]
        if sum(len(k.encode()) + len(v.encode()) for k, v in annotations.items()) > _ANNOTATIONS_LIMIT:
            found.append(causes.too_long("metadata.annotations", _ANNOTATIONS_LIMIT))
    if finalizers := metadata.get("finalizers"):
        for index, name in enumerate(finalizers):
            field = f"metadata.finalizers[{index}]"
            found += [causes.invalid("metadata.finalizers", name, text) for text in label_key_errors(name)]
            if strategy.qualified_finalizers and _is_unqualified(name):
                detail = "name is neither a standard finalizer name nor is it fully qualified"
                found.append(causes.invalid(field, name, detail))
        if set(finalizers) >= GC_FINALIZERS:
            detail = "finalizer orphan and foregroundDeletion cannot be both set"
            found.append(causes.invalid("metadata.finalizers", finalizers, detail))
    if references := metadata.get("ownerReferences"):
        found += _validate_owners(references)
    return found


def validate_update(metadata: Json, old: Json) -> list[Cause]:
    """Return what may not change in metadata."""
    found = [
        causes.invalid(f"metadata.{name}", metadata.get(name), causes.IMMUTABLE)
        for name in ("uid", "deletionTimestamp", "deletionGracePeriodSeconds")
        if metadata.get(name) != old.get(name)
    ]
    if "deletionTimestamp" in old:
        added = sorted(set(metadata.get("finalizers", ())) - set(old.get("finalizers", ())))
        if added:
            listed = ", ".join(f'"{name}"' for name in added)
            detail = (
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{listed}}}"
            )
            found.append(causes.forbidden("metadata.finalizers", detail))
    return found


def _validate_name(metadata: Json, strategy: Strategy) -> list[Cause]:
    found = []
    if base := metadata.get("generateName"):
        found += [causes.invalid("metadata.generateName", base, t) for t in strategy.check_name(base, prefix=True)]
    name = metadata.get("name")
    if not name:
        return [*found, causes.required("metadata.name", "name or generateName is required")]
    return found + [causes.invalid("metadata.name", name, text) for text in strategy.check_name(name)]


def _validate_owners(references: list[Json]) -> list[Cause]:
    found = []
    controllers = []
    for reference in references:
        version = reference.get("apiVersion", "")
        if not version or version.count("/") > 1 or version.endswith("/"):
            found.append(causes.invalid("metadata.ownerReferences.apiVersion", version, "version must not be empty"))
        found += [
            causes.invalid(f"metadata.ownerReferences.{part}", reference.get(part, ""), "must not be empty")
            for part in ("kind", "name", "uid")
            if not reference.get(part)
        ]
        if (version, reference.get("kind")) == ("v1", "Event"):
            detail = "/v1, Kind=Event is disallowed from being an owner"
            found.append(causes.invalid("metadata.ownerReferences", reference, detail))
        if reference.get("controller"):
            controllers.append(f"{reference.get('kind')}/{reference.get('name')}")
    if len(controllers) > 1:
        detail = (
            "Only one reference can have Controller set to true. Found "
            f'"true" in references for {controllers[0]} and {controllers[1]}'
        )
        found.append(causes.invalid("metadata.ownerReferences", references, detail))
    return found


def _drop_empty(metadata: Json) -> None:
    for name in (
        "labels",
        "annotations",
        "finalizers",
        "ownerReferences",
        "generateName",
        "namespace",
        "generation",
        "selfLink",
        "managedFields",
    ):
        if name in metadata and not metadata[name]:
            del metadata[name]
