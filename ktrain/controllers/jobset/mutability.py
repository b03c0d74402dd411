"""
What may change in a JobSet that exists.

Replicated jobs are frozen but for five fields of their pod templates, and those only in an update that finds or leaves
the JobSet suspended: that is the window in which a queueing controller places it. With the gate ElasticJobSet the size
of indexed Jobs may change, too. The schema's own rules guard the policies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api.schema.causes import invalid

from .decoded import JOB_TEMPLATE, compared
from .elastic_rules import size_errors, with_size_of
from .gates import OFF, Gates
from .go_order import printed_jobs

if TYPE_CHECKING:
    from ktrain.api.meta import Json, JsonValue
    from ktrain.api.schema import Cause

_METADATA: Final = ("labels", "annotations")
_SPEC: Final = ("nodeSelector", "tolerations", "schedulingGates")
_IMMUTABLE: Final = "field is immutable"

# Fields of a Job template by how their emptiness reads. Other objects, `emptyDir` say, mean something when empty.
_MAPS: Final = frozenset({"labels", "annotations", "nodeSelector", "matchLabels", "requests", "limits", "overhead"})
_NOTHING: Final[tuple[JsonValue, ...]] = (None, [], "")


def refusals_on_update(new: Json, old: Json, gates: Gates = OFF) -> list[Cause]:
    """Everything that this update may not do. Values are compared by meaning: an empty field equals an absent one."""
    new_spec: Json = new.get("spec") or {}
    old_spec: Json = old.get("spec") or {}
    before: list[Json] = old_spec.get("replicatedJobs") or []
    after: list[Json] = new_spec.get("replicatedJobs") or []
    by_name = {rj.get("name"): rj for rj in before}
    causes: list[Cause] = []
    asked = after
    if gates.lets_resize((old.get("metadata") or {}).get("labels") or {}):
        causes += size_errors(after, by_name, old.get("status") or {})
        asked = [with_size_of(by_name.get(rj.get("name"), rj), rj) for rj in asked]
    if new_spec.get("suspend") or old_spec.get("suspend"):
        asked = [_with_open_fields_of(by_name.get(rj.get("name"), rj), rj) for rj in asked]
    if asked != before and not _same(_values(asked), _values(before)):
        shown = printed_jobs(asked or new_spec.get("replicatedJobs"))
        causes.append(invalid("spec.replicatedJobs", shown, _IMMUTABLE))
    if new_spec.get("managedBy") != old_spec.get("managedBy"):
        causes.append(invalid("spec.managedBy", new_spec.get("managedBy"), _IMMUTABLE))
    return causes


def _with_open_fields_of(old: Json, new: Json) -> Json:
    """The new replicated job, with the fields that may differ as they were."""
    job = _map(new, "template")
    job_spec = _map(job, "spec")
    pod = _map(job_spec, "template")
    old_pod = _map(_map(_map(old, "template"), "spec"), "template")
    masked = {
        **pod,
        "metadata": _taking(_METADATA, _map(old_pod, "metadata"), _map(pod, "metadata")),
        "spec": _taking(_SPEC, _map(old_pod, "spec"), _map(pod, "spec")),
    }
    return {**new, "template": {**job, "spec": {**job_spec, "template": masked}}}


def _taking(fields: tuple[str, ...], source: Json, target: Json) -> Json:
    kept = {field: value for field, value in target.items() if field not in fields}
    return kept | {field: source[field] for field in fields if field in source}


def _map(parent: Json, field: str) -> Json:
    value: Json | None = parent.get(field)
    return value or {}


def _values(replicated_jobs: list[Json]) -> JsonValue:
    """Return replicated jobs as Go compares them: what is stored went through its structs, an update may not have."""
    return [{**rj, "template": compared(rj.get("template") or {}, JOB_TEMPLATE)} for rj in replicated_jobs]


def _same(left: JsonValue, right: JsonValue) -> bool:
    """Compare as the API machinery does: absent, null and empty are one."""
    if isinstance(left, dict) and isinstance(right, dict):
        return all(_same_field(key, left.get(key), right.get(key)) for key in left.keys() | right.keys())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return type(left) is type(right) and bool(left == right)


def _same_field(key: str, left: JsonValue, right: JsonValue) -> bool:
    if key in _MAPS:
        return (left or {}) == (right or {})
    if left in _NOTHING and right in _NOTHING:
        return True
    return _same(left, right)
