"""The CRDs of TrainingRuntime and ClusterTrainingRuntime: one spec, two scopes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..trainer import GROUP, VERSION
from .build import TEMPLATE_METADATA, array, crd, described, flag, integer, obj, opened, rule, text, with_rules
from .elastic import elastic_policy
from .jobset import jobset_spec

if TYPE_CHECKING:
    from ..meta import Json

_POLICIES: Final = ("torch", "mpi", "jax", "xgboost", "flux", "plugin")


def runtime_crds() -> list[Json]:
    """Both CRDs."""
    schema = obj({"spec": _spec()}, description="How TrainJobs that refer to it run.")
    return [
        crd(GROUP, VERSION, "TrainingRuntime", "trainingruntimes", schema),
        crd(GROUP, VERSION, "ClusterTrainingRuntime", "clustertrainingruntimes", schema, namespaced=False),
    ]


def _spec() -> Json:
    template = obj(
        {
            "metadata": described(TEMPLATE_METADATA, "Labels and annotations of the JobSet; the rest has no effect."),
            "spec": jobset_spec(),
        },
        minProperties=1,
        description="The JobSet that a TrainJob becomes.",
    )
    return obj(
        {"mlPolicy": _ml_policy(), "podGroupPolicy": _pod_group_policy(), "template": template},
        minProperties=1,
        description="What TrainJobs become; a change counts for those that are made later.",
    )


def _plugin(description: str) -> Json:
    """An open slot: a policy of a plugin that nobody here knows. Its configuration is the plugin's to check."""
    name = text(1, 253, description="Name of the plugin.")
    config = opened("The plugin's configuration of this runtime, which the plugin checks.")
    return obj({"name": name, "config": config}, required=("name",), description=description)


def _ml_policy() -> Json:
    present = ", ".join(f"has(self.{name})" for name in _POLICIES)
    one = rule(f"[{present}].filter(x, x).size() <= 1", "Only one of the policy can be configured")
    return obj(
        {
            "flux": obj(
                {
                    "numProcPerNode": _processes(
                        "fluxPolicy", "Tasks of each node where the TrainJob says nothing; default 1."
                    )
                },
                description="Flux: brokers on all nodes, the first of which runs the program.",
            ),
            "jax": obj(description="JAX: tells each process the coordinator, their number and its own."),
            "mpi": _mpi(),
            "numNodes": integer(
                description="Nodes of a TrainJob that does not say how many; default 1. Not beside torch.elasticPolicy."
            ),
            "plugin": _plugin("A policy that an installed plugin of this name implements."),
            "torch": _torch(),
            "xgboost": obj(description="XGBoost: tells each worker the tracker, their number and its own."),
        },
        rules=(
            one,
            rule(
                "!has(self.numNodes) || !has(self.torch) || !has(self.torch.elasticPolicy)",
                "numNodes should not be set if torch.elasticPolicy is configured",
            ),
        ),
        description="How the processes of a job find each other; at most one policy, besides numNodes.",
    )


def _processes(policy: str, description: str) -> Json:
    minimum = rule("self >= 1", f"NumProcPerNode in {policy} must be >= 1")
    return with_rules(integer(default=1, description=description), minimum)


def _torch() -> Json:
    """Upstream dropped `elasticPolicy` and `numProcPerNode` with 2.2; the one works here, the other is honoured."""
    one_number = rule(
        "!has(self.numProcPerNode) || !has(self.elasticPolicy) || !has(self.elasticPolicy.nProcPerNode)",
        "nProcPerNode of the elasticPolicy and numProcPerNode are the same, so only one of them can be set",
    )
    return obj(
        {
            "elasticPolicy": elastic_policy(_torch_processes("PyTorchJob's name of torch.numProcPerNode.")),
            "envInjection": obj(
                {"targets": _injection_targets()},
                description="Other containers than the trainer's that get torchrun's variables.",
            ),
            "numProcPerNode": _torch_processes(
                "Processes on each node: a number, auto, cpu or gpu. Deprecated: set it in the TrainJob."
            ),
        },
        rules=(one_number,),
        description="torchrun: tells it nodes, processes, rank and where to meet, in the variables PET_*.",
    )


