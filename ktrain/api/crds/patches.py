"""How a TrainJob changes the runtime's template: its patches, and what Trainer 2.0 and 2.1 had in their place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .build import (
    TEMPLATE_METADATA,
    array,
    builtin_schema,
    described,
    immutable,
    integer,
    moment,
    obj,
    opened,
    strings,
    text,
)

if TYPE_CHECKING:
    from ..meta import Json


def runtime_patches() -> Json:
    """`spec.runtimePatches`."""
    manager = immutable(text(1, 253, description="Who patches, as domain/path; there is one patch of each."))
    patch = obj(
        {
            "manager": manager,
            "time": moment("When the patch was last changed; the webhook fills it in."),
            "trainingRuntimeSpec": obj(
                {"template": _template()}, description="What to change of the runtime's spec; nothing if absent."
            ),
        },
        required=("manager",),
    )
    return array(
        patch,
        keys=("manager",),
        high=16,
        description="What managers, people and queues among them, change of the runtime for this job, one patch each;"
        " they may change only while the job is suspended.",
    )


def _template() -> Json:
    metadata = "Metadata to add to {}, or to replace there, key by key; names and finalizers, too."
    pod = obj(
        {"metadata": described(TEMPLATE_METADATA, metadata.format("the pods")), "spec": pod_spec_patch()},
        description="What to change of the pods.",
    )
    job = obj(
        {
            "metadata": described(TEMPLATE_METADATA, metadata.format("the Jobs")),
            "spec": obj({"template": pod}, description="What to change of the Jobs."),
        },
        description="What to change of the template of the Jobs.",
    )
    name = text(1, 253, description="Name of the replicated job, which the runtime must have.")
    jobs = array(
        obj({"name": name, "template": job}, required=("name",)),
        keys=("name",),
        high=100,
        description="Replicated jobs to change, by name.",
    )
    return obj(
        {
            "metadata": described(
                TEMPLATE_METADATA, "Labels and annotations to give to the JobSet; the rest has no effect."
            ),
            "spec": obj({"replicatedJobs": jobs}, description="What to change of the JobSet."),
        },
        description="What to change of the runtime's template of a JobSet.",
    )


def pod_spec_patch() -> Json:
    """What of a pod spec a patch may set."""
    volumes = array(
        builtin_schema("core.v1.Volume"),
        keys=("name",),
        high=128,
        description="Volumes to add, or to change by name; fixed once set.",
    )
    # Upstream lets pull secrets go without a name, which as a list key is then the empty one.
    secret = builtin_schema("core.v1.LocalObjectReference")
    named = secret | {"properties": {"name": text(default="", description="Name of the Secret.")}}
    secrets = array(
        named,
        keys=("name",),
        high=64,
        description="Secrets to pull images with, added to the runtime's; fixed once set.",
    )
    security = described(
        builtin_schema("core.v1.PodSecurityContext"), "Security settings of the whole pod; fixed once set."
    )
    return obj(
        {
            "affinity": described(builtin_schema("core.v1.Affinity"), "Which nodes the pods want or avoid."),
            "containers": _containers("Containers to change, by name; the runtime must have them. Fixed once set."),
            "imagePullSecrets": immutable(secrets),
            "initContainers": _containers(
                "Init containers to change, by name; the runtime must have them. Fixed once set."
            ),
            "nodeSelector": strings("Labels that a node must have, added to the runtime's."),
            "schedulingGates": array(
                builtin_schema("core.v1.PodSchedulingGate"),
                keys=("name",),
                high=16,
                description="Gates that keep the pods from being scheduled until each is taken away.",
            ),
            "securityContext": immutable(security),
            "serviceAccountName": immutable(
                text(high=253, description="Service account that the pods run as; fixed once set.")
            ),
            "terminationGracePeriodSeconds": immutable(
                integer(
                    0, bits=64, description="Seconds that the pods have to end before they are killed; fixed once set."
                )
            ),
            "tolerations": array(
                builtin_schema("core.v1.Toleration"),
                kind="atomic",
                high=128,
                description="Taints of nodes that the pods bear, in place of the runtime's.",
            ),
            "volumes": immutable(volumes),
        },
        description="What to change of the pods' spec.",
    )


def _containers(description: str) -> Json:
    return immutable(array(_container(), keys=("name",), high=64, description=description))


def _container() -> Json:
    return obj(
        {
            "env": variables(
                "Environment variables to add, or to replace by name; of init containers, and of containers other than"
                " node, dataset-initializer and model-initializer."
            ),
            "name": text(1, 253, description="Name of the container."),
            "securityContext": described(
                builtin_schema("core.v1.SecurityContext"), "Security settings of the container."
            ),
            # By name, not by mountPath as pods have it: one patch mounts a volume once.
            "volumeMounts": array(
                builtin_schema("core.v1.VolumeMount"),
                keys=("name",),
                high=128,
                description="Volumes to mount, added to the runtime's or in place of the one at the same path.",
            ),
        },
        required=("name",),
    )


def variables(description: str) -> Json:
    """At most 128 environment variables, by name."""
    return array(builtin_schema("core.v1.EnvVar"), keys=("name",), high=128, description=description)


def older_shapes() -> Json:
    """
    What TrainJobs of Kubeflow Trainer 2.0 and 2.1 said instead of `runtimePatches`. ktrain translates it.

    Their pod specs are open here: they are checked as what they are translated to.
    """
    target = obj({"name": text(1, 253, description="Name of the replicated job.")}, required=("name",))
    metadata = obj(
        {
            "annotations": strings("Annotations to add to the pods."),
            "labels": strings("Labels to add to the pods."),
        },
        description="What to change of the pods' metadata.",
    )
    template = obj(
        {
            "metadata": metadata,
            "spec": opened("What to change of the pods' spec, with the fields that runtimePatches have for it."),
            "targetJobs": array(
                target, kind="atomic", high=100, description="Replicated jobs whose pods change; all if there are none."
            ),
        }
    )
    deprecated = "Deprecated: use runtimePatches. {} as Trainer {} had them; {} while the job is suspended."
    changes = "they may change only"
    added = "{} of the JobSet, its Jobs and their pods, over the runtime's; fixed once there is a JobSet."
    pod: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "annotations": strings(added.format("Annotations")),
        "labels": strings(added.format("Labels")),
        "podSpecOverrides": array(
            pod, kind="atomic", high=16, description=deprecated.format("Changes of pods' specs", "2.0", changes)
        ),
        "podTemplateOverrides": array(
            template, kind="atomic", high=16, description=deprecated.format("Changes of pods", "2.1", changes)
        ),
    }
