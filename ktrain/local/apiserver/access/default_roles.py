"""
The roles and bindings that every cluster has from the start, as far as somebody here can use them.

The roles of upstream's own controllers are left out: ours are part of the server. Kinds that are not served are named
as they are upstream, so that a copy of such a role means the same on a cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver.access.aggregation import gathered
from ktrain.local.apiserver.access.rbac import GROUP, MASTERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json

_READ: Final = "get list watch"
_WRITE: Final = "create delete deletecollection patch update"
_BOTH: Final = "create delete deletecollection get list patch update watch"
_AGGREGATE: Final = f"{GROUP}/aggregate-to-"
_AUTHENTICATED: Final = "system:authenticated"
_HEALTH: Final = "/healthz /livez /readyz /version /version/"
_DISCOVERY: Final = "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/"
_ISSUER: Final = "/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/"
_PROBES: Final = "/flagz /healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/* /statusz"

_APPS: Final = "daemonsets deployments deployments/scale replicasets replicasets/scale statefulsets statefulsets/scale"
_SEEN_APPS: Final = (
    "controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status replicasets "
    "replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status"
)


def _rule(verbs: str, groups: str, resources: str) -> Json:
    """Write a rule; `groups` are separated by blanks, and `core` is the group without a name."""
    named = ["" if group == "core" else group for group in groups.split()]
    return {"verbs": verbs.split(), "apiGroups": named, "resources": resources.split()}


def _paths(paths: str) -> Json:
    return {"verbs": ["get"], "nonResourceURLs": paths.split()}


_VIEW: Final = [
    _rule(
        _READ,
        "core",
        "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods replicationcontrollers "
        "replicationcontrollers/scale serviceaccounts services services/status",
    ),
    _rule(
        _READ,
        "core",
        "bindings limitranges namespaces/status pods/log pods/status replicationcontrollers/status resourcequotas "
        "resourcequotas/status",
    ),
    _rule(_READ, "core", "namespaces"),
    _rule(_READ, "core events.k8s.io", "events"),
    _rule(_READ, "discovery.k8s.io", "endpointslices"),
    _rule(_READ, "apps", _SEEN_APPS),
    _rule(_READ, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
    _rule(_READ, "batch", "cronjobs cronjobs/status jobs jobs/status"),
    _rule(_READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
    _rule(_READ, "networking.k8s.io", "ingresses ingresses/status networkpolicies"),
    _rule(_READ, "resource.k8s.io", "resourceclaims resourceclaims/status resourceclaimtemplates"),
]
_EDIT: Final = [
    _rule(_READ, "core", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy"),
    _rule("impersonate", "core", "serviceaccounts"),
    _rule(_WRITE, "core", "pods pods/attach pods/exec pods/portforward pods/proxy"),
    _rule("create", "core", "pods/eviction"),
    _rule(
        _WRITE,
        "core",
        "configmaps persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets "
        "serviceaccounts services services/proxy",
    ),
    _rule("create", "core", "serviceaccounts/token"),
    _rule(_WRITE, "core events.k8s.io", "events"),
    _rule(_WRITE, "apps", f"{_APPS} deployments/rollback"),
    _rule(_WRITE, "autoscaling", "horizontalpodautoscalers"),
    _rule(_WRITE, "batch", "cronjobs jobs"),
    _rule(_WRITE, "policy", "poddisruptionbudgets"),
    _rule(_WRITE, "networking.k8s.io", "ingresses networkpolicies"),
    _rule(_BOTH, "coordination.k8s.io", "leases"),
    _rule(_WRITE, "resource.k8s.io", "resourceclaims resourceclaimtemplates"),
]
_ADMIN: Final = [
    _rule("create", "authorization.k8s.io", "localsubjectaccessreviews"),
    _rule(_BOTH, GROUP, "rolebindings roles"),
]
_BASIC: Final = [
    _rule("create", "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews"),
    _rule("create", "authentication.k8s.io", "selfsubjectreviews"),
]
_DELEGATOR: Final = [
    _rule("create", "authentication.k8s.io", "tokenreviews"),
    _rule("create", "authorization.k8s.io", "subjectaccessreviews"),
]
_RULES: Final = {
    "cluster-admin": [_rule("*", "*", "*"), {"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "system:aggregate-to-admin": _ADMIN,
    "system:aggregate-to-edit": _EDIT,
    "system:aggregate-to-view": _VIEW,
    "system:auth-delegator": _DELEGATOR,
    "system:basic-user": _BASIC,
    "system:discovery": [_paths(_DISCOVERY)],
    "system:monitoring": [_paths(_PROBES), _rule("get", "core", "nodes/metrics")],
    "system:public-info-viewer": [_paths(_HEALTH)],
    "system:service-account-issuer-discovery": [_paths(_ISSUER)],
}
_GATHERING: Final = ("view", "edit", "admin")
"""Each gathers what is labelled for it, and with that the one before."""
_LABELS: Final = {
    "system:aggregate-to-admin": "admin",
    "system:aggregate-to-edit": "edit",
    "system:aggregate-to-view": "view",
    "edit": "admin",
    "view": "edit",
}
_BOUND: Final = {
    "cluster-admin": [MASTERS],
    "system:basic-user": [_AUTHENTICATED],
    "system:discovery": [_AUTHENTICATED],
    "system:monitoring": ["system:monitoring"],
    "system:public-info-viewer": [_AUTHENTICATED, "system:unauthenticated"],
    "system:service-account-issuer-discovery": ["system:serviceaccounts"],
}


def cluster_roles() -> Iterator[Json]:
    """Make the ClusterRoles, without what the server sets."""
    roles = [{"metadata": _meta(name), "rules": rules} for name, rules in _RULES.items()]
    for name in _GATHERING:
        selector = {"matchLabels": {f"{_AGGREGATE}{name}": "true"}}
        role: Json = {"metadata": _meta(name), "aggregationRule": {"clusterRoleSelectors": [selector]}}
        roles.append(role | {"rules": gathered(role, sorted(roles, key=lambda one: str(one["metadata"]["name"])))})
    yield from roles


def cluster_role_bindings() -> Iterator[Json]:
    """Make the ClusterRoleBindings, without what the server sets."""
    for name, groups in _BOUND.items():
        subjects = [{"kind": "Group", "apiGroup": GROUP, "name": group} for group in groups]
        reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": name}
        yield {"metadata": _meta(name), "subjects": subjects, "roleRef": reference}


def _meta(name: str) -> Json:
    labels = {"kubernetes.io/bootstrapping": "rbac-defaults"}
    if name in _LABELS:
        labels[f"{_AGGREGATE}{_LABELS[name]}"] = "true"
    annotations = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
    return {"name": name, "labels": labels, "annotations": annotations}
