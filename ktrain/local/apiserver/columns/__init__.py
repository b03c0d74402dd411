"""
The columns of built-in kinds.

    base        what a column is; the columns that all kinds share
    workloads   Pod, Job
    core        Service, ConfigMap, Secret, Event, Namespace, Node, Lease, volumes
    stored      Deployment and its like, CronJob, policies, endpoints, quotas
    cluster     access rules, classes, configurations
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver.columns import cluster, core, stored, workloads

if TYPE_CHECKING:
    from ktrain.local.apiserver.columns.base import Column

_RBAC: Final = "rbac.authorization.k8s.io"
_ADMISSION: Final = "admissionregistration.k8s.io"

BUILTIN: Final[dict[tuple[str, str], tuple[Column, ...]]] = {
    ("", "Pod"): workloads.POD,
    ("", "PodTemplate"): cluster.POD_TEMPLATE,
    ("", "Service"): core.SERVICE,
    ("", "ConfigMap"): core.CONFIG_MAP,
    ("", "Secret"): core.SECRET,
    ("", "Event"): core.EVENT,
    ("events.k8s.io", "Event"): core.EVENT,
    ("", "Namespace"): core.NAMESPACE,
    ("", "Node"): core.NODE,
    ("", "PersistentVolumeClaim"): core.PERSISTENT_VOLUME_CLAIM,
    ("", "PersistentVolume"): core.PERSISTENT_VOLUME,
    ("", "Endpoints"): stored.ENDPOINTS,
    ("", "ReplicationController"): stored.REPLICA_SET,
    ("", "ResourceQuota"): stored.QUOTA,
    ("apps", "DaemonSet"): stored.DAEMON_SET,
    ("apps", "Deployment"): stored.DEPLOYMENT,
    ("apps", "ReplicaSet"): stored.REPLICA_SET,
    ("apps", "StatefulSet"): stored.STATEFUL_SET,
    ("autoscaling", "HorizontalPodAutoscaler"): stored.AUTOSCALER,
    ("batch", "CronJob"): stored.CRON_JOB,
    ("discovery.k8s.io", "EndpointSlice"): stored.ENDPOINT_SLICE,
    ("networking.k8s.io", "Ingress"): stored.INGRESS,
    ("networking.k8s.io", "NetworkPolicy"): stored.NETWORK_POLICY,
    ("policy", "PodDisruptionBudget"): stored.BUDGET,
    ("", "LimitRange"): cluster.CREATED,
    ("batch", "Job"): workloads.JOB,
    ("coordination.k8s.io", "Lease"): core.LEASE,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): cluster.CREATED,
    (_RBAC, "Role"): cluster.CREATED,
    (_RBAC, "ClusterRole"): cluster.CREATED,
    (_RBAC, "RoleBinding"): cluster.BINDING,
    (_RBAC, "ClusterRoleBinding"): cluster.BINDING,
    ("scheduling.k8s.io", "PriorityClass"): cluster.PRIORITY_CLASS,
    ("node.k8s.io", "RuntimeClass"): cluster.RUNTIME_CLASS,
    ("storage.k8s.io", "StorageClass"): cluster.STORAGE_CLASS,
    (_ADMISSION, "MutatingWebhookConfiguration"): cluster.WEBHOOKS,
    (_ADMISSION, "ValidatingWebhookConfiguration"): cluster.WEBHOOKS,
}
"""By group and kind. Kinds that are not here show Name and Age."""
