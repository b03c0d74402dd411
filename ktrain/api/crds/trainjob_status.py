"""The status of a TrainJob, as its CRD has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .build import CONDITION, array, integer, moment, obj, rule, text

if TYPE_CHECKING:
    from ..meta import Json

_COUNTERS: Final = {
    "active": "Jobs with active pods.",
    "failed": "Jobs that failed.",
    "ready": "Jobs all pods of which are ready or done.",
    "succeeded": "Jobs that succeeded.",
    "suspended": "Jobs that are suspended.",
}


def trainjob_status() -> Json:
    """What was observed of a TrainJob."""
    job = obj(
        {
            "name": text(1, 253, description="Name of the replicated job."),
            **{counter: integer(0, description=words) for counter, words in _COUNTERS.items()},
        },
        required=("name", *_COUNTERS),
    )
    return obj(
        {
            "conditions": array(
                CONDITION,
                keys=("type",),
                high=8,
                description="What holds of the job: Suspended, Complete, Failed, each once it was true; before them"
                " those of plugins and of other controllers, such as example.com/Checkpointed.",
            ),
            "diagnosis": _diagnosis(),
            "elastic": _elastic(),
            "jobsStatus": array(
                job,
                keys=("name",),
                high=100,
                description="How many child Jobs, which are not pods, of each replicated job are in which state.",
            ),
            "nodes": _nodes(),
            "restarts": integer(
                0,
                description="How often the JobSet, or one of its Jobs alone, was restarted. A JobSet that is made anew"
                " counts anew.",
            ),
            "state": text(0, 63, description=_STATE),
            "trainerStatus": _trainer_status(),
        },
        minProperties=1,
        description="What was observed of the job, by its controller.",
    )


_STATE: Final = (
    "The job in a word: Pending (nothing runs yet), Queued (suspended, in a queue of Kueue's), Starting (pods start, or"
    " initializers run), Running (all nodes are ready), Suspended, Restarting (the JobSet, or pods that were ready,"
    " start again), Stalled (it does not start, and diagnosis says why), Complete or Failed. For people; conditions"
    " decide."
)
"""No enum: an operator that knows one state more must not fail on this definition."""


def _nodes() -> Json:
    return obj(
        {
            "ready": integer(0, description="How many of them are ready or done."),
            "summary": text(0, 32, description="Both numbers as kubectl shows them: ready/wanted."),
            "wanted": integer(0, description="How many there should be."),
        },
        required=("ready", "wanted"),
        description="The pods of all steps but the initializers'. A Job counts once all its pods are ready; of an"
        " elastic job each pod counts.",
    )


def _diagnosis() -> Json:
    """ktrain's own: a condition would be taken for progress by the SDK."""
    return obj(
        {
            "message": text(0, 1024, description="What hinders the job and what to do, in words for people."),
            "reason": text(0, 253, description="The same in a word for programs."),
            "since": moment("Since when it is so."),
        },
        description="Why the job does not get on; absent while all is well.",
    )


def _elastic() -> Json:
    """ktrain's own, too: the scale subresource reads it, so that an autoscaler can resize an elastic job."""
    return obj(
        {
            "desiredNodes": integer(0, description="How many nodes there should be now."),
            "maxNodes": integer(1, description="Most nodes that the job may have, as its runtime says."),
            "minNodes": integer(1, description="Fewest nodes that the job may have, as its runtime says."),
            "observedNodes": integer(0, description="How many nodes are ready or done."),
            "selector": text(0, 1024, description="Labels of the job's nodes, for autoscalers."),
        },
        required=("maxNodes", "minNodes"),
        description="How large an elastic job may be, should be and is; absent of other jobs.",
    )


def _trainer_status() -> Json:
    metric = obj(
        {
            "name": text(1, 64, description="Name of the metric."),
            "value": text(1, 64, description="Its value, as the pods wrote it."),
        },
        required=("name", "value"),
    )
    timed = rule("has(self.lastUpdatedTime)", "lastUpdatedTime is required when trainerStatus is present")
    return obj(
        {
            "estimatedRemainingSeconds": integer(0, description="Seconds until training is done, as estimated."),
            "lastUpdatedTime": moment("When the pods reported this."),
            "metrics": array(metric, kind="atomic", high=256, description="Figures of the training."),
            "progressPercentage": integer(0, maximum=100, description="How much of the training is done, in percent."),
        },
        rules=(timed,),
        description="How far training is, as its pods reported to the status server (feature gate TrainJobStatus).",
    )
