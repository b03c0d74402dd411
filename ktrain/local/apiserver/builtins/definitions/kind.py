"""CustomResourceDefinitions as objects: defaults, naming, and what makes one acceptable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api.meta import format_time
from ktrain.local.apiserver.builtins.definitions import schemas as definition_schemas
from ktrain.local.apiserver.builtins.definitions.validation import validate_definition, validate_transition
from ktrain.local.apiserver.strategy import WHOLE_METADATA, Strategy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause
    from ktrain.local.apiserver.backend import Backend

CLEANUP_FINALIZER: Final = "customresourcecleanup.apiextensions.k8s.io"
COLLECTION: Final = "customresourcedefinitions.apiextensions.k8s.io"


class DefinitionStrategy(Strategy):
    """
    CustomResourceDefinitions.

    Names are accepted and the kind is established in the write itself; upstream a controller does it a moment later,
    and clients wait for the condition either way.
    """

    kept_by_status = WHOLE_METADATA
    qualified_finalizers = False

    unconditional_update = False

    def check_types(self, obj: Json) -> str:
        """Check the schemas where the kind's own ends."""
        return definition_schemas.shape_error(obj)

    def default(self, obj: Json) -> None:
        """Fill in derived names and the strategy of conversion."""
        definition_schemas.drop_nulls(obj)
        spec = obj.setdefault("spec", {})
        conversion = spec.setdefault("conversion", {"strategy": "None"})
        if service := ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("service"):
            service.setdefault("port", 443)
        names = spec.setdefault("names", {})
        if kind := names.get("kind"):
            names.setdefault("singular", kind.lower())
            names.setdefault("listKind", f"{kind}List")
        for version in spec.get("versions") or ():
            for column in version.get("additionalPrinterColumns", ()):
                column.setdefault("priority", 0)
                if not column["priority"]:
                    del column["priority"]

    def prepare_create(self, obj: Json, backend: Backend) -> None:
        """Accept the names, if nobody has them, and establish the kind."""
        obj["status"] = {"storedVersions": _stored(obj), **_accept_names(obj, backend)}

    def prepare_update(self, obj: Json, old: Json, backend: Backend) -> None:
        """Remember each version that objects may be stored in; look at changed names again."""
        status = dict(old["status"])
        known = status["storedVersions"]
        status["storedVersions"] = [*known, *(name for name in _stored(obj) if name not in known)]
        if obj["spec"].get("names") != old["spec"].get("names") and _is_established(old):
            status["acceptedNames"] = obj["spec"]["names"]
        obj["status"] = status

    def validate(self, obj: Json) -> Sequence[Cause]:
        """Check names, versions, schemas, columns and rules."""
        return validate_definition(obj)

    def validate_update(self, obj: Json, old: Json) -> Sequence[Cause]:
        """The scope and the group stay, accepted names too; a version that objects are stored in may not go."""
        return validate_transition(obj, old, established=_is_established(old))

    def mark_deleted(self, obj: Json) -> None:
        """Hold the definition until its objects are gone."""
        finalizers = obj["metadata"].get("finalizers", [])
        if CLEANUP_FINALIZER not in finalizers:
            obj["metadata"]["finalizers"] = [*finalizers, CLEANUP_FINALIZER]

    def spec_changed(self, obj: Json, old: Json) -> bool:
        """Only the spec counts."""
        return bool(obj["spec"] != old["spec"])


def _stored(obj: Json) -> list[str]:
    """Return the version that objects are stored in; validation, which comes later, wants exactly one."""
    return [version.get("name", "") for version in obj["spec"].get("versions") or () if version.get("storage")][:1]


def _is_established(obj: Json) -> bool:
    conditions = obj.get("status", {}).get("conditions") or ()
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


def _accept_names(obj: Json, backend: Backend) -> Json:
    now = format_time(backend.now())
    conflict = _conflict(obj, backend)
    if conflict:
        reason, taken = conflict
        return {
            "conditions": [
                _condition("NamesAccepted", "False", reason, f'"{taken}" is already in use', now),
                _condition("Established", "False", "NotAccepted", "not all names are accepted", now),
            ],
            "acceptedNames": {"plural": "", "kind": ""},
        }
    return {
        "conditions": [
            _condition("NamesAccepted", "True", "NoConflicts", "no conflicts found", now),
            _condition("Established", "True", "InitialNamesAccepted", "the initial names have been accepted", now),
        ],
        "acceptedNames": obj["spec"].get("names", {}),
    }


def _condition(type_: str, status: str, reason: str, message: str, now: str) -> Json:
    return {"lastTransitionTime": now, "message": message, "reason": reason, "status": status, "type": type_}


def _conflict(obj: Json, backend: Backend) -> tuple[str, str] | None:
    """Return the reason and the name that another definition of the group has taken, if any."""
    spec = obj["spec"]
    mine = spec.get("names", {})
    for _, item in backend.store.collection(COLLECTION).entries():
        other = item.obj
        if other["spec"]["group"] != spec.get("group") or other["metadata"]["name"] == obj["metadata"].get("name"):
            continue
        theirs = other["status"].get("acceptedNames") or {}
        plurals = {theirs.get("plural"), theirs.get("singular"), *theirs.get("shortNames", ())} - {None, ""}
        kinds = {theirs.get("kind"), theirs.get("listKind")} - {None, ""}
        for field, reason in (("plural", "PluralConflict"), ("singular", "SingularConflict")):
            if mine.get(field) in plurals:
                return reason, mine[field]
        for short in mine.get("shortNames", ()):
            if short in plurals:
                return "ShortNamesConflict", short
        for field, reason in (("kind", "KindConflict"), ("listKind", "ListKindConflict")):
            if mine.get(field) in kinds:
                return reason, mine[field]
    return None
