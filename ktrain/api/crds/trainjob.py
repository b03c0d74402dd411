"""The CRD of TrainJob."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..trainer import GROUP, MANAGED_BY, VERSION
from .build import (
    CONDITION,
    TEMPLATE_METADATA,
    array,
    builtin_schema,
    column,
    crd,
    flag,
    immutable,
    integer,
    obj,
    rule,
    text,
    with_rules,
)

if TYPE_CHECKING:
    from ..meta import Json

_MULTIKUEUE: Final = "kueue.x-k8s.io/multikueue"
_SCALE: Final = {
    "labelSelectorPath": ".status.elastic.selector",
    "specReplicasPath": ".spec.elasticNodes",
    "statusReplicasPath": ".status.elastic.observedNodes",
}
"""An elastic TrainJob's size, for `kubectl scale` and autoscalers: a field of its own, since `trainer` is fixed."""
_SAME_NODES: Final = (
    "!has(self.spec) || !has(self.spec.elasticNodes)"
    " || (has(oldSelf.spec) && self.spec.elasticNodes == oldSelf.spec.?elasticNodes.orValue(0))"
)
_URI: Final = r"^[A-Za-z][A-Za-z0-9+.-]*://.+$"


def trainjob_crd() -> Json:
    """The CRD."""
    elastic_nodes = integer(
        1,
        description="How many nodes there should be now, if the runtime has torch.elasticPolicy. A job begins with"
        " trainer.numNodes unless this is set, too, or else with minNodes.",
    )
    label = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
    schema = obj(
        {"spec": trainjob_spec(elasticNodes=elastic_nodes), "status": _status()},
        rules=(
            rule(f"self.metadata.name.matches('{label}')", "metadata.name must match RFC 1035 DNS label format"),
            rule("size(self.metadata.name) <= 63", "metadata.name must be no more than 63 characters"),
            _only_elastic(),
            _within_range(),
        ),
        description="A training job: a runtime, and what this job changes of it.",
    )
    columns = (
        column("State", ".status.conditions[-1:].type"),
        column("Age", ".metadata.creationTimestamp", "date"),
    )
    return crd(GROUP, VERSION, "TrainJob", "trainjobs", schema, columns=columns, scale=_SCALE)


def _only_elastic() -> Json:
    """
    A job whose status does not say that it is elastic keeps its size. Before it has a status nobody knows.

    At the root, because only there both are in sight; so is the next one. To take the field away is always allowed.
    """
    only = rule(
        f"{_SAME_NODES} || !has(self.status) || has(self.status.elastic)",
        "must not change: only jobs of a runtime with torch.elasticPolicy are elastic",
    )
    return only | {"fieldPath": ".spec.elasticNodes"}


def _within_range() -> Json:
    """An elastic job stays within the nodes that its runtime allows. Asked of changes only: the range comes later."""
    within = rule(
        f"{_SAME_NODES} || !has(self.status) || !has(self.status.elastic)"
        " || (self.status.elastic.minNodes <= self.spec.elasticNodes"
        " && self.spec.elasticNodes <= self.status.elastic.maxNodes)",
        "must be within minNodes and maxNodes of the runtime's torch.elasticPolicy",
    )
    return within | {"fieldPath": ".spec.elasticNodes"}


def trainjob_spec(**more: Json) -> Json:
    """What a TrainJob, or a template of one, specifies; *more* is what only one that exists can have."""
    managers = rule(
        f"self in ['{MANAGED_BY}', '{_MULTIKUEUE}']",
        f"ManagedBy must be {MANAGED_BY} or {_MULTIKUEUE} if set",
    )
    managed_by = with_rules(text(high=253, default=MANAGED_BY, description="The controller responsible."), managers)
    initializer = obj(
        {"dataset": _asset_initializer(), "model": _asset_initializer()},
        description="What to download before training starts.",
    )
    deadline = integer(1, bits=64, description="Fail the job so many seconds after it started or was resumed.")
    return obj(
        {
            "activeDeadlineSeconds": immutable(deadline),
            "initializer": immutable(initializer),
            "managedBy": immutable(managed_by),
            "runtimePatches": array(_runtime_patch(), keys=("manager",), high=16),
            "runtimeRef": immutable(_runtime_ref()),
            "suspend": flag(default=False, description="While true, nothing runs."),
            "trainer": immutable(_trainer()),
            **_older_shapes(),
            **more,
        },
        required=("runtimeRef",),
    )


def _runtime_ref() -> Json:
    return obj(
        {
            "apiGroup": text(high=253, default=GROUP),
            "kind": text(high=253, default="ClusterTrainingRuntime"),
            "name": text(1, 253),
        },
        required=("name",),
        description="The runtime. A TrainingRuntime is one of the job's own namespace.",
    )


def _env() -> Json:
    return array(builtin_schema("core.v1.EnvVar"), keys=("name",), high=128)


def _asset_initializer() -> Json:
    uri = rule(
        f"self == '' || self.matches('{_URI}')",
        "storageUri may be empty, or it must be a valid URI (scheme://...)",
    )
    return obj(
        {
            "env": _env(),
            "secretRef": builtin_schema("core.v1.LocalObjectReference"),
            "storageUri": with_rules(text(high=2048, description="Where from, as scheme://..."), uri),
        }
    )


