"""
Kinds that are stored, defaulted and validated as a cluster does it, and that nobody acts on here.

Charts install them, controllers own and scale them, and tests look at them; there is no controller behind any of them
and none is meant to be.
"""

from __future__ import annotations

from typing import Final

from ktrain.local.apiserver.builtins.batch.cronjobs import CronJobStrategy
from ktrain.local.apiserver.builtins.networking import endpoints, ingresses
from ktrain.local.apiserver.builtins.networking import policies as networking
from ktrain.local.apiserver.builtins.quotas.kind import QuotaStrategy
from ktrain.local.apiserver.builtins.serving import same, served
from ktrain.local.apiserver.builtins.volumes import volumes
from ktrain.local.apiserver.builtins.workloads import deployments, gangs
from ktrain.local.apiserver.builtins.workloads.autoscaling import AutoscalerStrategy
from ktrain.local.apiserver.builtins.workloads.disruption import BudgetStrategy
from ktrain.local.apiserver.builtins.workloads.pod_templates import PodTemplateStrategy
from ktrain.local.apiserver.builtins.workloads.replication import ReplicationControllerStrategy
from ktrain.local.apiserver.registry import Scale

_SCALE: Final = Scale(("spec", "replicas"), ("status", "replicas"), ("spec", "selector"))
_ALL: Final = ("all",)

RESOURCES: Final = (
    served(
        "v1",
        "Endpoints",
        "endpoints",
        endpoints.EndpointsStrategy(),
        short=("ep",),
        deprecation="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    ),
    served(
        "v1",
        "PersistentVolume",
        "persistentvolumes",
        volumes.VolumeStrategy(),
        short=("pv",),
        namespaced=False,
        status=True,
    ),
    served("v1", "PodTemplate", "podtemplates", PodTemplateStrategy()),
    served(
        "v1",
        "ReplicationController",
        "replicationcontrollers",
        ReplicationControllerStrategy(),
        short=("rc",),
        status=True,
        categories=_ALL,
        fields=same("status.replicas"),
        scale=_SCALE,
    ),
    served("v1", "ResourceQuota", "resourcequotas", QuotaStrategy(), short=("quota",), status=True),
    served(
        "apps/v1",
        "DaemonSet",
        "daemonsets",
        deployments.DaemonSetStrategy(),
        short=("ds",),
        status=True,
        categories=_ALL,
    ),
    served(
        "apps/v1",
        "Deployment",
        "deployments",
        deployments.DeploymentStrategy(),
        short=("deploy",),
        status=True,
        categories=_ALL,
        scale=_SCALE,
    ),
    served(
        "apps/v1",
        "ReplicaSet",
        "replicasets",
        deployments.ReplicaSetStrategy(),
        short=("rs",),
        status=True,
        categories=_ALL,
        fields=same("status.replicas"),
        scale=_SCALE,
    ),
    served(
        "apps/v1",
        "StatefulSet",
        "statefulsets",
        deployments.StatefulSetStrategy(),
        short=("sts",),
        status=True,
        categories=_ALL,
        scale=_SCALE,
    ),
    served(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        AutoscalerStrategy(),
        short=("hpa",),
        status=True,
        categories=_ALL,
    ),
    served("batch/v1", "CronJob", "cronjobs", CronJobStrategy(), short=("cj",), status=True, categories=_ALL),
    served("discovery.k8s.io/v1", "EndpointSlice", "endpointslices", endpoints.EndpointSliceStrategy()),
    served(
        "networking.k8s.io/v1",
        "Ingress",
        "ingresses",
        ingresses.IngressStrategy(),
        short=("ing",),
        status=True,
    ),
    served(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        "networkpolicies",
        networking.NetworkPolicyStrategy(),
        short=("netpol",),
    ),
    served(
        "policy/v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        BudgetStrategy(),
        short=("pdb",),
        status=True,
    ),
    served(
        "storage.k8s.io/v1",
        "StorageClass",
        "storageclasses",
        volumes.StorageClassStrategy(),
        short=("sc",),
        namespaced=False,
    ),
)

FEATURES: Final = {
    gangs.FEATURE: (
        served(gangs.API_VERSION, "PodGroup", "podgroups", gangs.PodGroupStrategy(), status=True),
        served(gangs.API_VERSION, "Workload", "workloads", gangs.WorkloadStrategy()),
    ),
}
"""What is served only with a feature of Kubernetes that is off by default there."""
