"""The JobSet CRD (`jobset.x-k8s.io/v1alpha2`), and its spec as runtimes embed it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..jobset import GROUP, VERSION
from .build import (
    CONDITION,
    array,
    builtin_schema,
    column,
    crd,
    described,
    flag,
    immutable,
    integer,
    obj,
    rule,
    text,
)

if TYPE_CHECKING:
    from ..meta import Json, JsonValue

_IMMUTABLE: Final = "Value is immutable"
_ACTIONS: Final = (
    "FailJobSet",
    "RestartJobSet",
    "RestartJobSetAndIgnoreMaxRestarts",
    "RestartJob",
    "RestartJobAndIgnoreMaxRestarts",
)
_ACTION: Final = (
    "What to do: end the JobSet as failed, or restart all of it or the one Job, within maxRestarts or beside it;"
    " RestartJob and its like need the feature gate RestartJob."
)


def jobset_crd() -> Json:
    """The CRD."""
    schema = obj(
        {"spec": jobset_spec(), "status": _status()}, description="Replicated Jobs that start, restart and end as one."
    )
    columns = (
        column("TerminalState", ".status.terminalState"),
        column("Restarts", ".status.restarts"),
        column("Completed", '.status.conditions[?(@.type=="Completed")].status'),
        column("Suspended", ".spec.suspend"),
        column("Age", ".metadata.creationTimestamp", "date"),
    )
    return crd(GROUP, VERSION, "JobSet", "jobsets", schema, columns=columns)


def jobset_spec() -> Json:
    """The specification: the replicated jobs, and the policies over them."""
    # Upstream reads replicatedJobs without asking whether it is there; objects that lack it are refused the same way.
    exclusive = rule(
        "!(has(self.startupPolicy) && self.startupPolicy.startupPolicyOrder == 'InOrder'"
        " && self.replicatedJobs.exists(job, has(job.dependsOn)))",
        "StartupPolicy and DependsOn APIs are mutually exclusive",
    )
    return obj(
        {
            "coordinator": _coordinator(),
            "failurePolicy": immutable(_failure_policy(), _IMMUTABLE),
            "managedBy": text(
                description="The controller responsible, as domain/path; the JobSet controller if absent; fixed."
            ),
            "network": immutable(_network(), _IMMUTABLE),
            "replicatedJobs": array(
                _replicated_job(),
                keys=("name",),
                description="The parts of the JobSet, each a number of equal Jobs; fixed, but for labels, annotations,"
                " nodeSelector, tolerations and schedulingGates of their pods while the JobSet is suspended.",
            ),
            "startupPolicy": immutable(_startup_policy(), _IMMUTABLE),
            "successPolicy": immutable(_success_policy(), _IMMUTABLE),
            "suspend": flag(description="While true, no child Job runs; default false, and may change at any time."),
            "ttlSecondsAfterFinished": integer(
                0, description="Delete the JobSet so many seconds after it finished; never if absent."
            ),
            "volumeClaimPolicies": immutable(
                array(
                    _volume_claim_policy(),
                    kind="atomic",
                    high=50,
                    description="Volume claims that the JobSet makes, for its pods to mount; fixed once set.",
                ),
                _IMMUTABLE,
            ),
        },
        rules=(exclusive,),
        description="What to run, and when it starts, restarts and ends.",
    )


def _names(description: str, **more: JsonValue) -> Json:
    return array(text(), kind="atomic", description=description, **more)


def _coordinator() -> Json:
    return obj(
        {
            "jobIndex": {"description": "Index of the Job among its replicas; default 0.", "type": "integer"},
            "podIndex": {"description": "Completion index of the pod in its Job; default 0.", "type": "integer"},
            "replicatedJob": text(description="Name of the replicated job that the pod is of."),
        },
        required=("replicatedJob",),
        description="The pod whose address all pods get as label and annotation.",
    )


def _replicated_job() -> Json:
    depends_on = obj(
        {
            "name": text(description="Name of an earlier replicated job."),
            "status": text(
                enum=["Ready", "Complete"], description="How far all its Jobs must be: Ready, or Complete with success."
            ),
        },
        required=("name", "status"),
    )
    return obj(
        {
            "dependsOn": immutable(
                array(
                    depends_on,
                    keys=("name",),
                    high=5,
                    description="Earlier replicated jobs that this one waits for before it starts; fixed once set.",
                ),
                _IMMUTABLE,
            ),
            "groupName": text(
                default="default", description="Group of replicated jobs, of which their pods' labels tell the size."
            ),
            "name": text(description="Name of the replicated job, a part of the names of its Jobs and pods."),
            "replicas": integer(0, default=1, description="How many Jobs there are of the template; default 1."),
            "template": described(builtin_schema("batch.v1.JobTemplateSpec"), "What each of the Jobs looks like."),
        },
        required=("name", "template"),
    )


def _network() -> Json:
    return obj(
        {
            "enableDNSHostnames": flag(
                description="Give every pod a host name that the others can resolve; default true."
            ),
            "publishNotReadyAddresses": flag(description="Resolve pods before they are ready; default true."),
            "subdomain": text(description="Name of the headless service; the JobSet's name if absent."),
        },
        description="How the pods find each other; fixed once set.",
    )


def _success_policy() -> Json:
    return obj(
        {
            "operator": text(enum=["All", "Any"], description="Whether All Jobs of the targets must succeed, or Any."),
            "targetReplicatedJobs": _names("Names of the replicated jobs that count; all if there are none."),
        },
        required=("operator",),
        description="When the JobSet is complete; without targets every replicated job counts. Fixed once set.",
    )


def _failure_policy() -> Json:
    one = obj(
        {
            "action": text(enum=list(_ACTIONS), description=_ACTION),
            "name": text(description="Name of the rule, which is in the reason of the restart that it brings."),
            "onJobFailureMessagePatterns": _names(
                "Regular expressions for messages of failed Jobs, one of which must match; any if there are none."
            ),
            "onJobFailureReasons": _names(
                "Reasons of failed Jobs that the rule is for, as BackoffLimitExceeded; any if there are none."
            ),
            "targetReplicatedJobs": _names("Replicated jobs that the rule is for; all if there are none."),
        },
        required=("action", "name"),
    )
    return obj(
        {
            "maxRestarts": integer(
                description="How often the JobSet restarts; the next failure ends it; default 0. Of restarts that"
                " ignore it there is no limit."
            ),
            "restartStrategy": text(
                enum=["Recreate", "BlockingRecreate", "InPlaceRestart"],
                default="Recreate",
                description="Make each Job anew when its old one is gone (Recreate, the default) or all old ones are"
                " (BlockingRecreate), or restart containers in their pods (InPlaceRestart, with that feature gate).",
            ),
            "rules": array(
                one,
                kind="atomic",
                description="What to do about which failure: the first that fits; else RestartJobSet.",
            ),
        },
        description="What follows a failed Job; without it the first failure is final. Fixed once set.",
    )


def _startup_policy() -> Json:
    rule_ = obj(
        {
            "targetReplicatedJobs": _names("Names of the replicated jobs that start together.", minItems=1),
            "waitForReplicatedJobsStatus": text(
                enum=["Ready", "Succeeded"],
                default="Ready",
                description="How far they are when those of the next rule start: Ready, the default, or Succeeded.",
            ),
        },
        required=("targetReplicatedJobs",),
    )
    return obj(
        {
            "rules": array(
                rule_,
                kind="atomic",
                description="Replicated jobs that start together, and how far they are when those of the next rule"
                " start; one by one if there are none.",
            ),
            "startupPolicyOrder": text(
                enum=["AnyOrder", "InOrder"],
                description="Whether replicated jobs start all at once (AnyOrder) or one after the other (InOrder).",
            ),
        },
        required=("startupPolicyOrder",),
        description="In which order replicated jobs start; dependsOn says it one by one. Rules need InOrder. Fixed"
        " once set.",
    )


def _volume_claim_policy() -> Json:
    # `namespace` is a reserved word of CEL, hence the underscores.
    no_namespace = rule(
        "!self.templates.exists(t, has(t.metadata.__namespace__) && t.metadata.__namespace__ != '')",
        "namespace cannot be set for VolumeClaimPolicies templates",
    )
    when_deleted = text(
        enum=["Delete", "Retain"],
        default="Delete",
        description="Whether the claims go with the JobSet (Delete, the default) or stay (Retain).",
    )
    return obj(
        {
            "retentionPolicy": obj(
                {"whenDeleted": when_deleted}, description="Whether the claims outlive the JobSet; if absent, they do."
            ),
            "templates": array(
                builtin_schema("core.v1.PersistentVolumeClaim"),
                kind="atomic",
                high=50,
                description="The claims: each is made as <name>-<JobSet>, and mounted by volumeMounts of its name.",
            ),
        },
        rules=(no_namespace,),
    )


def _status() -> Json:
    counters = {
        "active": "Jobs with active pods.",
        "failed": "Jobs that failed.",
        "ready": "Jobs all pods of which are ready or done.",
        "succeeded": "Jobs that succeeded.",
        "suspended": "Jobs that are suspended.",
    }

    def restarts(description: str) -> Json:
        return array(integer(0), kind="atomic", high=1024, description=description)

    per_job = obj(
        {
            "name": text(description="Name of the replicated job."),
            **{counter: integer(description=words) for counter, words in counters.items()},
            "jobRestarts": restarts("How often each Job was restarted alone, by its index; absent until one was."),
            "jobRestartsCountTowardsMax": restarts("As many of them as count towards maxRestarts."),
        },
        required=("name", *counters),
    )
    return obj(
        {
            "conditions": array(
                CONDITION,
                keys=("type",),
                description="What holds of the JobSet: Suspended, Completed, Failed, and how starts and restarts go.",
            ),
            "currentInPlaceRestartAttempt": integer(
                0, description="With InPlaceRestart: the attempt that all pods have come to, so that they may go on."
            ),
            "previousInPlaceRestartAttempt": integer(
                0, description="With InPlaceRestart: attempts up to this one are over, and pods at them restart."
            ),
            "replicatedJobsStatus": array(
                per_job, keys=("name",), description="How many Jobs of each replicated job are in which state."
            ),
            "restarts": integer(description="How often the whole JobSet was restarted."),
            "restartsCountTowardsMax": integer(description="As many of them as count towards maxRestarts."),
            "terminalState": text(description="Completed or Failed once the JobSet has ended; empty before."),
        },
        description="What was observed of the JobSet, by its controller.",
    )