def _trainer() -> Json:
    words = array(text(high=1048576), kind="atomic", high=128)
    at_least_one = rule("self >= 1", "numProcPerNode must be greater than or equal to 1")
    return obj(
        {
            "args": words,
            "command": words,
            "env": _env(),
            "image": text(high=500),
            "numNodes": integer(0, description="Number of nodes, which are pods here."),
            "numProcPerNode": with_rules(integer(description="Processes on each node."), at_least_one),
            "resourcesPerNode": builtin_schema("core.v1.ResourceRequirements"),
        },
        description="What this job changes of the runtime's training step.",
    )


def _older_shapes() -> Json:
    """
    What TrainJobs of Kubeflow Trainer 2.0 and 2.1 said instead of `runtimePatches`. ktrain translates it.

    Their pod specs are open here: they are checked as what they are translated to.
    """
    labels: Json = {"type": "object", "additionalProperties": {"type": "string"}}
    jobs = array(obj({"name": text(1, 253)}, required=("name",)), kind="atomic", high=100)
    pod: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    metadata = obj({"annotations": labels, "labels": labels})
    template = obj({"metadata": metadata, "spec": pod, "targetJobs": jobs})
    deprecated = "Deprecated: use runtimePatches."
    return {
        "annotations": labels | {"description": deprecated},
        "labels": labels | {"description": deprecated},
        "podSpecOverrides": array(pod, kind="atomic", high=16, description=deprecated),
        "podTemplateOverrides": array(template, kind="atomic", high=16, description=deprecated),
    }


def _runtime_patch() -> Json:
    pod = obj({"metadata": TEMPLATE_METADATA, "spec": pod_spec_patch()})
    job = obj({"metadata": TEMPLATE_METADATA, "spec": obj({"template": pod})})
    replicated = obj({"name": text(1, 253), "template": job}, required=("name",))
    template = obj(
        {
            "metadata": TEMPLATE_METADATA,
            "spec": obj({"replicatedJobs": array(replicated, keys=("name",), high=100)}),
        }
    )
    manager = immutable(text(1, 253, description="Who patches, as domain/path."))
    return obj(
        {
            "manager": manager,
            "time": {"type": "string", "format": "date-time"},
            "trainingRuntimeSpec": obj({"template": template}),
        },
        required=("manager",),
        description="One manager's patch of the runtime.",
    )


def pod_spec_patch() -> Json:
    """What of a pod spec a patch may set."""
    containers = array(_container_patch(), keys=("name",), high=64)
    volumes = array(builtin_schema("core.v1.Volume"), keys=("name",), high=128)
    # Upstream lets pull secrets go without a name, which as a list key is then the empty one.
    secret = builtin_schema("core.v1.LocalObjectReference")
    named = secret | {"properties": {"name": text(default="")}}
    return obj(
        {
            "affinity": builtin_schema("core.v1.Affinity"),
            "containers": immutable(containers),
            "imagePullSecrets": immutable(array(named, keys=("name",), high=64)),
            "initContainers": immutable(containers),
            "nodeSelector": {"type": "object", "additionalProperties": {"type": "string"}},
            "schedulingGates": array(builtin_schema("core.v1.PodSchedulingGate"), keys=("name",), high=16),
            "securityContext": immutable(builtin_schema("core.v1.PodSecurityContext")),
            "serviceAccountName": immutable(text(high=253)),
            "terminationGracePeriodSeconds": immutable(integer(0, bits=64)),
            "tolerations": array(builtin_schema("core.v1.Toleration"), kind="atomic", high=128),
            "volumes": immutable(volumes),
        }
    )


def _container_patch() -> Json:
    return obj(
        {
            "env": _env(),
            "name": text(1, 253),
            "securityContext": builtin_schema("core.v1.SecurityContext"),
            # By name, not by mountPath as pods have it: one patch mounts a volume once.
            "volumeMounts": array(builtin_schema("core.v1.VolumeMount"), keys=("name",), high=128),
        },
        required=("name",),
    )


def _status() -> Json:
    counters = ("active", "failed", "ready", "succeeded", "suspended")
    job = obj(
        {"name": text(1, 253), **{counter: integer(0) for counter in counters}},
        required=("name", *counters),
    )
    metric = obj({"name": text(1, 64), "value": text(1, 64)}, required=("name", "value"))
    timed = rule("has(self.lastUpdatedTime)", "lastUpdatedTime is required when trainerStatus is present")
    trainer = obj(
        {
            "estimatedRemainingSeconds": integer(0),
            "lastUpdatedTime": {"type": "string", "format": "date-time"},
            "metrics": array(metric, kind="atomic", high=256),
            "progressPercentage": integer(0, maximum=100),
        },
        rules=(timed,),
    )
    # ktrain's own: why the job does not get on. A condition would be taken for progress by the SDK.
    diagnosis = obj(
        {
            "message": text(0, 1024),
            "reason": text(0, 253),
            "since": {"type": "string", "format": "date-time"},
        }
    )
    # ktrain's own, too: the scale subresource reads it, so that an autoscaler can resize an elastic job.
    elastic = obj(
        {
            "desiredNodes": integer(0),
            "maxNodes": integer(1),
            "minNodes": integer(1),
            "observedNodes": integer(0),
            "selector": text(0, 1024),
        },
        required=("maxNodes", "minNodes"),
    )
    return obj(
        {
            "conditions": array(CONDITION, keys=("type",), high=8),
            "diagnosis": diagnosis,
            "elastic": elastic,
            "jobsStatus": array(job, keys=("name",), high=100),
            "trainerStatus": trainer,
        },
        minProperties=1,
    )
