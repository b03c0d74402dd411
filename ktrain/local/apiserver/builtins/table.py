"""The built-in kinds that are served, as data. Definitions of kinds nobody asks for yet are not served."""

from __future__ import annotations

from typing import Final

from ktrain.local.apiserver.access.rbac import GROUP
from ktrain.local.apiserver.builtins import bindings, simple
from ktrain.local.apiserver.builtins.access.rbac import BindingStrategy, RoleStrategy
from ktrain.local.apiserver.builtins.access.reviews import REVIEWS
from ktrain.local.apiserver.builtins.access.webhook_configurations import (
    MutatingConfigurationStrategy,
    WebhookConfigurationStrategy,
)
from ktrain.local.apiserver.builtins.batch.jobs import JobStrategy
from ktrain.local.apiserver.builtins.configs import ConfigMapStrategy, SecretStrategy
from ktrain.local.apiserver.builtins.definitions.kind import DefinitionStrategy
from ktrain.local.apiserver.builtins.events import CoreEventStrategy, EventStrategy
from ktrain.local.apiserver.builtins.leases import LeaseStrategy
from ktrain.local.apiserver.builtins.namespaces import NamespaceStrategy
from ktrain.local.apiserver.builtins.networking.services import ServiceStrategy
from ktrain.local.apiserver.builtins.nodes import NodeStrategy
from ktrain.local.apiserver.builtins.pods.strategy import PodStrategy
from ktrain.local.apiserver.builtins.quotas.limits import LimitRangeStrategy
from ktrain.local.apiserver.builtins.serving import same as _same
from ktrain.local.apiserver.builtins.serving import served as _served
from ktrain.local.apiserver.builtins.stored import RESOURCES as _STORED
from ktrain.local.apiserver.builtins.volumes.claims import ClaimStrategy
from ktrain.local.apiserver.policies.kinds import PolicyBindingStrategy, PolicyStrategy
from ktrain.local.apiserver.registry import ServedResource
from ktrain.local.apiserver.strategy import ORDINARY

_RBAC: Final = f"{GROUP}/v1"
_REFERENCE: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_CONNECT: Final = ("create", "get")
_VIEW: Final = ("get", "patch", "update")
_POD_SUBRESOURCES: Final = {
    "attach": _CONNECT,
    "binding": ("create",),
    "ephemeralcontainers": _VIEW,
    "eviction": ("create",),
    "exec": _CONNECT,
    "portforward": _CONNECT,
    "log": ("get",),
    "resize": _VIEW,
}


_POD_FIELDS: Final = _same(
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
) | {"status.podIPs": "status.podIPs.ip"}
_CORE_EVENT_FIELDS: Final = {
    **_same(*(f"involvedObject.{name}" for name in _REFERENCE), "reason", "reportingComponent", "type"),
    "source": "source.component",
}
_EVENT_FIELDS: Final = _same(*(f"regarding.{name}" for name in _REFERENCE), "reason", "reportingController", "type")

RESOURCES: Final = (
    ServedResource(
        group="",
        version="v1",
        kind="Binding",
        plural="bindings",
        singular="binding",
        namespaced=True,
        strategy=ORDINARY,
        verbs=("create",),
        review=bindings.bind_named,
    ),
    _served("v1", "ConfigMap", "configmaps", ConfigMapStrategy(), short=("cm",)),
    _served("v1", "Event", "events", CoreEventStrategy(), short=("ev",), fields=_CORE_EVENT_FIELDS),
    _served("v1", "LimitRange", "limitranges", LimitRangeStrategy(), short=("limits",)),
    _served(
        "v1",
        "Namespace",
        "namespaces",
        NamespaceStrategy(),
        lacks=("deletecollection",),
        short=("ns",),
        namespaced=False,
        status=True,
        subresources={"finalize": ("update",)},
        fields=_same("status.phase"),
    ),
    _served(
        "v1",
        "Node",
        "nodes",
        NodeStrategy(),
        short=("no",),
        namespaced=False,
        status=True,
        fields=_same("spec.unschedulable"),
    ),
    _served("v1", "PersistentVolumeClaim", "persistentvolumeclaims", ClaimStrategy(), short=("pvc",), status=True),
    _served(
        "v1",
        "Pod",
        "pods",
        PodStrategy(),
        short=("po",),
        status=True,
        categories=("all",),
        subresources=_POD_SUBRESOURCES,
        fields=_POD_FIELDS,
    ),
    _served("v1", "Secret", "secrets", SecretStrategy(), fields=_same("type")),
    _served(
        "v1",
        "Service",
        "services",
        ServiceStrategy(),
        short=("svc",),
        status=True,
        categories=("all",),
        fields=_same("spec.clusterIP", "spec.type"),
    ),
    _served(
        "v1",
        "ServiceAccount",
        "serviceaccounts",
        simple.AccountStrategy(),
        short=("sa",),
        subresources={"token": ("create",)},
    ),
    _served(
        "admissionregistration.k8s.io/v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        MutatingConfigurationStrategy(),
        namespaced=False,
        categories=("api-extensions",),
    ),
    _served(
        "admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        WebhookConfigurationStrategy(),
        namespaced=False,
        categories=("api-extensions",),
    ),
    _served(
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        PolicyStrategy(),
        namespaced=False,
        status=True,
        categories=("api-extensions",),
    ),
    _served(
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        PolicyBindingStrategy(),
        namespaced=False,
        categories=("api-extensions",),
    ),
    _served(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        DefinitionStrategy(),
        short=("crd", "crds"),
        namespaced=False,
        status=True,
        categories=("api-extensions",),
    ),
    _served(
        "batch/v1",
        "Job",
        "jobs",
        JobStrategy(),
        status=True,
        categories=("all",),
        fields={"status.successful": "status.succeeded"},
    ),
    _served("coordination.k8s.io/v1", "Lease", "leases", LeaseStrategy()),
    _served(
        "events.k8s.io/v1", "Event", "events", EventStrategy(), short=("ev",), fields=_EVENT_FIELDS, storage="events"
    ),
    _served("node.k8s.io/v1", "RuntimeClass", "runtimeclasses", simple.RuntimeClassStrategy(), namespaced=False),
    _served(_RBAC, "ClusterRole", "clusterroles", RoleStrategy(namespaced=False), namespaced=False),
    _served(_RBAC, "ClusterRoleBinding", "clusterrolebindings", BindingStrategy(namespaced=False), namespaced=False),
    _served(_RBAC, "Role", "roles", RoleStrategy(namespaced=True)),
    _served(_RBAC, "RoleBinding", "rolebindings", BindingStrategy(namespaced=True)),
    _served(
        "scheduling.k8s.io/v1",
        "PriorityClass",
        "priorityclasses",
        simple.PriorityClassStrategy(),
        short=("pc",),
        namespaced=False,
    ),
    *_STORED,
    *REVIEWS,
)
