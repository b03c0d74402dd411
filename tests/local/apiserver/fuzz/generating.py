"""Objects that nobody wrote: by the schemas of all kinds, and ordinary ones of our own that something befell."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

from ktrain.api import assets
from ktrain.api.documents import load

if TYPE_CHECKING:
    import random

    from ktrain.api.schema.node import Node
    from ktrain.local.apiserver.registry import ServedResource

MAX_LEVELS = 9
NAMES = tuple(f"o{number}" for number in range(6))
"""Few, so that writes meet."""
TEXTS = (
    *("", "a", "default", "true", "x" * 64, "x" * 300, "a b", "a.b/c", "A_b", "é", "\0", "\U0001f600", "..", "../../x"),
    *("100m", "1Gi", "-1", "1e3", "10%", "0", "80", "$(HOME)", "o0", "o1", "kubernetes.io/x", "Always", "Never", "TCP"),
    *("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000000Z", "not a date", "10.0.0.1", "::1", "*", "pods", "get", "{}"),
    *("v1", "batch/v1", "ConfigMap", "Pod", "self.x > 1", "dGV4dA==", "https://127.0.0.1:1/x"),
)
NUMBERS = (0, 1, 2, 3, 5, 80, -1, 600, 65536, 2**31 - 1, 2**31, 2**53, 2**63 - 1, 1.0, 0.5, -1.5)
JUNK: tuple[Any, ...] = (None, True, False, [], {}, [None], [[]], [{}], {"": ""}, {"a": {"b": [1]}}, *TEXTS, *NUMBERS)


_SCALARS = {
    "string": TEXTS,
    "integer": NUMBERS,
    "number": NUMBERS,
    "boolean": (True, False),
    "int-or-string": (*NUMBERS, *TEXTS),
}


def junk(rng: random.Random) -> Any:
    return copy.deepcopy(rng.choice(JUNK))


def value(rng: random.Random, node: Node, level: int = 0) -> Any:
    """A value that mostly fits its schema."""
    if rng.random() < 0.02:
        return junk(rng)
    if node.enum and rng.random() < 0.9:
        return rng.choice(node.enum)
    if node.type == "object":
        return _object(rng, node, level)
    if node.type == "array":
        size = rng.choice((0, 1, 1, 2, 3)) if node.items is not None and level <= MAX_LEVELS else 0
        return [value(rng, node.items, level + 1) for _ in range(size)] if node.items else []
    return copy.deepcopy(rng.choice(_SCALARS.get(node.type, JUNK)))


def _object(rng: random.Random, node: Node, level: int) -> Any:
    if level > MAX_LEVELS:
        return {}
    chance = 0.5 / (level + 1)
    wanted = [name for name in node.properties if name in node.required or rng.random() < chance]
    made = {name: value(rng, node.properties[name], level + 1) for name in wanted}
    if node.additional is not None:
        made |= {rng.choice(TEXTS): value(rng, node.additional, level + 1) for _ in range(rng.randrange(3))}
    if rng.random() < 0.02 or node.preserve_unknown:
        made[rng.choice(TEXTS)] = junk(rng)
    return made


def from_schema(rng: random.Random, resource: ServedResource) -> Any:
    """An object of a kind, by its schema."""
    made = _object(rng, resource.schema.root, 0)
    return named(rng, made, resource)


def named(rng: random.Random, obj: Any, resource: ServedResource) -> Any:
    """The object with metadata that has a chance."""
    if not isinstance(obj, dict):
        return obj
    meta = obj.get("metadata") if rng.random() < 0.2 and isinstance(obj.get("metadata"), dict) else {}
    meta = {**meta, "name": rng.choice(NAMES)}
    if rng.random() < 0.3:
        meta["labels"] = {"l": rng.choice(("x", "y"))}
    if rng.random() < 0.1:
        meta["finalizers"] = ["example.com/f"]
    if rng.random() < 0.05:
        meta[rng.choice(("ownerReferences", "managedFields", "annotations", "generateName", "uid"))] = junk(rng)
    return {**obj, "kind": resource.kind, "apiVersion": resource.api_version, "metadata": meta}


def mutated(rng: random.Random, obj: Any, count: int = 3) -> Any:
    """The object after some accidents."""
    obj = copy.deepcopy(obj)
    for _ in range(rng.randint(1, count)):
        places = list(_places(obj))
        if not places:
            break
        container, key = rng.choice(places)
        match rng.randrange(6):
            case 0:
                del container[key]
            case 1:
                container[key] = junk(rng)
            case 2:
                other, name = rng.choice(places)
                if name in other if isinstance(other, dict) else name < len(other):
                    container[key] = copy.deepcopy(other[name])
            case 3 if isinstance(container, list):
                container.append(copy.deepcopy(container[key]))
            case 4 if isinstance(container, dict):
                container[rng.choice(TEXTS)] = container[key]
            case _:
                container[key] = rng.choice(([container[key]], {"a": container[key]}, None))
    return obj


def _places(value: Any) -> Any:
    """All (container, key) of a value."""
    for key, child in list(value.items()) if isinstance(value, dict) else list(enumerate(value)):
        yield value, key
        if isinstance(child, dict | list):
            yield from _places(child)


def ordinary() -> list[Any]:
    """Objects of our own, as people write them."""
    container = {"name": "c", "image": "i", "command": ["true"], "env": [{"name": "A", "value": "1"}]}
    container |= {"ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}
    container |= {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    pod = {"restartPolicy": "Never", "containers": [container], "volumes": [{"name": "v", "emptyDir": {}}]}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod}
    job = {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimit": 1, "template": template}
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"n": {"type": "integer"}}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "gadgets", "kind": "Gadget"}
    jobset = {"replicatedJobs": [{"name": "r", "replicas": 2, "template": {"spec": job}}]}
    objects = [
        ("v1", "ConfigMap", {"data": {"k": "v"}, "binaryData": {"b": "AA=="}}),
        ("v1", "Secret", {"stringData": {"k": "v"}, "type": "Opaque"}),
        ("v1", "Pod", {"spec": pod}),
        ("v1", "Service", {"spec": {"selector": {"a": "b"}, "ports": [{"port": 80, "targetPort": "http"}]}}),
        ("v1", "Namespace", {}),
        ("v1", "Event", {"involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}, "reason": "R"}),
        ("batch/v1", "Job", {"spec": job}),
        ("coordination.k8s.io/v1", "Lease", {"spec": {"holderIdentity": "h", "leaseDurationSeconds": 15}}),
        ("rbac.authorization.k8s.io/v1", "Role", {"rules": [rule]}),
        (
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            {"spec": {"group": "ex.test", "scope": "Namespaced", "names": names, "versions": [version]}},
        ),
        ("jobset.x-k8s.io/v1alpha2", "JobSet", {"spec": jobset}),
        ("trainer.kubeflow.org/v1alpha1", "TrainJob", {"spec": {"runtimeRef": {"name": "plain"}}}),
    ]
    made: list[Any] = [{"apiVersion": version, "kind": kind, "metadata": {}, **body} for version, kind, body in objects]
    made += [json.loads(json.dumps(document.object)) for document in load(assets.runtime_files())]
    return made
