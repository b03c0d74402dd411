"""What may stand in the fields of containers, pods, Jobs and JobSets that a runtime's template has."""

from __future__ import annotations

from typing import Any

Table = dict[str, list[Any]]

QUANTITIES: dict[str, list[Any]] = {
    "cpu": ["1", "500m", "2500m", "1.5", 2, "0.1", "3k", "100u"],
    "memory": ["1Gi", "0.5Gi", "1e9", "129M", "1048576Ki", 4096, "1.5Ki"],
    "ephemeral-storage": ["1G", "2000M"],
    "example.com/foo": ["1", "2k"],
    "hugepages-2Mi": ["4Mi"],
}
GPUS = ["nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915"]
DEVICES = ["nvidia.com/mig-1g.5gb", "google.com/tpu", "example.com/GPUs"]

SOURCES: list[Any] = [
    {"fieldRef": {"fieldPath": "metadata.name"}},
    {"fieldRef": {"fieldPath": "status.podIP", "apiVersion": "v1"}},
    {"secretKeyRef": {"name": "s", "key": "k"}},
    {"secretKeyRef": {"name": "s", "key": "k", "optional": True}},
    {"configMapKeyRef": {"name": "c", "key": "k", "optional": False}},
    {"resourceFieldRef": {"resource": "limits.cpu"}},
    {"resourceFieldRef": {"resource": "requests.memory", "divisor": "1Mi", "containerName": "node"}},
]
NAMES = ["A", "B", "LR", "STORAGE_URI", "FLUX_QUEUE_POLICY", "JAX_PROCESS_ID", "MY_VAR", "a.b-c"]
RESERVED = ["PET_NNODES", "PET_MASTER_ADDR", "DMLC_TASK_ID", "DMLC_NUM_WORKER", "OMPI_MCA_plm_rsh_args"]
VALUES = ["", "1", "x y", "$(A)", "true", "0", "é", "a=b"]

