"""Which new sizes of Jobs are taken (gate ElasticJobSet): for indexed ones, both numbers alike, until the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api.schema.causes import forbidden, invalid

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ktrain.api.meta import Json, JsonValue
    from ktrain.api.schema import Cause

_SIZE: Final = ("parallelism", "completions")


def size_errors(after: Sequence[Json], before: Mapping[JsonValue, Json], status: Json) -> Iterator[Cause]:
    """Everything that is wrong with the new sizes. `before`: the replicated jobs as they were, by name."""
    over = any(
        condition.get("type") in ("Completed", "Failed") and condition.get("status") == "True"
        for condition in status.get("conditions") or []
    )
    for index, rj in enumerate(after):
        old = before.get(rj.get("name"))
        if old is None or not _is_resized(old, rj):
            continue
        path = f"spec.replicatedJobs[{index}].template.spec"
        if over:
            detail = "Cannot mutate parallelism or completions when JobSet is in a terminal state (Completed or Failed)"
            yield forbidden(path, detail)
        else:
            yield from _new_size_errors(path, _job_spec(old), _job_spec(rj))


def _new_size_errors(path: str, old: Json, new: Json) -> Iterator[Cause]:
    for field in _SIZE:
        value = new.get(field)
        if value is not None and value < 1 and value != old.get(field):
            yield invalid(f"{path}.{field}", value, f"{field} must be >= 1")
    parallelism, completions = (new.get(field) for field in _SIZE)
    if parallelism is not None and completions is not None and parallelism != completions:
        detail = "completions must be equal to parallelism for Elastic Indexed Jobs"
        yield invalid(f"{path}.completions", completions, detail)


def with_size_of(old: Json, new: Json) -> Json:
    """The new replicated job, of the old size if it may differ."""
    if not _is_resized(old, new):
        return new
    spec = {field: value for field, value in _job_spec(new).items() if field not in _SIZE}
    before = _job_spec(old)
    spec |= {field: before[field] for field in _SIZE if field in before}
    return {**new, "template": {**(new.get("template") or {}), "spec": spec}}


def _is_resized(old: Json, new: Json) -> bool:
    before, after = _job_spec(old), _job_spec(new)
    indexed = after.get("completionMode") == "Indexed"
    return indexed and any(before.get(field) != after.get(field) for field in _SIZE)


def _job_spec(rj: Json) -> Json:
    spec: Json | None = (rj.get("template") or {}).get("spec")
    return spec or {}
