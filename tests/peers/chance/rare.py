"""What else may stand in those fields, and hardly ever does: together with `tables`, each field of the definitions."""

from __future__ import annotations

from typing import Any

from .tables import TERM, Table

FIELD = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
SELECTOR = {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}], "matchLabels": {"c": ""}}
POD_TERM = {
    "topologyKey": "rack",
    "labelSelector": SELECTOR,
    "namespaces": ["default"],
    "namespaceSelector": {"matchLabels": {"team": "a"}},
    "matchLabelKeys": ["version"],
    "mismatchLabelKeys": ["tenant"],
}
AFFINITIES: list[Any] = [
    {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [FIELD, TERM]}}},
    {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": FIELD}]}},
    {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [POD_TERM]}},
    {
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": POD_TERM}],
            "requiredDuringSchedulingIgnoredDuringExecution": [POD_TERM],
        }
    },
]
CLAIM = {
    "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
    "spec": {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "1024Mi"}, "limits": {"storage": "2Gi"}},
        "storageClassName": "fast",
        "volumeMode": "Filesystem",
        "selector": SELECTOR,
        "volumeName": "v",
        "volumeAttributesClassName": "gold",
        "dataSource": {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "x"},
        "dataSourceRef": {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "x"},
    },
}
ITEMS = [{"key": "k", "path": "p", "mode": 0}, {"key": "l", "path": "q"}]
SECRET = {"name": "s"}
DOWNWARD = [
    {"path": "a", "fieldRef": {"fieldPath": "metadata.annotations", "apiVersion": "v1"}, "mode": 292},
    {"path": "b", "resourceFieldRef": {"containerName": "node", "resource": "limits.cpu", "divisor": "1000m"}},
]
SOURCES: list[Any] = [
    {"nfs": {"server": "h", "path": "/x", "readOnly": True}},
    {"csi": {"driver": "d", "volumeAttributes": {"a": "b"}, "nodePublishSecretRef": SECRET, "fsType": "xfs"}},
    {"ephemeral": {"volumeClaimTemplate": CLAIM}},
    {"image": {"reference": "r.io/m:1", "pullPolicy": "IfNotPresent"}},
    {"downwardAPI": {"items": DOWNWARD, "defaultMode": 0}},
    {"configMap": {"name": "c", "defaultMode": 420}},
    {"secret": {"secretName": "s", "items": ITEMS, "optional": False}},
    {"awsElasticBlockStore": {"volumeID": "v", "partition": 0, "readOnly": False}},
    {"azureDisk": {"diskName": "d", "diskURI": "u", "cachingMode": "None", "kind": "Managed"}},
    {"azureFile": {"secretName": "s", "shareName": "x", "readOnly": True}},
    {"cephfs": {"monitors": ["m"], "path": "/", "secretRef": SECRET}},
    {"cinder": {"volumeID": "v", "secretRef": SECRET}},
    {"fc": {"targetWWNs": ["w"], "lun": 0}},
    {"flexVolume": {"driver": "d/d", "options": {"a": ""}, "secretRef": SECRET}},
    {"flocker": {"datasetName": "d"}},
    {"gcePersistentDisk": {"pdName": "d", "partition": 1}},
    {"gitRepo": {"repository": "https://x/y", "directory": "."}},
    {"glusterfs": {"endpoints": "e", "path": "p"}},
    {"iscsi": {"targetPortal": "t:1", "iqn": "iqn.2001-04.com.example:a", "lun": 0, "portals": ["u:1"]}},
    {"photonPersistentDisk": {"pdID": "d"}},
    {"portworxVolume": {"volumeID": "v"}},
    {"quobyte": {"registry": "r:1", "volume": "v"}},
    {"rbd": {"monitors": ["m"], "image": "i", "secretRef": SECRET}},
    {"scaleIO": {"gateway": "g", "system": "s", "secretRef": SECRET, "volumeName": "v"}},
    {"storageos": {"volumeName": "v", "secretRef": SECRET}},
    {"vsphereVolume": {"volumePath": "p", "storagePolicyID": "x", "storagePolicyName": "y"}},
    {
        "projected": {
            "defaultMode": 256,
            "sources": [
                {"configMap": {"name": "c", "items": ITEMS, "optional": True}},
                {"secret": {"name": "s", "items": ITEMS, "optional": False}},
                {"downwardAPI": {"items": DOWNWARD}},
                {"serviceAccountToken": {"path": "t", "audience": "x", "expirationSeconds": 3600}},
                {"clusterTrustBundle": {"signerName": "a/b", "path": "ca", "labelSelector": SELECTOR}},
                {
                    "podCertificate": {
                        "signerName": "a/b",
                        "keyType": "ED25519",
                        "credentialBundlePath": "c",
                        "maxExpirationSeconds": 3600,
                    }
                },
            ],
        }
    },
]
VOLUMES: list[Any] = [{"name": ("data", "other")[at % 2], **source} for at, source in enumerate(SOURCES)]
MOUNTS: list[Any] = [
    {"name": "other", "mountPath": "/other", "mountPropagation": "HostToContainer", "recursiveReadOnly": "Disabled"},
    {"name": "other", "mountPath": "/data", "subPathExpr": "$(A)"},
    {"name": "data", "mountPath": "/root/.ssh", "readOnly": True, "recursiveReadOnly": "IfPossible"},
]
SE_LINUX = {"user": "u", "role": "r", "type": "t", "level": "s0"}
WINDOWS = {"gmsaCredentialSpecName": "g", "gmsaCredentialSpec": "x", "runAsUserName": "u", "hostProcess": False}
CONTEXTS: list[Any] = [
    {"appArmorProfile": {"type": "Localhost", "localhostProfile": "p"}, "runAsGroup": 0, "seLinuxOptions": SE_LINUX},
    {"seccompProfile": {"type": "Localhost", "localhostProfile": "p"}, "windowsOptions": WINDOWS},
]
POD_CONTEXTS: list[Any] = [
    {"appArmorProfile": {"type": "Unconfined"}, "runAsGroup": 7, "seLinuxOptions": SE_LINUX, "fsGroup": 0},
    {"seccompProfile": {"type": "Localhost", "localhostProfile": "p"}, "windowsOptions": WINDOWS},
    {"supplementalGroupsPolicy": "Strict", "seLinuxChangePolicy": "MountOption", "supplementalGroups": [0]},
]
PROBES: list[Any] = [
    {
        "httpGet": {"host": "h", "scheme": "HTTPS", "port": 1},
        "successThreshold": 1,
        "terminationGracePeriodSeconds": 9,
    },
    {"tcpSocket": {"host": "h", "port": "http"}},
]
FILE = {"fileKeyRef": {"volumeName": "data", "path": "p", "key": "k", "optional": False}}
"""A variable's; a TrainJob's own Go forgets."""
CONTAINER: Table = {
    "envFrom": [[{"secretRef": {"name": "s", "optional": False}}, {"configMapRef": {"name": ""}}]],
    "lifecycle": [
        {"postStart": {"httpGet": {"port": 1, "host": "h"}}, "preStop": {"exec": {"command": ["y"]}}},
        {"postStart": {"sleep": {"seconds": 0}}, "preStop": {"httpGet": {"path": "/", "port": "http"}}},
        {"postStart": {"tcpSocket": {"port": 1}}, "preStop": {"tcpSocket": {"port": "a", "host": "h"}}},
        {"stopSignal": "SIGTERM"},
    ],
    "livenessProbe": PROBES,
    "readinessProbe": PROBES,
    "startupProbe": PROBES,
    "ports": [[{"name": "sctp", "containerPort": 1, "hostIP": "1.2.3.4", "hostPort": 2, "protocol": "SCTP"}]],
    "restartPolicy": ["Never", "OnFailure"],
    "restartPolicyRules": [[{"action": "Restart", "exitCodes": {"operator": "In", "values": [3]}}]],
    "securityContext": CONTEXTS,
    "stdinOnce": [True],
    "terminationMessagePath": ["/x", ""],
    "volumeDevices": [[{"name": "other", "devicePath": "/dev/x"}]],
    "volumeMounts": [MOUNTS[:1], MOUNTS[1:]],
    "env": [[{"name": "A", "valueFrom": FILE}, {"name": "F", "value": "x"}]],
}
POD: Table = {
    "affinity": AFFINITIES,
    "securityContext": POD_CONTEXTS,
    "dnsConfig": [{"searches": ["a.b"]}],
    "hostIPC": [True, False],
    "hostPID": [True],
    "hostUsers": [False, True],
    "hostnameOverride": ["h"],
    "nodeName": ["n"],
    "os": [{"name": "linux"}],
    "priority": [0, 5],
    "resourceClaims": [[{"name": "g", "resourceClaimTemplateName": "t"}, {"name": "h", "resourceClaimName": "c"}]],
    "runtimeClassName": ["golden-none"],
    "serviceAccount": ["old"],
    "setHostnameAsFQDN": [True, False],
    "schedulingGroup": [{"podGroupName": "g"}],
    "topologySpreadConstraints": [
        [
            {
                "maxSkew": 2,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": SELECTOR,
                "matchLabelKeys": ["version"],
                "minDomains": 1,
                "nodeAffinityPolicy": "Honor",
                "nodeTaintsPolicy": "Ignore",
            }
        ]
    ],
}
JOB: Table = {
    "managedBy": ["kueue.x-k8s.io/multikueue"],
    "manualSelector": [True, False],
    "maxFailedIndexes": [0],
    "selector": [{"matchLabels": {"a": "b"}}],
    "successPolicy": [{"rules": [{"succeededCount": 1, "succeededIndexes": "0-1"}]}],
    "podFailurePolicy": [{"rules": [{"action": "Count", "onPodConditions": [{"type": "X", "status": "False"}]}]}],
}
JOBSET: Table = {
    "failurePolicy": [
        {"maxRestarts": 0, "rules": [{"action": "RestartJobSet", "onJobFailureMessagePatterns": ["^x.*", ""]}]},
        {"restartStrategy": "Recreate", "rules": [{"action": "FailJobSet", "onJobFailureReasons": ["Of", "x"]}]},
    ],
    "coordinator": [{"replicatedJob": "node"}, {"replicatedJob": "nobody"}, {"replicatedJob": "node", "podIndex": 9}],
    "network": [{"subdomain": "sub"}, {"subdomain": "A_b"}, {"enableDNSHostnames": True, "subdomain": ""}],
    "managedBy": ["a.b/c"],
}
METADATA: Table = {
    "name": ["named"],
    "namespace": ["elsewhere"],
    "finalizers": [["a.b/c"], ["a.b/d", "a.b/c"]],
    "labels": [{"app.kubernetes.io/name": "x", "tier": ""}],
    "annotations": [{"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}, {"note": "", "é": "ü"}],
}