TOLERATIONS: list[Any] = [
    {"key": "gpu", "operator": "Exists"},
    {"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute", "tolerationSeconds": 30},
    {"operator": "Exists"},
    {"key": "z", "value": "y", "effect": "NoSchedule"},
]
TERM = {"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["a", "b"]}]}
AFFINITIES: list[Any] = [
    {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]}}},
    {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 2, "preference": TERM}]}},
    {
        "podAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 3, "podAffinityTerm": {"topologyKey": "rack", "labelSelector": {"matchLabels": {"a": "b"}}}}
            ]
        }
    },
    {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "host"}]}},
]
VOLUMES: list[Any] = [
    {"name": "data", "emptyDir": {}},
    {"name": "data", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
    {"name": "tmp", "hostPath": {"path": "/x", "type": "Directory"}},
    {"name": "conf", "configMap": {"name": "c", "items": [{"key": "k", "path": "p", "mode": 256}], "optional": True}},
    {"name": "key", "secret": {"secretName": "s", "defaultMode": 420}},
    {"name": "claim", "persistentVolumeClaim": {"claimName": "p", "readOnly": True}},
    {"name": "initializer", "persistentVolumeClaim": {"claimName": "i"}},
    {
        "name": "mix",
        "projected": {
            "sources": [
                {"secret": {"name": "s"}},
                {"serviceAccountToken": {"path": "t", "expirationSeconds": 600}},
                {"downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
            ]
        },
    },
    {"name": "flux-curve", "emptyDir": {}},
    {"name": "mpi-ssh-auth", "emptyDir": {}},
]
MOUNTS: list[Any] = [
    {"name": "data", "mountPath": "/data"},
    {"name": "data", "mountPath": "/data", "readOnly": True, "subPath": "s"},
    {"name": "tmp", "mountPath": "/tmp"},
    {"name": "conf", "mountPath": "/root/.ssh"},
    {"name": "key", "mountPath": "/etc/mpi"},
    {"name": "initializer", "mountPath": "/workspace"},
    {"name": "data", "mountPath": "/dev/shm"},
]
PORTS: list[Any] = [
    {"name": "http", "containerPort": 80},
    {"name": "rdzv", "containerPort": 29500},
    {"name": "udp", "containerPort": 53, "protocol": "UDP", "hostPort": 53},
    {"containerPort": 29500},
]
CONTEXTS: list[Any] = [
    {"runAsUser": 0},
    {"privileged": False, "capabilities": {"add": ["SYS_PTRACE"], "drop": ["ALL"]}},
    {"runAsNonRoot": True, "runAsUser": 5, "seccompProfile": {"type": "RuntimeDefault"}},
    {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "procMount": "Default"},
]
POD_CONTEXTS: list[Any] = [
    {"fsGroup": 1, "supplementalGroups": [3, 4]},
    {"runAsUser": 2, "sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}]},
    {"runAsNonRoot": True, "fsGroupChangePolicy": "OnRootMismatch", "seLinuxOptions": {"level": "s0"}},
]
PROBES: list[Any] = [
    {"exec": {"command": ["true"]}, "initialDelaySeconds": 5},
    {"tcpSocket": {"port": 2222}, "periodSeconds": 3, "failureThreshold": 0},
    {"httpGet": {"path": "/", "port": "http", "httpHeaders": [{"name": "A", "value": ""}]}, "timeoutSeconds": 0},
    {"grpc": {"port": 9, "service": ""}},
]
CONTAINER: Table = {
    "command": [[], ["python"], ["tune", "run"], ["sh", "-c", "x && y"], ["mpirun", "-n", "2"]],
    "args": [[], ["a.py", "--lr=1"], [""], ["output_dir=/o"]],
    "workingDir": ["/w", ""],
    "envFrom": [[{"secretRef": {"name": "s"}}], [{"prefix": "P_", "configMapRef": {"name": "c", "optional": True}}]],
    "securityContext": CONTEXTS,
    "livenessProbe": PROBES,
    "readinessProbe": PROBES,
    "startupProbe": PROBES,
    "lifecycle": [{"preStop": {"sleep": {"seconds": 1}}}, {"postStart": {"exec": {"command": ["x"]}}}],
    "imagePullPolicy": ["Always", "IfNotPresent", ""],
    "terminationMessagePolicy": ["FallbackToLogsOnError"],
    "tty": [True, False],
    "stdin": [True],
    "resizePolicy": [[{"resourceName": "cpu", "restartPolicy": "NotRequired"}]],
}
POD: Table = {
    "nodeSelector": [{"zone": "a", "pool": "x"}, {"pool": ""}, {}],
    "tolerations": [TOLERATIONS[:1], TOLERATIONS[1:3], []],
    "affinity": [*AFFINITIES, {}],
    "schedulingGates": [[{"name": "acme.io/a"}], [{"name": "acme.io/a"}, {"name": "acme.io/b"}]],
    "serviceAccountName": ["default", ""],
    "imagePullSecrets": [[{"name": "one"}, {"name": "two"}], [{"name": "two"}]],
    "securityContext": POD_CONTEXTS,
    "terminationGracePeriodSeconds": [0, 10],
    "restartPolicy": ["Never", "OnFailure"],
    "schedulerName": ["default-scheduler", "volcano"],
    "priorityClassName": ["", "system-node-critical", "golden-none"],
    "hostNetwork": [True, False],
    "dnsPolicy": ["ClusterFirst", "Default"],
    "dnsConfig": [{"nameservers": ["10.0.0.1"], "options": [{"name": "ndots", "value": ""}, {"name": "edns0"}]}],
    "hostAliases": [[{"ip": "1.2.3.4", "hostnames": ["a"]}]],
    "shareProcessNamespace": [True, False],
    "automountServiceAccountToken": [False],
    "enableServiceLinks": [False, True],
    "activeDeadlineSeconds": [5000],
    "preemptionPolicy": ["Never"],
    "overhead": [{"cpu": "250m", "memory": "120Mi"}],
    "topologySpreadConstraints": [
        [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}]
    ],
    "resources": [{"requests": {"cpu": "4"}, "limits": {"memory": "8Gi"}}],
    "readinessGates": [[{"conditionType": "a.b/c"}]],
    "subdomain": ["s"],
    "hostname": ["h"],
}
JOB: Table = {
    "parallelism": [0, 1, 2, 3],
    "completions": [1, 4],
    "backoffLimit": [0, 3],
    "completionMode": ["Indexed", "NonIndexed"],
    "activeDeadlineSeconds": [100000],
    "ttlSecondsAfterFinished": [10000],
    "suspend": [True, False],
    "podReplacementPolicy": ["Failed"],
    "backoffLimitPerIndex": [1],
    "successPolicy": [{"rules": [{"succeededIndexes": "0"}]}],
    "podFailurePolicy": [
        {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1], "containerName": "node"}}]},
        {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]},
    ],
}
JOBSET: Table = {
    "network": [{}, {"enableDNSHostnames": False}, {"publishNotReadyAddresses": True}],
    "successPolicy": [{"operator": "Any"}, {"operator": "All", "targetReplicatedJobs": ["node"]}],
    "failurePolicy": [
        {},
        {"maxRestarts": 2},
        {"maxRestarts": 1, "restartStrategy": "BlockingRecreate"},
        {"rules": [{"name": "r", "action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}]},
        {
            "maxRestarts": 3,
            "rules": [{"action": "RestartJobSetAndIgnoreMaxRestarts", "targetReplicatedJobs": ["node"]}],
        },
    ],
    "startupPolicy": [{"startupPolicyOrder": "InOrder"}, {"startupPolicyOrder": "AnyOrder"}],
    "coordinator": [{"replicatedJob": "node", "jobIndex": 0, "podIndex": 0}],
    "managedBy": ["jobset.sigs.k8s.io/jobset-controller"],
    "ttlSecondsAfterFinished": [0, 10000],
    "suspend": [True, False],
    "volumeClaimPolicies": [
        [
            {
                "templates": [
                    {
                        "metadata": {"name": "initializer"},
                        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1.5Gi"}}},
                    }
                ],
                "retentionPolicy": {"whenDeleted": "Retain"},
            }
        ]
    ],
}
METADATA: Table = {
    "labels": [{"tier": "gold"}, {"a.b/c": ""}, {}],
    "annotations": [{"note": "x y"}, {"scheduling.volcano.sh/queue-name": "q1"}, {}],
}
