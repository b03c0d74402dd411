"""
What is meant by an update of a TrainJob in a Kueue queue.

Kueue reads a job into the types of the Trainer that it was built with and writes the whole of it back: when the job is
made, to suspend it, and before it admits it. So it drops what those types lack (the older shapes of overrides, what
newer Trainers let patches set, what only ktrain has), which no JobSet lets its pods change: the job would be stuck. And
it spells quantities as Go does, so that the user's file, applied again, says `cpu: 1` where `cpu: "1"` is stored, a
change of what cannot change. That file also knows nothing of Kueue's patch, without which Kueue cannot admit the job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ktrain.api import quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json, JsonValue

MANAGER: Final = "kueue.x-k8s.io/manager"
"""Of the patch that Kueue's webhook adds to every TrainJob."""
QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
_KEPT: Final = (
    "kept although this update takes it away: {0}. While a job is in a queue of Kueue's, what suspends or admits it"
    " changes nothing else; take it away in an update of its own"
)
_MOST_TOLD: Final = 5
_EMPTY: Final[tuple[Any, ...]] = ({}, [], "", None)
"""What Go writes where there was nothing."""


def meant(job: Json, old: Json | None) -> Json:
    """
    Return an update of a TrainJob as it is meant; neither input is changed. Jobs without Kueue's patch stay as said.

    An update that only takes something away, or changes anything beside what Kueue writes, counts as it is. Who sends
    it is not asked, since nobody knows the name that Kueue runs under: `kept` tells whoever it was.
    """
    new, before = _spec(job), _spec(old)
    if _own(before) is None or not new:
        return job
    spec = _as_spelled(_in_queue(new, before, job), before)
    spec = _undropped(spec, before)
    return job if spec is new else job | {"spec": spec}


def kept(job: Json, old: Json | None) -> tuple[str, ...]:
    """Say what of an update of a TrainJob did not count, as if Kueue had dropped it: it may have been somebody else."""
    new, before = _spec(job), _spec(old)
    if _own(before) is None or not new:
        return ()
    spec = _as_spelled(_in_queue(new, before, job), before)
    whole = _undropped(spec, before)
    if whole is spec:
        return ()
    paths = sorted(set(_dropped(spec, whole, "spec")))
    said = f"{', '.join(paths[:_MOST_TOLD])}{' and more' if len(paths) > _MOST_TOLD else ''}"
    return (_KEPT.format(said),)


def _in_queue(new: Json, before: Json, job: Json) -> Json:
    """Put back Kueue's patch, which is Kueue's to take away, for as long as the job is in a queue."""
    metadata, patches = job.get("metadata"), new.get("runtimePatches") or []
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    if not isinstance(labels, dict) or QUEUE_LABEL not in labels or not isinstance(patches, list):
        return new
    if any(map(_is_kueues, patches)):
        return new
    place = next(index for index, patch in enumerate(before["runtimePatches"]) if _is_kueues(patch))
    return new | {"runtimePatches": [*patches[:place], before["runtimePatches"][place], *patches[place:]]}


def _as_spelled(new: Json, before: Json) -> Json:
    """Leave quantities that did not change as they are stored."""
    trainer, stored = _within(new, "trainer"), _within(before, "trainer", "resourcesPerNode")
    resources = _within(trainer, "resourcesPerNode")
    spelled = {kind: _equal_as(amounts, _within(stored, kind)) for kind, amounts in resources.items()}
    if spelled == resources:
        return new
    return new | {"trainer": trainer | {"resourcesPerNode": spelled}}


def _equal_as(amounts: JsonValue, stored: Json) -> JsonValue:
    if not isinstance(amounts, dict):
        return amounts
    return {
        name: stored[name] if name in stored and _is_same(amount, stored[name]) else amount
        for name, amount in amounts.items()
    }


def _is_same(amount: JsonValue, stored: JsonValue) -> bool:
    try:
        return quantity.parse(amount) == quantity.parse(stored)
    except (ValueError, TypeError, ArithmeticError):
        return False


def _undropped(new: Json, before: Json) -> Json:
    """Take from an update by Kueue only `suspend` and its own patch."""
    if _own(new) is None or _own(new) == _own(before):
        return new
    left, whole = _others(new), _others(before)
    if left == whole or not _is_within(left, whole):
        return new
    theirs = next(filter(_is_kueues, new["runtimePatches"]))
    patches = [theirs if _is_kueues(patch) else patch for patch in before["runtimePatches"]]
    said = {key: new[key] for key in ("suspend",) if key in new}
    return {key: before[key] for key in before if key != "suspend"} | said | {"runtimePatches": patches}


def _dropped(part: JsonValue, whole: JsonValue, path: str) -> Iterator[str]:
    """Yield where *whole* has something that *part* lacks."""
    if isinstance(part, dict) and isinstance(whole, dict):
        for key, value in whole.items():
            if key in part:
                yield from _dropped(part[key], value, f"{path}.{key}")
            else:
                yield f"{path}.{key}"
    elif isinstance(part, list) and isinstance(whole, list):
        for index, (left, value) in enumerate(zip(part, whole, strict=False)):
            yield from _dropped(left, value, f"{path}[{index}]")


def _within(obj: JsonValue, *path: str) -> Json:
    """The object at a path; an empty one where there is none."""
    for key in path:
        obj = obj.get(key) if isinstance(obj, dict) else None
    return obj if isinstance(obj, dict) else {}


def _spec(job: Json | None) -> Json:
    return _within(job, "spec")


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
