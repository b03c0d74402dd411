"""
What Kueue means by an update of a TrainJob.

It reads a job into the types of the Trainer that it was built with and writes the whole of it back, to suspend a job
and before it admits one. What those types lack is gone then: the older shapes of overrides, what newer Trainers let
patches set, what only ktrain has. Nobody meant that, and no JobSet lets its pods change so: the job would be stuck.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ktrain.api.meta import Json, JsonValue

MANAGER: Final = "kueue.x-k8s.io/manager"
"""Of the patch that Kueue's webhook adds to every TrainJob."""
_EMPTY: Final[tuple[Any, ...]] = ({}, [], "", None)
"""What Go writes where there was nothing."""


def meant(job: Json, old: Json | None) -> Json:
    """
    Return the TrainJob with what an update dropped beside what Kueue writes for: `suspend`, and its own patch.

    An update that adds or changes anything else, or changes neither of the two, is somebody's own and counts as it is.
    """
    new, before = _spec(job), _spec(old)
    if _own(new) is None or _own(before) is None or _own(new) == _own(before):
        return job
    left, whole = _others(new), _others(before)
    if left == whole or not _is_within(left, whole):
        return job
    theirs = next(patch for patch in new["runtimePatches"] if _is_kueues(patch))
    patches = [theirs if _is_kueues(patch) else patch for patch in before["runtimePatches"]]
    said = {key: new[key] for key in ("suspend",) if key in new}
    return job | {"spec": {key: before[key] for key in before if key != "suspend"} | said | {"runtimePatches": patches}}


def _spec(job: Json | None) -> Json:
    spec = job.get("spec") if job else None
    return spec if isinstance(spec, dict) else {}


def _own(spec: Json) -> tuple[JsonValue, Json] | None:
    """What Kueue writes for; None in a job that it does not know."""
    patches = spec.get("runtimePatches")
    found = [patch for patch in patches if _is_kueues(patch)] if isinstance(patches, list) else []
    if len(found) != 1:
        return None
    return spec.get("suspend"), {key: value for key, value in found[0].items() if key != "time"}


def _others(spec: Json) -> Json:
    patches = [patch for patch in spec["runtimePatches"] if not _is_kueues(patch)]
    return {key: value for key, value in spec.items() if key != "suspend"} | {"runtimePatches": patches}


def _is_kueues(patch: JsonValue) -> bool:
    return isinstance(patch, dict) and patch.get("manager") == MANAGER


def _is_within(part: JsonValue, whole: JsonValue) -> bool:
    """Whether *part* is *whole* with some fields of objects left out. Lists are as long as they were."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(_is_within(value, whole[key]) if key in whole else value in _EMPTY for key, value in part.items())
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) == len(whole) and all(map(_is_within, part, whole))
    return bool(part == whole)
