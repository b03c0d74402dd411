"""What is done with a TrainJob after it was made: as steps of `runner`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..objects import change, delete
from . import jobs, runtimes

if TYPE_CHECKING:
    from ..objects import Json
    from .dice import Dice

ENDS = {
    "Completed": ["AllJobsCompleted", "Odd"],
    "Failed": ["FailedJobs", "ReachedMaxRestarts", "FailJobSetFailurePolicyAction"],
    "Suspended": ["SuspendedJobs", "ResumeJobs"],
    "StartupPolicyInProgress": ["InOrder"],
    "Unheard": ["Of"],
}
COUNTERS = ("ready", "succeeded", "failed", "active", "suspended")


def make(dice: Dice, job: Json, runtime: Json) -> list[Json]:
    """Make some changes, one after the other. An end is final in ktrain, so after it nothing is suspended or told."""
    steps: list[Json] = []
    ended = False
    for _ in range(dice.one([0, 1, 1, 2, 3])):
        steps.append(_one(dice, job, runtime, ended=ended))
        ended = ended or _is_end(steps[-1])
        if steps[-1]["do"] == "delete":
            break
    return steps


def _is_end(step: Json) -> bool:
    told = (step.get("patch") or {}).get("status") or {}
    return any(one["type"] in ("Completed", "Failed") and one["status"] == "True" for one in told.get("conditions", ()))


def _one(dice: Dice, job: Json, runtime: Json, *, ended: bool) -> Json:
    name = job["metadata"]["name"]
    runtime_name = runtime["metadata"]["name"]
    suspend = {"suspend": dice.likely(0.4)}
    also = suspend if not ended and dice.likely(0.4) else {}
    makers = {
        "patches": lambda: change(name, {"spec": {"runtimePatches": jobs.patches(dice, runtime), **also}}),
        "fixed": lambda: change(name, {"spec": _fixed(dice, job, runtime)}),
        "labels": lambda: change(name, {"metadata": {"labels": {"x": "y"}, "annotations": {"z": ""}}}),
        "runtime": lambda: change(runtime_name, {"spec": _of_runtime(dice)}, runtime["kind"]),
        "delete": lambda: delete(name),
        "suspend": lambda: change(name, {"spec": suspend}),
        "report": lambda: change(name, {"status": _status(dice, runtime)}, "JobSet") | {"of": "status"},
    }
    weights = {"patches": 4, "fixed": 2, "labels": 1, "runtime": 1, "delete": 1}
    if not ended:
        weights |= {"suspend": 4, "report": 8 * runtimes.is_reported(runtime)}
    return makers[dice.choices(list(weights), list(weights.values()))[0]]()


def _status(dice: Dice, runtime: Json) -> Json:
    """Make what the controller of a JobSet may say of it: something of each of its jobs."""
    names = [one["name"] for one in runtime["spec"]["template"]["spec"]["replicatedJobs"]]
    kinds = dice.some(list(ENDS), 2)
    if {"Completed", "Failed"} <= set(kinds):
        # A JobSet has one end.
        kinds.pop()
    conditions = [
        {
            "type": kind,
            "status": dice.one(["True", "True", "False", "Unknown"]),
            "reason": dice.one(ENDS[kind]),
            "message": dice.one(["", "as it is", "é"]),
            "lastTransitionTime": "2026-01-02T03:04:05Z",
        }
        for kind in kinds
    ]
    dice.shuffle(names)
    counted = [{"name": name} | {one: dice.one([0, 0, 1, 2]) for one in COUNTERS} for name in names]
    return {"conditions": conditions, "replicatedJobsStatus": counted, "restarts": 1}


def _fixed(dice: Dice, job: Json, runtime: Json) -> Json:
    """A change of what may not change; a trainer is not added, which Go takes and then cannot do."""
    makers = {
        "runtimeRef": lambda: {"name": "other"},
        "managedBy": lambda: dice.one(["kueue.x-k8s.io/multikueue", "me"]),
        "activeDeadlineSeconds": lambda: dice.one([86401, None, 0]),
        "initializer": lambda: {"dataset": {"storageUri": "a://b"}},
    }
    if "trainer" in job["spec"]:
        makers["trainer"] = lambda: jobs.trainer(dice, runtime)
    field = dice.one(list(makers))
    return {field: makers[field]()}


def _of_runtime(dice: Dice) -> Json:
    return dice.one(
        [
            {"mlPolicy": {"numNodes": 4}},
            {"template": {"metadata": {"labels": {"later": "1"}}}},
            {"template": {"spec": {"ttlSecondsAfterFinished": 77}}},
            {"template": {"spec": {"network": {"subdomain": "later"}}}},
            {"template": {"spec": {"replicatedJobs": [runtimes.rjob("node")]}}},
        ]
    )
