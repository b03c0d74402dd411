"""
Whatever the body of a write is, the server answers with what is wrong with it, never with a failure of its own.

Valid objects of each kind are changed in one place to something that does not belong there; the places and values are
drawn with a fixed seed. Server-side apply answers 500 where a real server does: for what does not fit the schema.
"""

import copy
import json
import random

import pytest

from ktrain.api import assets
from ktrain.framework.env import system_env
from ktrain.local.server import make_server
from ktrain.pipeline.registry import Registry

WRONG = (
    None, "", [], {}, 0, -1, 2**63, 1e308, 1.5, True, "x" * 300, "../../x", [None], {"a": None}, {"": ""}, "\0",
    ["a", "a"], [[]], [{}], "²", "9" * 5000, "a/b/c",
)  # fmt: skip
TRIES = 60

POD_SPEC = {
    "restartPolicy": "Never",
    "volumes": [
        {"name": "v", "emptyDir": {"sizeLimit": "1Gi"}},
        {
            "name": "w",
            "projected": {
                "sources": [{"downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}]}}]
            },
        },
    ],
    "tolerations": [{"key": "k", "effect": "NoExecute"}],
    "schedulingGates": [{"name": "example.com/g"}],
    "initContainers": [{"name": "i", "image": "i", "restartPolicy": "Always"}],
    "containers": [
        {
            "name": "c",
            "image": "i",
            "command": ["a"],
            "env": [
                {"name": "A", "value": "b"},
                {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            ],
            "ports": [{"containerPort": 1}],
            "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}},
            "volumeMounts": [{"name": "v", "mountPath": "/x"}],
            "readinessProbe": {"httpGet": {"path": "/", "port": 1}},
            "lifecycle": {"preStop": {"httpGet": {"port": 1}}},
        }
    ],
}
METADATA = {
    "name": "x",
    "labels": {"a": "b"},
    "annotations": {"a": "b"},
    "finalizers": ["a.b/c"],
    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}],
}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": POD_SPEC}
JOB_SPEC = {
    "completions": 2,
    "parallelism": 1,
    "completionMode": "Indexed",
    "backoffLimit": 1,
    "podFailurePolicy": {
        "rules": [
            {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}},
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
        ]
    },
    "successPolicy": {"rules": [{"succeededIndexes": "0", "succeededCount": 1}]},
    "template": TEMPLATE,
}
INDEXED = {"completions": 1, "parallelism": 1, "completionMode": "Indexed", "template": TEMPLATE}
JOBSET_SPEC = {
    "network": {"enableDNSHostnames": True, "subdomain": "s"},
    "failurePolicy": {
        "maxRestarts": 1,
        "rules": [
            {
                "name": "r",
                "action": "FailJobSet",
                "onJobFailureReasons": ["BackoffLimitExceeded"],
                "targetReplicatedJobs": ["n"],
            }
        ],
    },
    "successPolicy": {"operator": "All", "targetReplicatedJobs": ["n"]},
    "coordinator": {"replicatedJob": "n", "jobIndex": 0, "podIndex": 0},
    "startupPolicy": {"startupPolicyOrder": "InOrder"},
    "replicatedJobs": [{"name": "n", "replicas": 1, "groupName": "g", "template": {"spec": INDEXED}}],
}
PATCHES = [{"manager": "a.b/c", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [{"name": "node"}]}}}}]
TRAIN_JOB_SPEC = {
    "runtimeRef": {"name": "plain", "kind": "ClusterTrainingRuntime", "apiGroup": "trainer.kubeflow.org"},
    "suspend": False,
    "trainer": {"image": "i", "command": ["a"], "numNodes": 2, "env": [{"name": "A", "value": "b"}]},
    "runtimePatches": PATCHES,
}
RUNTIME_SPEC = {
    "mlPolicy": {"numNodes": 1, "torch": {"numProcPerNode": 1}},
    "template": {
        "spec": {
            "replicatedJobs": [
                {
                    "name": "node",
                    "template": {
                        "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                        "spec": {"template": {"spec": {"containers": [{**POD_SPEC["containers"][0], "name": "node"}]}}},
                    },
                }
            ]
        }
    },
}
DEFINITION_SPEC = {
    "group": "ex.test",
    "scope": "Namespaced",
    "names": {
        "plural": "widgets",
        "singular": "widget",
        "kind": "Widget",
        "listKind": "WidgetList",
        "shortNames": ["w"],
    },
    "versions": [
        {
            "name": "v1",
            "served": True,
            "storage": True,
            "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.a", "statusReplicasPath": ".status.a"}},
            "additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ".spec.a"}],
            "selectableFields": [{"jsonPath": ".spec.b"}],
            "schema": {
                "openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {
                            "type": "object",
                            "required": ["a"],
                            "properties": {
                                "a": {"type": "integer", "minimum": 0},
                                "b": {"type": "string", "enum": ["b"]},
                            },
                            "x-kubernetes-validations": [{"rule": "self.a > 0", "message": "no"}],
                        }
                    },
                }
            },
        }
    ],
}
OBJECTS = {
    "/api/v1/namespaces/default/pods": ("v1", "Pod", {"spec": POD_SPEC}),
    "/api/v1/namespaces/default/configmaps": ("v1", "ConfigMap", {"data": {"a": "b"}, "binaryData": {"x": "YQ=="}}),
    "/api/v1/namespaces/default/secrets": ("v1", "Secret", {"stringData": {"a": "b"}, "data": {"x": "YQ=="}}),
    "/api/v1/namespaces/default/services": (
        "v1",
        "Service",
        {"spec": {"clusterIP": "None", "selector": {"a": "b"}, "ports": [{"port": 1, "targetPort": "a"}]}},
    ),
    "/apis/batch/v1/namespaces/default/jobs": ("batch/v1", "Job", {"spec": JOB_SPEC}),
    "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets": (
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        {"spec": JOBSET_SPEC},
    ),
    "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs": (
        "trainer.kubeflow.org/v1alpha1",
        "TrainJob",
        {"spec": TRAIN_JOB_SPEC},
    ),
    "/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes": (
        "trainer.kubeflow.org/v1alpha1",
        "ClusterTrainingRuntime",
        {"spec": RUNTIME_SPEC},
    ),
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": (
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        {"metadata": {"name": "widgets.ex.test"}, "spec": DEFINITION_SPEC},
    ),
}


