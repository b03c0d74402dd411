"""CoScheduling and Volcano: the PodGroup, its name on the pods, and what is refused."""

import pytest

from ktrain.api.meta import Key, Object

RUNTIME = """
spec:
  mlPolicy: {numNodes: 3}
  podGroupPolicy: {%s}
  template:
    metadata: {annotations: {%s}}
    spec: {replicatedJobs: [
      {name: dataset-initializer, template: {spec: {template: {spec: {
        containers: [{name: c, resources: {requests: {cpu: 1}}}]}}}}},
      {name: node, template: {metadata: {labels: L}, spec: {template: {spec: {%s
        containers: [{name: node, image: i, resources: {requests: {cpu: 1500m, memory: 1Gi}}}]}}}}}]}
"""
JOB = "{metadata: {name: tj, namespace: team, uid: u}, spec: {runtimeRef: {name: rt}%s}}"
QUEUE = "scheduling.volcano.sh/queue-name"


def runtime(policy, annotations="", pod=""):
    return RUNTIME % (policy, annotations, pod and f"{pod},")


def pod_metadata(job_set):
    jobs = job_set["spec"]["replicatedJobs"]
    return [job["template"]["spec"]["template"]["metadata"] for job in jobs]


@pytest.mark.parametrize(("policy", "timeout"), [("", 60), ("scheduleTimeoutSeconds: 90", 90)])
def test_coscheduling_makes_one_group_of_all_pods(kit, policy, timeout):
    objects = kit.objects_of(runtime(f"coscheduling: {{{policy}}}"), JOB % "")
    group = objects["PodGroup"]

    assert group["apiVersion"] == "scheduling.x-k8s.io/v1alpha1"
    assert (group["metadata"]["name"], group["metadata"]["namespace"]) == ("tj", "team")
    (owner,) = group["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("TrainJob", "u", True)
    resources = {"cpu": "5500m", "memory": "3Gi"}
    assert group["spec"] == {"minMember": 4, "minResources": resources, "scheduleTimeoutSeconds": timeout}
    assert pod_metadata(objects["JobSet"]) == [{"labels": {"scheduling.x-k8s.io/pod-group": "tj"}}] * 2


@pytest.mark.parametrize("policy", ["coscheduling: {}", "volcano: {}"])
def test_what_the_trainjob_asks_for_is_what_its_group_asks_for(kit, policy):
    trainer = ", trainer: {numNodes: 5, resourcesPerNode: {requests: {cpu: 2}, limits: {nvidia.com/gpu: 1}}}"
    spec = kit.objects_of(runtime(policy), JOB % trainer)["PodGroup"]["spec"]

    assert (spec["minMember"], spec["minResources"]) == (6, {"cpu": "11", "memory": "5Gi"})


@pytest.mark.parametrize("policy", ["coscheduling: {}", "volcano: {}"])
def test_an_elastic_job_begins_with_the_fewest_nodes_that_it_needs(kit, policy):
    elastic = runtime(policy).replace("{numNodes: 3}", "{torch: {elasticPolicy: {minNodes: 2, maxNodes: 8}}}")
    spec = kit.objects_of(elastic, JOB % ", trainer: {numNodes: 5}")["PodGroup"]["spec"]

    assert (spec["minMember"], spec["minResources"]) == (3, {"cpu": "4", "memory": "2Gi"})


@pytest.mark.parametrize("policy", ["coscheduling: {}", "volcano: {}", ""])
def test_groups_come_before_their_pods_and_only_where_a_policy_says_so(kit, policy):
    kinds = [component.resource.kind for component in kit.plan(runtime(policy), JOB % "").components]

    assert kinds == (["PodGroup", "JobSet"] if policy else ["JobSet"])


@pytest.mark.parametrize(
    ("annotations", "patch", "queue"),
    [("", "", None), (f"{QUEUE}: q1", "", "q1"), (f"{QUEUE}: q1", "q2", "q2"), ("", "q2", "q2")],
)
def test_the_queue_is_the_runtimes_unless_a_patch_says_another(kit, annotations, patch, queue):
    said = f"{{template: {{metadata: {{annotations: {{{QUEUE}: {patch}}}}}}}}}"
    patches = f", runtimePatches: [{{manager: a.b/c, trainingRuntimeSpec: {said}}}]" if patch else ""
    spec = kit.objects_of(runtime("volcano: {}", annotations), JOB % patches)["PodGroup"]["spec"]

    assert spec.get("queue") == queue


def test_annotations_of_the_trainjob_name_no_queue(kit):
    job = JOB.replace("uid: u", f"uid: u, annotations: {{{QUEUE}: mine}}")

    assert "queue" not in kit.objects_of(runtime("volcano: {}"), job % "")["PodGroup"]["spec"]


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        ("", None),
        ("networkTopology: {}", {"mode": "hard", "highestTierAllowed": 1}),
        ("networkTopology: {mode: soft, highestTierAllowed: 3}", {"mode": "soft", "highestTierAllowed": 3}),
    ],
)
def test_volcano_gets_the_topology_with_its_defaults(kit, topology, expected):
    objects = kit.objects_of(runtime(f"volcano: {{{topology}}}", pod="priorityClassName: high"), JOB % "")

    assert objects["PodGroup"]["spec"].get("networkTopology") == expected
    assert objects["PodGroup"]["spec"]["priorityClassName"] == "high"
    assert objects["PodGroup"]["apiVersion"] == "scheduling.volcano.sh/v1beta1"
    assert pod_metadata(objects["JobSet"]) == [{"annotations": {"scheduling.k8s.io/group-name": "tj"}}] * 2


