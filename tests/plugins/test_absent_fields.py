"""Whatever optional field a runtime or a TrainJob leaves out, no plugin stumbles."""

import contextlib
import copy
from collections.abc import Iterator

import msgspec
import pytest

from ktrain.api import trainer as api
from ktrain.pipeline import PlanError, plan, validate

from .conftest import load

POLICIES = {
    "plain": "{numNodes: 2}",
    "torch": "{numNodes: 2, torch: {envInjection: {targets: [{jobName: node, containerNames: [side]}]}}}",
    "torchtune": "{numNodes: 2, torch: {}}",
    "jax": "{numNodes: 2, jax: {}}",
    "xgboost": "{numNodes: 2, xgboost: {}}",
    "flux": "{numNodes: 2, flux: {numProcPerNode: 2}}",
    "mpi": "{numNodes: 2, mpi: {numProcPerNode: 2, mpiImplementation: OpenMPI, sshAuthMountPath: /s,"
    " runLauncherAsNode: true, variant: MPICH}}",
}
RUNTIME = """
spec:
  mlPolicy: %s
  template:
    metadata: {labels: {a: b}, annotations: {c: d}}
    spec:
      network: {subdomain: mesh}
      replicatedJobs:
      - name: node
        replicas: 1
        template:
          metadata: {labels: {l: m}}
          spec:
            parallelism: 2
            template: {metadata: {labels: {p: q}}, spec: {containers: [
              {name: node, image: i, command: [tune, run, output_dir=/o], env: [{name: A, value: a}],
               ports: [{containerPort: 1}], resources: {limits: {a/gpu: 2}, requests: {cpu: 1}},
               volumeMounts: [{name: v, mountPath: /v}]}, {name: side}], volumes: [{name: v, emptyDir: {}}]}}
      - name: launcher
        template: {metadata: {labels: L}, spec: {template: {spec: {containers: [{name: node}]}}}}
"""
JOB = """
metadata: {name: tj, namespace: n, uid: u, labels: {x: y}}
spec:
  runtimeRef: {name: torchtune-llama3.2-1b, apiGroup: trainer.kubeflow.org, kind: TrainingRuntime}
  suspend: false
  initializer: {dataset: {storageUri: "hf://a/b", env: [{name: E}], secretRef: {name: s}}, model: {storageUri: "s3://c/d"}}
  trainer:
    image: j
    command: %s
    args: [model.quantize_base=true]
    env: [{name: B, value: b}]
    numNodes: 3
    numProcPerNode: 2
    resourcesPerNode: {limits: {a/gpu: 4}, requests: {cpu: 2}}
  runtimePatches:
  - {manager: a.b/c, trainingRuntimeSpec: {template: {metadata: {labels: {a: z}}, spec: {replicatedJobs: [
      {name: node, template: {spec: {template: {spec: {nodeSelector: {k: v}}}}}}]}}}}
"""
REQUIRED = {"name", "namespace", "uid", "containers", "containerPort", "mountPath", "manager", "jobName"}


def without_one(document: dict | list) -> Iterator[dict | list]:
    """Yield copies of a document, each without one field or element that need not be there."""
    keys = list(document) if isinstance(document, dict) else range(len(document))
    for key in keys:
        if key not in REQUIRED:
            smaller = copy.deepcopy(document)
            del smaller[key]
            yield smaller
        if isinstance(document[key], dict | list):
            for inner in without_one(document[key]):
                yield (
                    document | {key: inner}
                    if isinstance(document, dict)
                    else [
                        *document[:key],
                        inner,
                        *document[key + 1 :],
                    ]
                )


def decode(document: dict, type_: type):
    return msgspec.json.decode(msgspec.json.encode(document), type=type_)


@pytest.mark.parametrize("step", ["node", "launcher"])
@pytest.mark.parametrize("policy", POLICIES)
def test_no_absent_field_breaks_a_plugin(kit, policy, step):
    command = "[tune, run]" if policy == "torchtune" else "[run]"
    runtime, job = load(RUNTIME % POLICIES[policy]), load(JOB % command)
    if step == "node":
        first, second = (rj["template"]["metadata"] for rj in runtime["spec"]["template"]["spec"]["replicatedJobs"])
        first["labels"], second["labels"] = second["labels"], first["labels"]
    documents = [(smaller, job) for smaller in without_one(runtime)] + [
        (runtime, smaller) for smaller in without_one(job)
    ]
    planned = 0
    for smaller_runtime, smaller_job in [(runtime, job), *documents]:
        runtime_spec = decode(smaller_runtime.get("spec", {}), api.RuntimeSpec)
        train_job = decode(smaller_job, api.TrainJob)
        validate(kit.registry, train_job, None, runtime_spec, kit.context)
        with contextlib.suppress(PlanError):  # refused in words for the user; a plugin's failure is another error
            plan(kit.registry, train_job, runtime_spec, kit.context)
            planned += 1

    assert planned > len(documents) * 0.9
