"""
Objects in the order in which Go writes them.

A refusal prints the value it refuses, and upstream prints the Go struct: fields in the order of their declaration, maps
by key. One list of names is enough, as the structs that share names agree on their order. What is not listed follows,
by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api.typed import as_typed

from .decoded import JOB_TEMPLATE, decoded

if TYPE_CHECKING:
    from ktrain.api.meta import Json, JsonValue

# Where the values of these fields are maps, their keys are the user's.
_MAPS: Final = frozenset({"labels", "annotations", "nodeSelector", "matchLabels", "requests", "limits", "overhead"})
_FIELDS: Final = (
    # ReplicatedJob around its template
    *("name", "groupName", "template", "replicas", "dependsOn"),
    # metadata, then spec
    *("generateName", "namespace", "labels", "annotations", "ownerReferences", "finalizers", "metadata", "spec"),
)
_JOB_SPEC: Final = (
    *("parallelism", "completions", "activeDeadlineSeconds", "podFailurePolicy", "successPolicy", "backoffLimit"),
    *("backoffLimitPerIndex", "maxFailedIndexes", "selector", "manualSelector", "template", "ttlSecondsAfterFinished"),
    *("completionMode", "suspend", "podReplacementPolicy", "managedBy"),
)
_POD_SPEC: Final = (
    *("volumes", "initContainers", "containers", "ephemeralContainers", "restartPolicy"),
    *("terminationGracePeriodSeconds", "activeDeadlineSeconds", "dnsPolicy", "nodeSelector", "serviceAccountName"),
    *("serviceAccount", "automountServiceAccountToken", "nodeName", "hostNetwork", "hostPID", "hostIPC"),
    *("shareProcessNamespace", "securityContext", "imagePullSecrets", "hostname", "subdomain", "affinity"),
    *("schedulerName", "tolerations", "hostAliases", "priorityClassName", "priority", "dnsConfig", "readinessGates"),
    *("runtimeClassName", "enableServiceLinks", "preemptionPolicy", "overhead", "topologySpreadConstraints"),
    *("setHostnameAsFQDN", "os", "hostUsers", "schedulingGates", "resourceClaims", "resources"),
)
_CONTAINER: Final = (
    *("name", "image", "command", "args", "workingDir", "ports", "envFrom", "env", "resources", "resizePolicy"),
    *("restartPolicy", "restartPolicyRules", "volumeMounts", "volumeDevices", "livenessProbe", "readinessProbe"),
    *("startupProbe", "lifecycle", "terminationMessagePath", "terminationMessagePolicy", "imagePullPolicy"),
    *("securityContext", "stdin", "stdinOnce", "tty"),
)
_SMALL: Final = (
    # env, ports, mounts, tolerations, probes and the like
    *("key", "operator", "value", "values", "valueFrom", "effect", "tolerationSeconds"),
    *("hostPort", "containerPort", "protocol", "hostIP"),
    *("readOnly", "recursiveReadOnly", "mountPath", "subPath", "mountPropagation", "subPathExpr"),
    *("exec", "httpGet", "tcpSocket", "grpc", "initialDelaySeconds", "timeoutSeconds", "periodSeconds"),
    *("successThreshold", "failureThreshold", "path", "port", "host", "scheme", "httpHeaders"),
    *("limits", "requests", "claims", "matchLabels", "matchExpressions"),
    *("rules", "action", "onExitCodes", "onPodConditions", "containerName", "type", "status"),
)


def _ranks(*names: str) -> dict[str, int]:
    return {name: rank for rank, name in enumerate(names)}


_GENERAL: Final = _ranks(*_FIELDS, *_SMALL)
# Structs by a field that only they have.
_STRUCTS: Final = (
    ("containers", _ranks(*_POD_SPEC)),
    ("template", _ranks(*_JOB_SPEC)),
    ("image", _ranks(*_CONTAINER)),
)


def printed_jobs(replicated_jobs: list[Json] | None) -> JsonValue:
    """Return replicated jobs as upstream prints them: what Go always writes, without what is empty, in its order."""
    if not replicated_jobs:
        return replicated_jobs
    typed = as_typed({"replicatedJobs": replicated_jobs})["replicatedJobs"]
    return [
        go_order(_whole({key: value for key, value in rj.items() if (key, value) != ("replicas", 0)})) for rj in typed
    ]


def _whole(rj: Json) -> Json:
    return {**rj, "template": decoded(rj.get("template") or {}, JOB_TEMPLATE)}


def printed_claim(spec: Json) -> JsonValue:
    """Return the spec of a claim as upstream prints it."""
    policies = [{"templates": [{"spec": spec}]}]
    return go_order(as_typed({"volumeClaimPolicies": policies})["volumeClaimPolicies"][0]["templates"][0]["spec"])


def go_order(value: JsonValue) -> JsonValue:
    """Return the value with the fields of all objects in Go's order; the input is not changed."""
    if isinstance(value, list):
        return [go_order(item) for item in value]
    if not isinstance(value, dict):
        return value
    ranks = _ranks_of(value)
    ordered: Json = {}
    for name in sorted(value, key=lambda name: (ranks.get(name, len(ranks)), name)):
        inner = value[name]
        ordered[name] = dict(sorted(inner.items())) if name in _MAPS and isinstance(inner, dict) else go_order(inner)
    return ordered


def _ranks_of(value: Json) -> dict[str, int]:
    if "replicas" in value or "groupName" in value:
        return _GENERAL
    return next((ranks for mark, ranks in _STRUCTS if mark in value), _GENERAL)
