"""What of a runtime's template passes through, and how: all that is empty, zero, false or spelled in an unusual way."""

from typing import Any

from ..objects import Json, change, container, create, drive, env, job, rjob, runtime

PODS: dict[str, Json] = {
    "empties": {
        "hostNetwork": False,
        "nodeSelector": {},
        "tolerations": [],
        "affinity": {},
        "volumes": [],
        "imagePullSecrets": [],
        "hostAliases": [],
        "securityContext": {},
        "serviceAccountName": "",
        "nodeName": "",
        "hostname": "",
        "priorityClassName": "",
        "schedulerName": "",
        "overhead": {},
        "topologySpreadConstraints": [],
        "readinessGates": [],
        "initContainers": [],
        "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Never",
    },
    "pointers": {
        "shareProcessNamespace": False,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "activeDeadlineSeconds": 5,
        "terminationGracePeriodSeconds": 0,
        "hostUsers": True,
        "setHostnameAsFQDN": False,
        "preemptionPolicy": "Never",
        "runtimeClassName": "golden-none",
    },
    "placement": {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {},
                "matchLabelKeys": [],
            }
        ],
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "host", "namespaceSelector": {}, "namespaces": []}
                ]
            },
            "nodeAffinity": {},
        },
        "tolerations": [{"operator": "Exists", "key": "", "tolerationSeconds": 0, "effect": "NoExecute"}, {}],
        "dnsConfig": {
            "nameservers": ["10.0.0.1"],
            "options": [{"name": "ndots", "value": ""}, {"name": "edns0"}],
            "searches": [],
        },
        "hostAliases": [{"ip": "1.2.3.4", "hostnames": ["a"]}],
    },
    "volumes": {
        "volumes": [
            {"name": "m", "emptyDir": {"medium": "", "sizeLimit": "1024Mi"}},
            {"name": "n"},
            {"name": "c", "configMap": {"name": "c", "items": [], "defaultMode": 0, "optional": False}},
            {
                "name": "p",
                "projected": {
                    "sources": [
                        {"secret": {"name": "s"}},
                        {
                            "downwardAPI": {
                                "items": [
                                    {"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}},
                                    {
                                        "path": "r",
                                        "resourceFieldRef": {"resource": "limits.cpu", "containerName": "node"},
                                    },
                                ]
                            }
                        },
                        {"serviceAccountToken": {"path": "t", "expirationSeconds": 600}},
                    ]
                },
            },
            {"name": "h", "hostPath": {"path": "/x", "type": ""}},
            {
                "name": "e",
                "ephemeral": {
                    "volumeClaimTemplate": {
                        "metadata": {"labels": {"a": "b"}},
                        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "0.5Gi"}}},
                    }
                },
            },
            {"name": "v", "persistentVolumeClaim": {"claimName": "x", "readOnly": False}},
            {"name": "i", "csi": {"driver": "d", "readOnly": False, "volumeAttributes": {}}},
        ]
    },
    "claims": {
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}],
        "os": {"name": "linux"},
        "readinessGates": [{"conditionType": "a.b/c"}],
        "schedulingGates": [{"name": "a.b/g"}],
    },
}
CONTAINERS: dict[str, Json] = {
    "probes": {
        "livenessProbe": {
            "exec": {"command": []},
            "initialDelaySeconds": 0,
            "periodSeconds": 10,
            "failureThreshold": 0,
        },
        "readinessProbe": {
            "httpGet": {"path": "", "port": "http", "httpHeaders": [{"name": "A", "value": ""}]},
            "timeoutSeconds": 0,
        },
        "startupProbe": {"grpc": {"port": 9, "service": ""}, "terminationGracePeriodSeconds": 0},
        "lifecycle": {"preStop": {"sleep": {"seconds": 0}}, "postStart": {"tcpSocket": {"port": 80}}},
    },
    "ports": {
        "ports": [
            {"containerPort": 80, "name": "http", "hostPort": 0, "protocol": "TCP"},
            {"containerPort": 80, "name": "u", "protocol": "UDP"},
        ]
    },
    "mounts": {
        "volumeMounts": [
            {"name": "a", "mountPath": "/a", "readOnly": False, "subPath": "", "mountPropagation": "None"},
            {"name": "a", "mountPath": "/b", "subPathExpr": "$(X)", "recursiveReadOnly": "Disabled"},
        ],
        "volumeDevices": [],
    },
    "env": {
        "env": [
            {"name": "E", "value": ""},
            {"name": "N"},
            {"name": "S", "valueFrom": {"secretKeyRef": {"name": "", "key": "k"}}},
            {"name": "D", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1024Ki"}}},
        ],
        "envFrom": [{"prefix": "", "configMapRef": {"name": "c"}}, {"secretRef": {"name": "s", "optional": False}}],
    },
    "amounts": {
        "resources": {
            "limits": {"cpu": "0.1", "memory": "1e9", "example.com/a": "1k", "ephemeral-storage": "1.5G"},
            "requests": {"cpu": 0.05, "memory": 129, "example.com/a": "1k"},
            "claims": [],
        }
    },
    "flags": {
        "tty": False,
        "stdin": True,
        "stdinOnce": False,
        "workingDir": "",
        "imagePullPolicy": "",
        "terminationMessagePath": "",
        "terminationMessagePolicy": "File",
        "command": [],
        "args": ["", "x"],
        "resizePolicy": [],
        "securityContext": {"privileged": False, "runAsUser": 0, "capabilities": {}, "seLinuxOptions": {"level": ""}},
    },
}
JOBS: dict[str, Json] = {
    "numbers": {
        "backoffLimit": 0,
        "parallelism": 0,
        "completions": 4,
        "activeDeadlineSeconds": 1000,
        "suspend": False,
        "ttlSecondsAfterFinished": 0,
    },
    "policies": {
        "completionMode": "Indexed",
        "successPolicy": {"rules": [{"succeededIndexes": "0"}]},
        "podFailurePolicy": {
            "rules": [
                {
                    "action": "FailJob",
                    "onExitCodes": {"operator": "In", "values": [1], "containerName": "node"},
                    "onPodConditions": [],
                }
            ]
        },
    },
    "by-index": {"completionMode": "Indexed", "backoffLimitPerIndex": 1, "maxFailedIndexes": 0},
    "suspended": {
        "suspend": True,
        "manualSelector": False,
        "podReplacementPolicy": "Failed",
        "managedBy": "kubernetes.io/job-controller",
    },
}
JOBSETS: dict[str, Json] = {
    "empties": {"network": {}, "failurePolicy": {}, "ttlSecondsAfterFinished": 100},
    "policies": {
        "network": {"enableDNSHostnames": False, "subdomain": "", "publishNotReadyAddresses": False},
        "successPolicy": {"operator": "Any", "targetReplicatedJobs": []},
        "failurePolicy": {
            "maxRestarts": 0,
            "restartStrategy": "Recreate",
            "rules": [{"name": "r", "action": "FailJobSet", "onJobFailureReasons": [], "targetReplicatedJobs": []}],
        },
    },
    "startup": {
        "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
        "coordinator": {"replicatedJob": "node", "jobIndex": 0, "podIndex": 0},
        "managedBy": "jobset.sigs.k8s.io/jobset-controller",
    },
    "suspended": {"suspend": True},
}


def layouts(build: Any, table: dict[str, Json], *, suspend: bool = True) -> list[Json]:
    """A suspended job of a runtime for each row."""
    return [
        create(
            *(build(name, fields) for name, fields in table.items()),
            *(job(name, name, suspend=suspend, trainer={"env": env(A="1")}) for name in table),
        ),
        *(change(name, {"spec": {"suspend": False}}) for name in table if suspend),
    ]


CASES = {
    "layout-pods": layouts(lambda name, pod: runtime(name, rjob("node", pod=pod)), PODS),
    "layout-containers": layouts(
        lambda name, fields: runtime(
            name, rjob("node", container(**fields), pod={"volumes": [{"name": "a", "emptyDir": {}}]})
        ),
        CONTAINERS,
    ),
    "layout-jobs": layouts(
        lambda name, fields: runtime(
            name, rjob("other", container("x"), job=fields), rjob("node", job=fields, pod={"restartPolicy": "Never"})
        ),
        JOBS,
    ),
    "layout-jobsets": layouts(lambda name, fields: runtime(name, jobset=fields), JOBSETS, suspend=False),
    "layout-metadata": [
        create(
            runtime(
                "rt",
                rjob(
                    "node",
                    meta={"labels": {"l": ""}, "annotations": {"a": ""}, "name": "n", "finalizers": ["a.b/c"]},
                    pod_meta={"labels": {}, "annotations": {"b": "c"}, "name": "p"},
                ),
                meta={"labels": {"x": ""}, "annotations": {}, "name": "t"},
            ),
            job(suspend=True),
        ),
        change("job", {"spec": {"suspend": False}}),
    ],
    "layout-groups": [
        create(
            runtime(
                "rt",
                rjob("a", container("x"), replicas=2, groupName="g", job={"parallelism": 2}),
                rjob("b", container("x"), replicas=0),
                rjob("node", groupName="g", dependsOn=[{"name": "a", "status": "Ready"}]),
            ),
            job(trainer={"numNodes": 2}),
        ),
        drive(a="running"),
        drive(node="running"),
    ],
    "layout-two-jobs-one-runtime": [
        create(
            runtime("rt", rjob("node"), ml={"numNodes": 2, "torch": {}}),
            job("one", trainer={"numNodes": 1}),
            job("two"),
        ),
        drive(node="running"),
        change("one", {"spec": {"suspend": True}}),
    ],
}
