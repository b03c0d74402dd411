"""The CRD of TrainJob, and its spec: `patches` and `trainjob_status` have parts of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..trainer import GROUP, MANAGED_BY, VERSION
from .build import array, builtin_schema, column, crd, described, flag, immutable, integer, obj, rule, text, with_rules
from .patches import older_shapes, runtime_patches, variables
from .trainjob_status import trainjob_status

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
        " trainer.numNodes unless this is set, too, or else with minNodes. May change within the range.",
    )
    label = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
    schema = obj(
        {"spec": trainjob_spec(elasticNodes=elastic_nodes), "status": trainjob_status()},
        rules=(
            rule(f"self.metadata.name.matches('{label}')", "metadata.name must match RFC 1035 DNS label format"),
            rule("size(self.metadata.name) <= 63", "metadata.name must be no more than 63 characters"),
            _only_elastic(),
            _within_range(),
        ),
        description="A training job: a runtime, and what this job changes of it.",
    )
    columns = (
        column("State", ".status.state"),
        column("Nodes", ".status.nodes.summary"),
        column("Restarts", ".status.restarts", "integer"),
        column("Age", ".metadata.creationTimestamp", "date"),
        column("Runtime", ".spec.runtimeRef.name", wide=True),
        column("Diagnosis", ".status.diagnosis.reason", wide=True),
        # Upstream's column State. Jobs that Kubeflow's controller ended have nothing else.
        column("Condition", ".status.conditions[-1:].type", wide=True),
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
    owner = text(
        high=253,
        default=MANAGED_BY,
        description=f"The controller responsible: {MANAGED_BY}, the default, or {_MULTIKUEUE}; fixed.",
    )
    initializer = obj(
        {
            "dataset": _asset_initializer("The dataset to download, by the runtime's step dataset-initializer."),
            "model": _asset_initializer("The model to download, by the runtime's step model-initializer."),
        },
        description="What to download before training starts; fixed once set.",
    )
    deadline = integer(
        1,
        bits=64,
        description="Fail the job so many seconds after its creation or last resumption; default never. Fixed.",
    )
    return obj(
        {
            "activeDeadlineSeconds": immutable(deadline),
            "initializer": immutable(initializer),
            "managedBy": immutable(with_rules(owner, managers)),
            "runtimePatches": runtime_patches(),
            "runtimeRef": immutable(_runtime_ref()),
            "suspend": flag(
                default=False, description="While true, nothing runs; default false, and may change at any time."
            ),
            "trainer": immutable(_trainer()),
            **older_shapes(),
            **more,
        },
        required=("runtimeRef",),
        description="Which runtime to run on, and what this job changes of it.",
    )


def _runtime_ref() -> Json:
    return obj(
        {
            "apiGroup": text(high=253, default=GROUP, description=f"API group of the runtime; default {GROUP}."),
            "kind": text(
                high=253,
                default="ClusterTrainingRuntime",
                description="ClusterTrainingRuntime, the default, or TrainingRuntime.",
            ),
            "name": text(1, 253, description="Name of the runtime."),
        },
        required=("name",),
        description="The runtime; fixed. A TrainingRuntime is one of the job's own namespace.",
    )


def _asset_initializer(description: str) -> Json:
    uri = rule(
        f"self == '' || self.matches('{_URI}')",
        "storageUri may be empty, or it must be a valid URI (scheme://...)",
    )
    return obj(
        {
            "env": variables("Environment variables of the step, laid over the runtime's by name."),
            "secretRef": described(
                builtin_schema("core.v1.LocalObjectReference"),
                "A Secret whose keys become environment variables of the step.",
            ),
            "storageUri": with_rules(
                text(high=2048, description="Where to download from, as scheme://path; the runtime's place if absent."),
                uri,
            ),
        },
        description=description,
    )


def _trainer() -> Json:
    at_least_one = rule("type(self) != int || self >= 1", "numProcPerNode must be greater than or equal to 1")
    # Admission has made a number, or processesPerNode, of any other text: typed readers of Trainer 2.2 and later, Kueue
    # and the SDK among them, fail to read all TrainJobs of a cluster if one of them has a text here.
    number = rule(
        "type(self) == int && self <= 2147483647",
        "numProcPerNode must be a number, auto, cpu or gpu; what is not a plain number needs ktrain's webhook",
    )
    processes: Json = {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "description": "Processes on each node, 1 or more; if absent, what the runtime says or its plugin finds fit."
        " auto, cpu and gpu are stored as processesPerNode.",
        "x-kubernetes-int-or-string": True,
    }
    return obj(
        {
            "args": _words("Arguments of the program, in place of the runtime's, also when empty."),
            "command": _words("The program, in place of the runtime's, also when empty."),
            "env": variables("Environment variables, laid over the runtime's by name."),
            "image": text(high=500, description="Image of the trainer's container; the runtime's if absent."),
            "numNodes": integer(
                0,
                description="Number of nodes, which are pods here; the runtime's mlPolicy.numNodes if absent. With"
                " mlPolicy.torch, 0 is one node on its own (torchrun --standalone).",
            ),
            "numProcPerNode": with_rules(processes, at_least_one, number),
            "processesPerNode": text(
                enum=["auto", "cpu", "gpu"],
                description="What torchrun counts processes by, for numProcPerNode: auto, cpu or gpu. ktrain's own.",
            ),
            "resourcesPerNode": described(
                builtin_schema("core.v1.ResourceRequirements"),
                "What each node asks for, laid over the runtime's by name; needs a runtime with an mlPolicy.",
            ),
        },
        rules=(
            rule(
                "!has(self.numProcPerNode) || !has(self.processesPerNode)",
                "numProcPerNode and processesPerNode must not be set together",
            ),
        ),
        description="What this job changes of the runtime's training step; fixed.",
    )


def _words(description: str) -> Json:
    return array(text(high=1048576), kind="atomic", high=128, description=description)
