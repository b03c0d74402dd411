"""The three stories of KEP-3015 on Kubernetes 1.36: the objects that its text shows, with the API's own field names."""

from hashlib import sha256

import pytest

from ktrain.api.meta import Key, ObjectMeta
from ktrain.plugins.workload.versions import VERSIONS, WorkloadState

(V1ALPHA2,) = (version for version in VERSIONS if version.name == "v1alpha2")
JOB = "{metadata: {name: my-job, namespace: ns, uid: u}, spec: {runtimeRef: {name: rt}%s}}"
GPUS = "resourcesPerNode: {requests: {nvidia.com/gpu: 4}}"

TORCH = """
spec:
  mlPolicy: {numNodes: 1, torch: {}}
  podGroupPolicy: {workload: {}}
  template:
    spec:
      replicatedJobs:
        - name: node
          template:
            spec:
              template:
                metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
                spec: {containers: [{name: node, image: pytorch}]}
"""
# The KEP leaves podGroupPolicy out.
MPI = """
spec:
  mlPolicy: {numNodes: 1, mpi: {numProcPerNode: 4, mpiImplementation: OpenMPI}}
  podGroupPolicy: {workload: {}}
  template:
    spec:
      network: {publishNotReadyAddresses: true}
      successPolicy: {operator: All, targetReplicatedJobs: [launcher]}
      replicatedJobs:
        - name: launcher
          template:
            metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
            spec: {template: {spec: {containers: [{name: node, image: deepspeed}]}}}
        - name: node
          template: {spec: {template: {spec: {containers: [{name: node, image: deepspeed}]}}}}
"""
FINE_TUNING = """
spec:
  mlPolicy: {numNodes: 1, torch: {}}
  podGroupPolicy: {workload: {}}
  template:
    spec:
      volumeClaimPolicies:
        - templates:
            - metadata: {name: initializer}
              spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 20Gi}}}
      replicatedJobs:
        - name: dataset-initializer
          template:
            metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: dataset-initializer}}
            spec: {template: {spec: {containers: [{name: dataset-initializer, image: i}]}}}
        - name: model-initializer
          template:
            metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: model-initializer}}
            spec: {template: {spec: {containers: [{name: model-initializer, image: i}]}}}
        - name: node
          dependsOn: [{name: dataset-initializer, status: Complete}, {name: model-initializer, status: Complete}]
          template:
            metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
            spec: {template: {spec: {containers: [{name: node, image: i, command: [tune, run]}]}}}
"""


def group_name(template):
    digest = sha256(f"TrainJob\nns\nmy-job\nu\n{template}".encode()).hexdigest()
    return f"my-job-{template}-{digest[:10]}"


def gang(count):
    return {"gang": {"minCount": count}}


@pytest.mark.parametrize(
    ("runtime", "trainer", "policies", "groups"),
    [
        (TORCH, f"numNodes: 100, {GPUS}", {"trainer": gang(100)}, {"node": "trainer"}),
        (MPI, f"numNodes: 50, {GPUS}", {"trainer": gang(50)}, {"launcher": "trainer", "node": "trainer"}),
        (
            FINE_TUNING,
            "numNodes: 8",  # where the KEP's minCount of 8 must come from, as its runtime has 1
            {"initializer": {"basic": {}}, "trainer": gang(8)},
            {"dataset-initializer": "initializer", "model-initializer": "initializer", "node": "trainer"},
        ),
        (
            FINE_TUNING,
            "",
            {"initializer": {"basic": {}}, "trainer": gang(1)},
            {"dataset-initializer": "initializer", "model-initializer": "initializer", "node": "trainer"},
        ),
    ],
    ids=["story 1", "story 2", "story 3", "story 3 to the letter"],
)
def test_the_objects_of_the_stories(kit, runtime, trainer, policies, groups):
    kit.kinds = {V1ALPHA2.workloads, V1ALPHA2.pod_groups}
    job = JOB % (trainer and f", trainer: {{{trainer}}}")
    kit.objects["workloads", Key("ns", "my-job")] = WorkloadState(metadata=ObjectMeta(name="my-job", uid="w"))
    bodies = {(c.resource.kind, c.body["metadata"]["name"]): c.body for c in kit.plan(runtime, job).components}

    owner = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "my-job", "uid": "u"}
    controller = owner | {"controller": True, "blockOwnerDeletion": True}
    assert bodies["Workload", "my-job"] == {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "Workload",
        "metadata": {"name": "my-job", "namespace": "ns", "ownerReferences": [controller]},
        "spec": {
            "controllerRef": {"apiGroup": "trainer.kubeflow.org", "kind": "TrainJob", "name": "my-job"},
            "podGroupTemplates": [{"name": name, "schedulingPolicy": policy} for name, policy in policies.items()],
        },
    }
    workload = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "Workload", "name": "my-job", "uid": "w"}
    assert [body for (kind, _), body in bodies.items() if kind == "PodGroup"] == [
        {
            "apiVersion": "scheduling.k8s.io/v1alpha2",
            "kind": "PodGroup",
            "metadata": {
                "name": group_name(name),
                "namespace": "ns",
                "ownerReferences": [workload, controller],
            },
            "spec": {
                "podGroupTemplateRef": {"workload": {"workloadName": "my-job", "podGroupTemplateName": name}},
                "schedulingPolicy": policy,
            },
        }
        for name, policy in policies.items()
    ]
    replicated = bodies["JobSet", "my-job"]["spec"]["replicatedJobs"]
    pods = {one["name"]: one["template"]["spec"]["template"]["spec"]["schedulingGroup"] for one in replicated}
    assert pods == {name: {"podGroupName": group_name(group)} for name, group in groups.items()}