EMPTY = 'spec.annotations[scheduling.volcano.sh/queue-name]: Invalid value: "": Volcano queue name must not be empty'
NOWHERE = (
    'spec.templateSpec.priorityClassName: Invalid value: "nowhere": PriorityClass "nowhere" doesn\'t exist:'
    ' PriorityClass.scheduling.k8s.io "nowhere" not found'
)


@pytest.mark.parametrize(
    ("policy", "annotations", "pod", "expected"),
    [
        ("volcano: {}", f"{QUEUE}: ''", "", [EMPTY]),
        ("volcano: {}", f"{QUEUE}: ''", "priorityClassName: nowhere", [EMPTY, NOWHERE]),
        ("volcano: {}", "", "priorityClassName: known", []),
        ("volcano: {}", "", "priorityClassName: system-node-critical", []),
        ("volcano: {}", "", "priorityClassName: system-cluster-critical", []),
        ("coscheduling: {}", f"{QUEUE}: ''", "priorityClassName: nowhere", []),
    ],
)
def test_volcanos_queue_has_a_name_and_its_priority_class_exists(kit, policy, annotations, pod, expected):
    kit.objects["priorityclasses", Key("", "known")] = Object()

    assert kit.errors(runtime(policy, annotations, pod), JOB % "") == expected


def test_where_priority_classes_cannot_be_seen_none_is_refused(kit):
    kit.kinds = ()

    assert kit.errors(runtime("volcano: {}", pod="priorityClassName: nowhere"), JOB % "") == []


def test_a_system_class_ends_the_search_and_the_last_class_is_the_groups(kit):
    both = runtime("volcano: {}", pod="priorityClassName: nowhere").replace(
        "containers: [{name: c", "priorityClassName: system-node-critical, containers: [{name: c"
    )

    assert kit.errors(both, JOB % "") == []
    assert kit.objects_of(both, JOB % "")["PodGroup"]["spec"]["priorityClassName"] == "nowhere"


@pytest.mark.parametrize("policy", ["coscheduling: {}", "volcano: {}"])
def test_a_group_counts_no_replicas_and_its_pods_are_left_to_the_scheduler_that_the_runtime_names(kit, policy):
    text = runtime(policy)
    replicated = text.replace(
        "{name: dataset-initializer, template", "{name: dataset-initializer, replicas: 5, template"
    )
    objects = kit.objects_of(replicated, JOB % "")

    assert objects["PodGroup"]["spec"] == kit.objects_of(text, JOB % "")["PodGroup"]["spec"]
    assert "schedulerName" not in str(objects["JobSet"])
