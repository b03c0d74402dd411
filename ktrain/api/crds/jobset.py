"""The JobSet CRD (`jobset.x-k8s.io/v1alpha2`), and its spec as runtimes embed it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..jobset import GROUP, VERSION
from .build import CONDITION, array, builtin_schema, column, crd, flag, immutable, integer, obj, rule, text

if TYPE_CHECKING:
    from ..meta import Json

_IMMUTABLE: Final = "Value is immutable"
_ACTIONS: Final = (
    "FailJobSet",
    "RestartJobSet",
    "RestartJobSetAndIgnoreMaxRestarts",
    "RestartJob",
    "RestartJobAndIgnoreMaxRestarts",
)
_STRINGS: Final[Json] = {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"}


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
            "managedBy": text(description="The controller responsible; immutable."),
            "network": immutable(_network(), _IMMUTABLE),
            "replicatedJobs": array(_replicated_job(), keys=("name",)),
            "startupPolicy": immutable(_startup_policy(), _IMMUTABLE),
            "successPolicy": immutable(_success_policy(), _IMMUTABLE),
            "suspend": flag(description="While true, no child Job runs."),
            "ttlSecondsAfterFinished": integer(0, description="Delete the JobSet so many seconds after it finished."),
            "volumeClaimPolicies": immutable(array(_volume_claim_policy(), kind="atomic", high=50), _IMMUTABLE),
        },
        rules=(exclusive,),
    )


def _coordinator() -> Json:
    return obj(
        {
            "jobIndex": {"type": "integer"},
            "podIndex": {"type": "integer"},
            "replicatedJob": text(),
        },
        required=("replicatedJob",),
        description="The pod whose address all pods get as label and annotation.",
    )


def _replicated_job() -> Json:
    depends_on = obj(
        {"name": text(), "status": text(enum=["Ready", "Complete"])},
        required=("name", "status"),
    )
    return obj(
        {
            "dependsOn": immutable(array(depends_on, keys=("name",), high=5), _IMMUTABLE),
            "groupName": text(default="default"),
            "name": text(),
            "replicas": integer(0, default=1),
            "template": builtin_schema("batch.v1.JobTemplateSpec"),
        },
        required=("name", "template"),
    )


def _network() -> Json:
    return obj(
        {
            "enableDNSHostnames": flag(description="Give every pod a host name that the others can resolve."),
            "publishNotReadyAddresses": flag(description="Resolve pods before they are ready."),
            "subdomain": text(description="Name of the headless service; the JobSet's name if absent."),
        }
    )


def _success_policy() -> Json:
    return obj(
        {"operator": text(enum=["All", "Any"]), "targetReplicatedJobs": _STRINGS},
        required=("operator",),
        description="When the JobSet is complete; without targets every replicated job counts.",
    )


def _failure_policy() -> Json:
    one = obj(
        {
            "action": text(enum=list(_ACTIONS)),
            "name": text(),
            "onJobFailureMessagePatterns": _STRINGS,
            "onJobFailureReasons": _STRINGS,
            "targetReplicatedJobs": _STRINGS,
        },
        required=("action", "name"),
    )
    return obj(
        {
            "maxRestarts": integer(),
            "restartStrategy": text(enum=["Recreate", "BlockingRecreate", "InPlaceRestart"], default="Recreate"),
            "rules": array(one, kind="atomic"),
        },
        description="What follows a failed Job; without it the first failure is final.",
    )


def _startup_policy() -> Json:
    rule_ = obj(
        {
            "targetReplicatedJobs": {**_STRINGS, "minItems": 1},
            "waitForReplicatedJobsStatus": text(enum=["Ready", "Succeeded"], default="Ready"),
        },
        required=("targetReplicatedJobs",),
        description="Replicated jobs that start together, and how far they are when those of the next rule start.",
    )
    return obj(
        {
            "rules": array(rule_, kind="atomic"),
            "startupPolicyOrder": text(enum=["AnyOrder", "InOrder"]),
        },
        required=("startupPolicyOrder",),
        description="In which order replicated jobs start; dependsOn says it one by one. Rules need InOrder.",
    )


def _volume_claim_policy() -> Json:
    # `namespace` is a reserved word of CEL, hence the underscores.
    no_namespace = rule(
        "!self.templates.exists(t, has(t.metadata.__namespace__) && t.metadata.__namespace__ != '')",
        "namespace cannot be set for VolumeClaimPolicies templates",
    )
    return obj(
        {
            "retentionPolicy": obj({"whenDeleted": text(enum=["Delete", "Retain"], default="Delete")}),
            "templates": array(builtin_schema("core.v1.PersistentVolumeClaim"), kind="atomic", high=50),
        },
        rules=(no_namespace,),
    )


def _status() -> Json:
    counters = ("active", "failed", "ready", "succeeded", "suspended")
    restarts = array(integer(0), kind="atomic", high=1024)
    per_job = obj(
        {
            "name": text(),
            **{counter: integer() for counter in counters},
            "jobRestarts": restarts,
            "jobRestartsCountTowardsMax": restarts,
        },
        required=("name", *counters),
    )
    return obj(
        {
            "conditions": array(CONDITION, keys=("type",)),
            "currentInPlaceRestartAttempt": integer(0),
            "previousInPlaceRestartAttempt": integer(0),
            "replicatedJobsStatus": array(per_job, keys=("name",)),
            "restarts": integer(),
            "restartsCountTowardsMax": integer(),
            "terminalState": text(),
        }
    )
