"""What runtime patches make of a template, and when they may change."""

from typing import Any

from ..objects import Json, container, create, env, job, patch, patched, rjob, runtime

NODE_AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]
        }
    }
}
POD_AFFINITY = {
    "podAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 3, "podAffinityTerm": {"topologyKey": "rack", "labelSelector": {"matchLabels": {"a": "b"}}}}
        ]
    }
}


def rich() -> Json:
    """A runtime that has something of all that can be patched."""
    main = container(
        env=env(A="1", B="2", C="3"),
        volumeMounts=[{"name": "data", "mountPath": "/data", "readOnly": True}, {"name": "tmp", "mountPath": "/tmp"}],
        securityContext={"runAsUser": 5, "capabilities": {"add": ["SYS_PTRACE"]}},
    )
    pod: Json = {
        "initContainers": [container("first", env=env(A="1")), container("second", env=env(B="1"))],
        "volumes": [{"name": "data", "emptyDir": {"sizeLimit": "1Gi"}}, {"name": "tmp", "emptyDir": {}}],
        "serviceAccountName": "runtime",
        "imagePullSecrets": [{"name": "one"}, {"name": "two"}],
        "schedulingGates": [{"name": "acme.io/first"}],
        "nodeSelector": {"zone": "a", "pool": "x"},
        "tolerations": [{"key": "old", "operator": "Exists"}],
        "securityContext": {
            "fsGroup": 1,
            "runAsUser": 2,
            "supplementalGroups": [3, 4],
            "sysctls": [{"name": "a", "value": "1"}],
        },
        "terminationGracePeriodSeconds": 10,
        "affinity": NODE_AFFINITY,
    }
    node = rjob(
        "node",
        main,
        container("side", env=env(S="1")),
        pod=pod,
        meta={"labels": {"l": "1"}, "annotations": {"a": "1"}},
        pod_meta={"labels": {"p": "1"}},
    )
    return runtime(
        "rt",
        rjob("data", container("data", env=env(D="1"))),
        node,
        meta={"labels": {"tier": "gold"}, "annotations": {"note": "runtime"}},
    )


def patched_job(name: str, *patches: Json, **spec: Any) -> Json:
    return job(name, suspend=True, runtimePatches=list(patches), **spec)


def one(name: str, **pod: Any) -> Json:
    """A suspended job with one patch of the node's pods."""
    return patched_job(name, patch("acme.io/ops", patched(**pod)))


CASES = {
    "patch-each-pod-field": [
        create(
            rich(),
            one("account", serviceAccountName="own"),
            one(
                "volumes",
                volumes=[
                    {"name": "new", "secret": {"secretName": "s"}},
                    {"name": "tmp", "emptyDir": {"medium": "Memory"}},
                ],
            ),
            one("secrets", imagePullSecrets=[{"name": "three"}, {"name": "two"}]),
            one("gates", schedulingGates=[{"name": "acme.io/second"}, {"name": "acme.io/first"}]),
            one("selector", nodeSelector={"pool": "y", "new": ""}),
            one(
                "tolerations",
                tolerations=[
                    {"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute", "tolerationSeconds": 30}
                ],
            ),
            one("no-tolerations", tolerations=[], nodeSelector={}, volumes=[]),
            one(
                "context",
                securityContext={
                    "fsGroup": 9,
                    "supplementalGroups": [7],
                    "runAsNonRoot": True,
                    "sysctls": [{"name": "b", "value": "2"}],
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
            ),
            one("grace", terminationGracePeriodSeconds=0),
            one("affinity", affinity=POD_AFFINITY),
            one(
                "other-affinity",
                affinity={
                    "nodeAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "weight": 1,
                                "preference": {
                                    "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]
                                },
                            }
                        ]
                    }
                },
            ),
        )
    ],
    "patch-each-container-field": [
        create(
            rich(),
            one(
                "side-env",
                containers=[
                    {
                        "name": "side",
                        "env": [
                            *env(NEW="1", S="2"),
                            {"name": "F", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                        ],
                    }
                ],
            ),
            one(
                "init-env",
                initContainers=[{"name": "second", "env": env(B="", X="x")}, {"name": "first", "env": env(A="2")}],
            ),
            one(
                "mounts",
                containers=[
                    {
                        "name": "node",
                        "volumeMounts": [
                            {"name": "tmp", "mountPath": "/data"},
                            {"name": "data", "mountPath": "/more", "subPath": "s"},
                        ],
                    }
                ],
            ),
            one(
                "contexts",
                containers=[
                    {
                        "name": "node",
                        "securityContext": {"runAsUser": 7, "privileged": False, "capabilities": {"drop": ["ALL"]}},
                    },
                    {"name": "side", "securityContext": {"readOnlyRootFilesystem": True}},
                ],
            ),
            one("order", containers=[{"name": "side"}, {"name": "node"}]),
            one("empty-env", containers=[{"name": "node", "env": []}]),
        )
    ],
    "patch-metadata-everywhere": [
        create(
            rich(),
            patched_job(
                "job",
                patch(
                    "a.io/one",
                    patched(
                        "node",
                        meta={"labels": {"l": "2"}, "annotations": {"b": "2"}},
                        pod_meta={"labels": {"q": "1"}, "annotations": {"x": "y"}},
                    ),
                    metadata={"labels": {"tier": "silver", "new": "l"}, "annotations": {"note": "one"}},
                ),
                patch(
                    "b.io/two",
                    patched("data", pod_meta={"labels": {"d": "1"}}),
                    patched("node", pod_meta={"labels": {"q": "2", "p": "9"}}),
                    metadata={"labels": {"tier": "bronze"}},
                ),
                patch("c.io/three", metadata={"annotations": {"only": "three"}}),
                meta={"labels": {"own": "label"}, "annotations": {"own": "annotation"}},
            ),
            patched_job(
                "names",
                patch(
                    "a.io/x",
                    patched(
                        "node",
                        meta={"name": "m", "finalizers": ["acme.io/f"]},
                        pod_meta={"name": "n", "namespace": "other"},
                    ),
                    metadata={"name": "x", "finalizers": ["acme.io/g"]},
                ),
            ),
        )
    ],
    "patch-order-of-managers": [
        create(
            rich(),
            patched_job(
                "job",
                patch(
                    "z.io/first",
                    patched(
                        nodeSelector={"pool": "1", "a": "1"},
                        serviceAccountName="one",
                        containers=[{"name": "side", "env": env(S="one", T="one")}],
                    ),
                ),
                {"manager": "m.io/empty"},
                {"manager": "m.io/nothing", "trainingRuntimeSpec": {"template": {"spec": {}}}},
                patch(
                    "a.io/last",
                    patched(
                        nodeSelector={"pool": "2"},
                        tolerations=[{"key": "n"}],
                        containers=[{"name": "side", "env": env(T="two", U="two")}],
                    ),
                ),
                trainer={"numNodes": 2, "env": env(A="own")},
            ),
        )
    ],
    "patch-volumes-both": [
        create(rich(), one("job", volumes=[{"name": "data", "configMap": {"name": "c"}}])),
    ],
    "patch-quantities": [
        create(
            rich(),
            one(
                "job",
                volumes=[
                    {"name": "s", "emptyDir": {"sizeLimit": "1024Mi"}},
                    {
                        "name": "e",
                        "ephemeral": {
                            "volumeClaimTemplate": {
                                "spec": {
                                    "accessModes": ["ReadWriteOnce"],
                                    "resources": {"requests": {"storage": "0.5Ti"}},
                                }
                            }
                        },
                    },
                ],
            ),
        ),
    ],
}