def places(value, path=()):
    """All paths in a document."""
    yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in entries:
        yield from places(below, (*path, key))


def changed(document, path, value):
    if not path:
        return value
    document = copy.deepcopy(document)
    parent = document
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    return document


@pytest.fixture
async def send():
    server = make_server(system_env(), Registry.load())
    transport = server.transport()

    async def send(method, path, body, content_type="application/json", **query):
        answer = await transport.request(
            method,
            path,
            query=list(query.items()),
            headers={"Content-Type": content_type},
            body=json.dumps(body).encode(),
        )
        return answer.status, answer.body

    for file in assets.runtime_files():
        path = f"/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes/{file.stem}"
        answer = await transport.request(
            "PATCH",
            path,
            query=[("fieldManager", "f")],
            headers={"Content-Type": "application/apply-patch+yaml"},
            body=file.read_bytes(),
        )
        assert answer.status == 201, answer
    return send


TOLD_BY_500 = ("application/strategic-merge-patch+json", "application/apply-patch+yaml")


@pytest.mark.parametrize("url", OBJECTS)
async def test_a_mistyped_body_never_makes_a_server_error(send, url):
    api_version, kind, rest = OBJECTS[url]
    valid = {"apiVersion": api_version, "kind": kind, "metadata": METADATA, **rest}
    name = valid["metadata"]["name"]
    status, answer = await send("POST", url, valid)
    assert status == 201, answer
    changes = [(path, value) for path in places(valid) for value in WRONG]
    failures = []
    for path, value in random.Random(url).sample(changes, min(TRIES, len(changes))):
        body = changed(valid, path, value)
        attempts = (
            ("POST", url, "application/json"),
            ("PUT", f"{url}/{name}", "application/json"),
            ("PUT", f"{url}/{name}/status", "application/json"),
            ("PATCH", f"{url}/{name}", "application/merge-patch+json"),
            ("PATCH", f"{url}/{name}", "application/strategic-merge-patch+json"),
            ("PATCH", f"{url}/{name}", "application/apply-patch+yaml"),
        )
        for method, target, content_type in attempts:
            status, answer = await send(method, target, body, content_type, dryRun="All", fieldManager="f")
            # Of a patch that cannot be laid over the object upstream says so with 500, in the patch's own words.
            is_ours = status >= 500 and content_type not in TOLD_BY_500
            if b"Internal error occurred" in answer or is_ours:
                failures.append((method, content_type, path, str(value)[:20], answer[-150:]))
    assert not failures
