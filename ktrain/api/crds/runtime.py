"""The CRDs of TrainingRuntime and ClusterTrainingRuntime: one spec, two scopes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..trainer import GROUP, VERSION
from .build import TEMPLATE_METADATA, array, crd, flag, integer, obj, rule, text, with_rules
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
        {"metadata": TEMPLATE_METADATA, "spec": jobset_spec()},
        minProperties=1,
        description="The JobSet that a TrainJob becomes.",
    )
    return obj({"mlPolicy": _ml_policy(), "podGroupPolicy": _pod_group_policy(), "template": template}, minProperties=1)


def _plugin(description: str) -> Json:
    """An open slot: a policy of a plugin that nobody here knows. Its configuration is the plugin's to check."""
    config: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return obj({"name": text(1, 253), "config": config}, required=("name",), description=description)


def _ml_policy() -> Json:
    present = ", ".join(f"has(self.{name})" for name in _POLICIES)
    one = rule(f"[{present}].filter(x, x).size() <= 1", "Only one of the policy can be configured")
    return obj(
        {
            "flux": obj({"numProcPerNode": _processes("fluxPolicy")}),
            "jax": obj(),
            "mpi": _mpi(),
            "numNodes": integer(description="Nodes of a TrainJob that does not say how many."),
            "plugin": _plugin("A policy that an installed plugin of this name implements."),
            "torch": _torch(),
            "xgboost": obj(),
        },
        rules=(
            one,
            rule(
                "!has(self.numNodes) || !has(self.torch) || !has(self.torch.elasticPolicy)",
                "numNodes should not be set if torch.elasticPolicy is configured",
            ),
        ),
        description="How the processes of a job find each other; at most one policy.",
    )


def _processes(policy: str) -> Json:
    minimum = rule("self >= 1", f"NumProcPerNode in {policy} must be >= 1")
    return with_rules(integer(default=1), minimum)


def _torch() -> Json:
    """Upstream dropped `elasticPolicy` and `numProcPerNode` with 2.2; the one works here, the other is honoured."""
    metric: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    elastic = obj(
        {
            "maxNodes": integer(1, description="Most nodes of an elastic job."),
            "maxRestarts": integer(0, description="How often torchrun starts all workers anew after one failed."),
            "metrics": array(metric, kind="atomic", high=16, description="Of autoscaling/v2; they make an autoscaler."),
            "minNodes": integer(1, description="Fewest nodes with which training goes on."),
        },
        required=("maxNodes", "minNodes"),
        rules=(rule("self.minNodes <= self.maxNodes", "minNodes must not be greater than maxNodes"),),
        description="Train on as many nodes as there are, from minNodes to maxNodes.",
    )
    processes: Json = {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "description": "Processes on each node: a number, auto, cpu or gpu. Deprecated: set it in the TrainJob.",
        "x-kubernetes-int-or-string": True,
    }
    valid = rule(
        "type(self) == int ? self > 0 : self in ['auto', 'cpu', 'gpu']",
        "NumProcPerNode must be equal to auto, cpu, gpu, or int value",
    )
    return obj(
        {
            "elasticPolicy": elastic,
            "envInjection": obj({"targets": _injection_targets()}),
            "numProcPerNode": with_rules(processes, valid),
        }
    )


def _mpi() -> Json:
    return obj(
        {
            "mpiImplementation": text(enum=["OpenMPI", ""], default="OpenMPI"),
            "numProcPerNode": _processes("mpiPolicy"),
            "runLauncherAsNode": flag(default=False),
            "sshAuthMountPath": text(high=4096, default="/root/.ssh"),
            "variant": text(
                enum=["OpenMPI", "OpenMPI5", "Intel", "MPICH"],
                description="Which MPI the image has, before mpiImplementation, which knows Open MPI 4 only.",
            ),
        }
    )


def _injection_targets() -> Json:
    not_node = rule(
        "self.all(name, name != 'node')",
        "containerNames must not include the main node container because PET_* envs are always injected into it",
    )
    names = array(text(high=63), kind="set", high=8, minItems=1)
    target = obj(
        {"containerNames": with_rules(names, not_node), "jobName": text(1, 253)},
        required=("containerNames", "jobName"),
    )
    return array(target, keys=("jobName",), high=16)


def _pod_group_policy() -> Json:
    present = ", ".join(f"has(self.{name})" for name in ("coscheduling", "plugin", "volcano", "workload"))
    topology = obj(
        {
            "highestTierAllowed": {"type": "integer", "default": 1},
            "mode": text(enum=["hard", "soft"], default="hard"),
        }
    )
    return obj(
        {
            "coscheduling": obj({"scheduleTimeoutSeconds": integer(default=60)}),
            "plugin": _plugin("A gang scheduler that an installed plugin of this name implements."),
            "volcano": obj({"networkTopology": topology}),
            "workload": obj(description="Kubernetes' own gangs (scheduling.k8s.io)."),
        },
        rules=(rule(f"[{present}].filter(x, x).size() <= 1", "Only one of the policy can be configured"),),
        description="The gang scheduler that places all pods of a job, or none.",
    )