def _torch_processes(description: str) -> Json:
    processes: Json = {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "description": description,
        "x-kubernetes-int-or-string": True,
    }
    valid = rule(
        "type(self) == int ? self > 0 : self in ['auto', 'cpu', 'gpu']",
        "NumProcPerNode must be equal to auto, cpu, gpu, or int value",
    )
    return with_rules(processes, valid)


def _mpi() -> Json:
    return obj(
        {
            "SSHAuthMountPath": text(
                high=4096, description="sshAuthMountPath as KEP-2170 spells it, and before that one."
            ),
            "mpiImplementation": text(
                enum=["OpenMPI", ""],
                default="OpenMPI",
                description="Which MPI the image has; OpenMPI, the default, is 4. Intel and MPICH become the variant.",
            ),
            "numProcPerNode": _processes(
                "mpiPolicy", "Slots of each node where the TrainJob says nothing; with 1, the default, its GPUs if any."
            ),
            "runLauncherAsNode": flag(default=False, description="Whether the launcher is a node, too; default false."),
            "sshAuthMountPath": text(
                high=4096, default="/root/.ssh", description="Where ssh looks for its keys; default /root/.ssh."
            ),
            "variant": text(
                enum=["OpenMPI", "OpenMPI5", "Intel", "MPICH"],
                description="Which MPI the image has, before mpiImplementation, which knows Open MPI 4 only.",
            ),
        },
        rules=(
            rule(
                "!has(self.SSHAuthMountPath) || !has(self.sshAuthMountPath)"
                " || self.sshAuthMountPath in ['/root/.ssh', self.SSHAuthMountPath]",
                "SSHAuthMountPath and sshAuthMountPath must be the same",
            ),
        ),
        description="MPI: a launcher runs mpirun, which reaches the nodes by ssh, with keys made for the job.",
    )


def _injection_targets() -> Json:
    not_node = rule(
        "self.all(name, name != 'node')",
        "containerNames must not include the main node container because PET_* envs are always injected into it",
    )
    names = array(
        text(high=63), kind="set", high=8, minItems=1, description="Names of its containers, of init containers too."
    )
    target = obj(
        {
            "containerNames": with_rules(names, not_node),
            "jobName": text(1, 253, description="Name of the replicated job."),
        },
        required=("containerNames", "jobName"),
    )
    return array(target, keys=("jobName",), high=16, description="The containers, by replicated job.")


def _pod_group_policy() -> Json:
    present = ", ".join(f"has(self.{name})" for name in ("coscheduling", "plugin", "volcano", "workload"))
    topology = obj(
        {
            "highestTierAllowed": {
                "description": "Highest tier of the network that pods may be apart; default 1.",
                "type": "integer",
                "default": 1,
            },
            "mode": text(
                enum=["hard", "soft"],
                default="hard",
                description="Whether the tier must be kept (hard, the default) or is wished for (soft).",
            ),
        },
        description="How far apart in the network the pods may be; no matter if absent.",
    )
    timeout = integer(
        default=60, description="How long pods that have a place wait for the others, in seconds; default 60."
    )
    return obj(
        {
            "coscheduling": obj(
                {"scheduleTimeoutSeconds": timeout}, description="The coscheduling plugin of scheduler-plugins."
            ),
            "plugin": _plugin("A gang scheduler that an installed plugin of this name implements."),
            "volcano": obj({"networkTopology": topology}, description="The scheduler Volcano."),
            "workload": obj(description="Kubernetes' own gangs (scheduling.k8s.io)."),
        },
        rules=(rule(f"[{present}].filter(x, x).size() <= 1", "Only one of the policy can be configured"),),
        description="The gang scheduler that places all pods of a job, or none.",
    )
