"""TrainJobs and runtimes made at random from the definitions: each pair is refused in words, or always the same."""

from __future__ import annotations

import copy
import random

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ktrain.api import assets
from ktrain.api import trainer as api
from ktrain.api.schema import Schema
from ktrain.pipeline import PlanError, Registry, plan, validate

from .conftest import Kit

NAMES = ["node", "launcher", "dataset-initializer", "model-initializer", "side", "initializer", "flux-installer"]
STRINGS = {
    "name": NAMES,
    "jobName": NAMES,
    "manager": ["a.io/x", "b.io/y", "x"],
    "managedBy": [api.MANAGED_BY],
    "kind": ["TrainingRuntime", "ClusterTrainingRuntime"],
    "apiGroup": [api.GROUP],
    "mpiImplementation": ["OpenMPI", "Intel", "MPICH", "", "else"],
    "variant": ["OpenMPI5", "Intel", "MPICH", "", "else"],
    "priorityClassName": ["", "high", "system-node-critical"],
    "storageUri": ["", "hf://a/b", "s3://c/d"],
    "time": ["2030-01-01T00:00:00Z"],
    "startupPolicyOrder": ["InOrder", "AnyOrder"],
}
WORDS = ["", "a", "tune", "run", "PET_NNODES", "model.quantize_base=true", "output_dir=/o", "$(X)", "é☃\n'\"", "a b"]
NUMBERS = [0, 1, 2, 3, 1000, 2**31 - 1, -1]
QUANTITIES = [0, 1, "2", "500m", "1Gi", "1e3", ".5", "9" * 40, "1E", "-1", "1e.5"]
DEEP = {
    *("affinity", "probe", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "securityContext"),
    *("topologySpreadConstraints", "podFailurePolicy", "ephemeralContainers", "os", "hostAliases", "volumeDevices"),
    *("projected", "volumeClaimPolicies", "managedFields", "iscsi", "rbd", "csi", "scaleIO", "azureDisk", "cephfs"),
}
"""What no plugin looks at, and costs most of the definitions."""
LIKELY = {"template", "spec", "containers", "replicatedJobs", "runtimeRef"}
OPEN = ("targetJobs", "targetJob", "initContainers", "nodeSelector", "volumes", "tolerations", "$patch")
"""Of what the definition leaves open, in the older shapes."""
UNIONS = {"torch", "mpi", "jax", "xgboost", "flux", "plugin", "coscheduling", "volcano", "workload"}


class Maker:
    """Makes values that fit a schema, mostly: some of the fields of each object, and now and then null for one."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def value(self, schema: dict, name: str = "", depth: int = 0):
        kind, choose = schema.get("type"), self.chance.choice
        if name in OPEN:
            made = choose([None, 0, "x", [], {}, [None], {"name": None}, ["node"], [{"name": "node"}], [{"env": []}]])
        elif schema.get("x-kubernetes-int-or-string"):
            made = choose(QUANTITIES)
        elif schema.get("enum"):
            made = choose(schema["enum"])
        elif kind == "object":
            made = self.object(schema, name, depth)
        elif kind == "array":
            made = self.array(schema, name, depth)
        elif kind == "integer":
            made = max(choose(NUMBERS), schema.get("minimum", -1))
        else:
            made = choose([True, False]) if kind == "boolean" else choose(STRINGS.get(name, WORDS))
        return made

    def array(self, schema: dict, name: str, depth: int) -> list:
        items = [self.value(schema["items"], name, depth + 1) for _ in range(self.chance.choice([0, 1, 1, 2, 3]))]
        if not (items and isinstance(items[0], dict)):
            return items
        keys = schema.get("x-kubernetes-list-map-keys") or ["name"]
        return list({tuple(str(item.get(key)) for key in keys): item for item in items}.values())

    def object(self, schema: dict, name: str, depth: int) -> dict:
        properties, required = schema.get("properties"), schema.get("required", ())
        if name in ("podSpecOverrides", "spec") and not properties:
            return {key: self.value({}, key) for key in OPEN if self.chance.random() < 0.2}
        if name in ("labels", "annotations"):
            labels = {api.ANCESTOR_LABEL: self.chance.choice(["trainer", *NAMES])}
            return labels if self.chance.random() < 0.7 else {"scheduling.volcano.sh/queue-name": ""}
        if not properties:
            more = schema.get("additionalProperties", {"type": "string"})
            keys = ["cpu", "memory", "nvidia.com/gpu", "a/GPU", "x"]
            return {key: self.value(more, key, depth + 1) for key in keys if self.chance.random() < 0.3}
        made = {}
        for field, inner in properties.items():
            likely = 0.97 if field in LIKELY else 0.02 if field in DEEP else 0.5 if len(properties) < 12 else 0.15
            if field in required:
                made[field] = self.value(inner, field, depth + 1)
            elif self.chance.random() < likely:
                made[field] = None if self.chance.random() < 0.1 else self.value(inner, field, depth + 1)
        return self.union(made) if name.endswith("Policy") else made

    def union(self, policy: dict) -> dict:
        """One framework, one gang scheduler."""
        chosen = self.chance.choice(sorted(UNIONS))
        return {field: value for field, value in policy.items() if field == chosen or field not in UNIONS}


class Server:
    """What an API server makes of the two kinds before it stores them."""

    def __init__(self) -> None:
        self.schemas = {
            crd["spec"]["names"]["kind"]: crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
            for crd in assets.crds()
        }
        self.compiled = {kind: Schema.from_crd(schema) for kind, schema in self.schemas.items()}

    def stored(self, maker: Maker, kind: str, type_: type):
        """An object of this kind, made at random; None if it would be refused."""
        spec = maker.object(self.schemas[kind]["properties"]["spec"], "spec", 0)
        metadata = {"name": "tj", "namespace": "team", "uid": "u"}
        document = {"apiVersion": api.API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}
        schema = self.compiled[kind]
        document = schema.default(schema.prune(document)[0])
        return None if schema.validate(document) else msgspec.json.decode(msgspec.json.encode(document), type=type_)


def said(kit: Kit, job: api.TrainJob, runtime: api.RuntimeSpec, registry: Registry) -> bytes:
    """All that the pipeline says of a job, asked as the reconciler asks."""
    findings = validate(registry, job, None, runtime, kit.context)
    if findings.errors:
        return findings.message.encode()
    try:
        planned = plan(registry, job, runtime, kit.context)
    except PlanError as error:
        return str(error).encode()
    return msgspec.json.encode([component.body for component in planned.components])


@pytest.fixture(scope="module")
def server() -> Server:
    return Server()


@given(st.integers(0, 2**32))
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
def test_whatever_an_api_server_stores_is_built_or_refused_in_words(server, seed):
    kit, maker = Kit(), Maker(random.Random(seed))
    job = server.stored(maker, "TrainJob", api.TrainJob)
    runtime = server.stored(maker, "TrainingRuntime", api.Runtime)
    assume(job is not None and runtime is not None)
    spec = msgspec.json.decode(runtime.spec, type=api.RuntimeSpec)
    before = copy.deepcopy((job, spec))

    first = said(kit, job, spec, kit.registry)

    assert (job, spec) == before
    assert said(kit, job, spec, Registry(reversed(kit.registry.plugins))) == first
