"""Kubernetes' own gangs: groups, names, minCount, objects of each version, life, and what is refused."""

import hashlib
import re

import msgspec
import pytest

from ktrain.api.meta import Key, ObjectMeta, OwnerReference
from ktrain.controllers.admission import validate_runtime
from ktrain.pipeline import PlanError, gangs, points
from ktrain.plugins.workload import Workload
from ktrain.plugins.workload.versions import (
    VERSIONS,
    Gang,
    InlineGroup,
    InlineSpec,
    InlineWorkloadState,
    PodGroupState,
    Policy,
    Template,
    WorkloadSpec,
    WorkloadState,
)

from .conftest import load

RUNTIME = """
spec:
  mlPolicy: {%s}
  podGroupPolicy: {workload: {}}
  template: {spec: {%s replicatedJobs: [%s]}}
"""
JOB = "{metadata: {name: %s, namespace: ns, uid: %s}, spec: {runtimeRef: {name: rt}%s}}"
NODE = "{name: node, %s template: {metadata: {labels: L}, spec: {%s template: {spec: {containers: [{name: node}]}}}}}"
INITIALIZER = """{name: data, template: {metadata: {labels: {
  trainer.kubeflow.org/trainjob-ancestor-step: dataset-initializer}}, spec: {template: {spec: {containers: [
  {name: dataset-initializer}]}}}}}"""
PLAIN = "{name: %s, %s template: {spec: {%s template: {spec: {containers: [{name: %s}]}}}}}"
LAUNCHER = """{name: launcher, %s template: {metadata: {labels: L}, spec: {template: {spec: {containers: [
  {name: node}]}}}}}"""
BEHIND_NODES = "dependsOn: [{name: node, status: Ready}],"
IN_ORDER = "startupPolicy: {startupPolicyOrder: InOrder},"
V1BETA1, V1ALPHA3, V1ALPHA2, V1ALPHA1 = VERSIONS


def runtime(*jobs, policy="numNodes: 4", template=""):
    text = RUNTIME % (policy, template, ", ".join(jobs or [NODE % ("", "")]))
    return text if policy else text.replace("mlPolicy: {None}", "")


def job(trainer="", name="my-job", uid="u"):
    return JOB % (name, uid, trainer and f", trainer: {{{trainer}}}")


def group_name(template, name="my-job", uid="u", prefix=None):
    digest = hashlib.sha256(f"TrainJob\nns\n{name}\n{uid}\n{template}".encode()).hexdigest()
    return f"{prefix or f'{name}-{template}'}-{digest[:10]}"


def meta(name, **more):
    return ObjectMeta(name=name, namespace="ns", owner_references=(OwnerReference(uid="u", controller=True),), **more)


def existing_workload(*templates, **more):
    return WorkloadState(metadata=meta("my-job", uid="wl", **more), spec=WorkloadSpec(templates))


def gang(count, name="trainer", priority=""):
    return Template(name, Policy(Gang(count)), priority)


def templates(kit, *arguments, **options):
    body = kit.objects_of(runtime(*arguments, **options), job())["Workload"]
    return body["spec"]["podGroupTemplates"]


def test_the_first_pass_makes_the_workload_and_has_the_rest_wait_for_it(kit):
    components = kit.plan(runtime(), job()).components

    assert [(c.resource.kind, c.awaited, c.replaces) for c in components] == [
        ("Workload", True, False),
        ("JobSet", False, False),
    ]
    assert components[0].body == {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": {
            "name": "my-job",
            "namespace": "ns",
            "ownerReferences": [
                {
                    "apiVersion": "trainer.kubeflow.org/v1alpha1",
                    "kind": "TrainJob",
                    "name": "my-job",
                    "uid": "u",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "controllerRef": {"apiGroup": "trainer.kubeflow.org", "kind": "TrainJob", "name": "my-job"},
            "podGroupTemplates": [{"name": "trainer", "schedulingPolicy": {"gang": {"minCount": 4}}}],
        },
    }


@pytest.mark.parametrize(
    ("version", "reference"),
    [
        (V1BETA1, {"workloadRef": {"workloadName": "my-job", "templateName": "trainer"}}),
        (V1ALPHA3, {"workloadRef": {"workloadName": "my-job", "templateName": "trainer"}}),
        (
            V1ALPHA2,
            {"podGroupTemplateRef": {"workload": {"workloadName": "my-job", "podGroupTemplateName": "trainer"}}},
        ),
    ],
)
def test_the_second_pass_makes_the_groups_which_belong_to_both(kit, version, reference):
    kit.kinds = {version.workloads, version.pod_groups}
    kit.objects["workloads", Key("ns", "my-job")] = existing_workload(gang(4))
    components = kit.plan(runtime(), job()).components

    assert [c.resource.kind for c in components] == ["Workload", "PodGroup", "JobSet"]
    group = components[1].body
    api_version = f"scheduling.k8s.io/{version.name}"
    assert (components[0].body["apiVersion"], group["apiVersion"]) == (api_version, api_version)
    assert group["metadata"]["name"] == group_name("trainer")
    workload, owner = group["metadata"]["ownerReferences"]
    assert workload == {"apiVersion": api_version, "kind": "Workload", "name": "my-job", "uid": "wl"}
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("TrainJob", "u", True)
    assert group["spec"] == {**reference, "schedulingPolicy": {"gang": {"minCount": 4}}}


def test_the_best_version_that_is_served_is_used(kit):
    kit.kinds = {r for version in VERSIONS[1:3] for r in (version.workloads, version.pod_groups)} | {V1ALPHA1.workloads}

    assert kit.objects_of(runtime(), job())["Workload"]["apiVersion"] == "scheduling.k8s.io/v1alpha3"


@pytest.mark.parametrize("kinds", [set(), {V1BETA1.workloads}, {V1BETA1.pod_groups, V1ALPHA2.workloads}])
def test_a_cluster_without_the_kinds_is_an_error_that_says_which_and_what_to_do(kit, kinds):
    kit.kinds = kinds
    expected = (
        r"of scheduling.k8s.io in one of the versions v1beta1, v1alpha3, v1alpha2, .* GenericWorkload .*runtime-config"
    )
    with pytest.raises(PlanError, match=expected):
        kit.plan(runtime(), job())


def test_a_runtime_without_the_policy_wants_nothing_of_the_cluster(kit):
    kit.kinds = set()
    objects = kit.objects_of(runtime().replace("workload: {}", ""), job())

    assert list(objects) == ["JobSet"]
    assert "schedulingGroup" not in str(objects)


def test_on_kubernetes_1_35_the_workload_holds_the_groups_and_pods_name_one_of_it(kit):
    kit.kinds = {V1ALPHA1.workloads}
    jobs = (INITIALIZER, NODE % ("dependsOn: [{name: data, status: Complete}],", ""))
    workload, job_set = kit.plan(runtime(*jobs), job()).components

    assert (workload.resource.kind, workload.awaited, job_set.resource.kind) == ("Workload", False, "JobSet")
    assert workload.body["apiVersion"] == "scheduling.k8s.io/v1alpha1"
    assert workload.body["metadata"]["ownerReferences"][0]["uid"] == "u"
    assert workload.body["spec"] == {
        "controllerRef": {"apiGroup": "trainer.kubeflow.org", "kind": "TrainJob", "name": "my-job"},
        "podGroups": [
            {"name": "initializer", "policy": {"basic": {}}},
            {"name": "trainer", "policy": {"gang": {"minCount": 4}}},
        ],
    }
    pods = [rj["template"]["spec"]["template"]["spec"] for rj in job_set.body["spec"]["replicatedJobs"]]
    assert [pod["workloadRef"] for pod in pods] == [
        {"name": "my-job", "podGroup": name, "podGroupReplicaKey": group_name(name).rpartition("-")[2]}
        for name in ("initializer", "trainer")
    ]
    assert not any("schedulingGroup" in pod for pod in pods)


@pytest.mark.parametrize(("count", "replaced"), [(4, False), (3, True)])
def test_a_workload_of_1_35_cannot_change_and_names_no_priority(kit, count, replaced):
    kit.kinds = {V1ALPHA1.workloads}
    groups = (InlineGroup("trainer", Policy(Gang(count))),)
    kit.objects["workloads", Key("ns", "my-job")] = InlineWorkloadState(
        metadata=meta("my-job", uid="wl"), spec=InlineSpec(groups)
    )
    text = runtime(NODE.replace("containers", "priorityClassName: high, containers") % ("", ""))
    components = kit.plan(text, job()).components

    assert [(c.resource.kind, c.replaces) for c in components] == [("Workload", replaced), ("JobSet", False)]
    assert "priorityClassName" not in str(components[0].body)


def test_beside_a_running_job_of_1_35_the_workload_is_all_that_its_scheduler_needs(kit):
    kit.kinds = {V1ALPHA1.workloads}
    kit.objects["workloads", Key("ns", "my-job")] = InlineWorkloadState(
        metadata=meta("my-job", uid="wl"), spec=InlineSpec((InlineGroup("trainer", Policy(Gang(4))),))
    )

    assert gangs(kit.registry, kit.job(job()), kit.runtime(runtime()), kit.context) == (
        points.Gang(V1ALPHA1.workloads, Key("ns", "my-job")),
    )


def test_initializers_are_a_group_of_their_own_whose_pods_go_one_by_one(kit):
    jobs = (INITIALIZER, NODE % ("dependsOn: [{name: data, status: Complete}],", ""))
    assert templates(kit, *jobs) == [
        {"name": "initializer", "schedulingPolicy": {"basic": {}}},
        {"name": "trainer", "schedulingPolicy": {"gang": {"minCount": 4}}},
    ]
    kit.objects["workloads", Key("ns", "my-job")] = existing_workload(Template("initializer"), gang(4))
    components = kit.plan(runtime(*jobs), job()).components
    names = {c.body["metadata"]["name"]: c.body["spec"]["schedulingPolicy"] for c in components[1:3]}
    groups = [
        rj["template"]["spec"]["template"]["spec"]["schedulingGroup"]
        for rj in components[3].body["spec"]["replicatedJobs"]
    ]

    assert names == {group_name("initializer"): {"basic": {}}, group_name("trainer"): {"gang": {"minCount": 4}}}
    assert groups == [{"podGroupName": name} for name in names]


MPI = "mpi: {runLauncherAsNode: %s}, numNodes: 50"
SSHD = NODE.replace("metadata: {labels: L}, ", "")


@pytest.mark.parametrize(
    ("jobs", "options", "expected"),
    [
        ((NODE % ("", ""),), {"policy": "torch: {}, numNodes: 100"}, 100),
        ((SSHD % ("", ""), LAUNCHER % ""), {"policy": MPI % "false"}, 50),
        ((SSHD % ("", ""), LAUNCHER % ""), {"policy": MPI % "true"}, 50),
        ((SSHD % ("", ""), LAUNCHER % BEHIND_NODES), {"policy": MPI % "true"}, 49),
        ((SSHD % ("", ""), LAUNCHER % BEHIND_NODES), {"policy": MPI % "false"}, 50),
        ((SSHD % ("", "parallelism: 8,"), LAUNCHER % BEHIND_NODES), {"policy": "mpi: {}, numNodes: 1"}, 8),
        ((NODE % ("", "parallelism: 3,"),), {"policy": None}, 3),
        ((PLAIN % ("a", "replicas: 3,", "parallelism: 2,", "c"),), {"policy": "numNodes: 9"}, 6),
        ((PLAIN % ("a", "", "", "c"), NODE % ("", "")), {"template": IN_ORDER}, 1),
        ((NODE % ("", ""), PLAIN % ("a", BEHIND_NODES, "", "c")), {}, 4),
        (
            (NODE % ("", ""), INITIALIZER.replace("{name: data,", "{name: data, " + BEHIND_NODES),
             PLAIN % ("a", "dependsOn: [{name: data, status: Complete}],", "parallelism: 9,", "c")),
            {},
            4,
        ),
    ],
)  # fmt: skip
def test_a_gang_waits_for_its_nodes_but_not_for_pods_that_wait_for_it(kit, jobs, options, expected):
    (trainer,) = (t for t in templates(kit, *jobs, **options) if t["name"] == "trainer")

    assert trainer["schedulingPolicy"] == {"gang": {"minCount": expected}}


@pytest.mark.parametrize(
    ("policy", "trainer", "expected"),
    [
        ("numNodes: 4", "numNodes: 8", 8),
        ("numNodes: 4", "numNodes: 0", 1),
        ("torch: {elasticPolicy: {minNodes: 2, maxNodes: 4}}", "numNodes: 3", 2),
    ],
)
def test_the_trainjob_says_how_many_nodes_and_an_elastic_one_starts_with_the_fewest(kit, policy, trainer, expected):
    body = kit.objects_of(runtime(policy=policy), job(trainer))["Workload"]

    assert body["spec"]["podGroupTemplates"][0]["schedulingPolicy"] == {"gang": {"minCount": expected}}


@pytest.mark.parametrize("name", ["a", "a" * 43, "a" * 44, "a" * 45, "a" * 51])
def test_names_of_groups_are_labels_and_tell_jobs_of_one_name_apart(kit, name):
    def named(uid):
        short = NODE.replace("name: node,", "name: n,", 1) % ("", "")  # leaves the job the longest name
        job_set = kit.objects_of(runtime(short), job(name=name, uid=uid))["JobSet"]
        spec = job_set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
        return spec["schedulingGroup"]["podGroupName"]

    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", named("u"))
    assert named("u") == group_name("trainer", name, prefix=f"{name}-trainer"[:52].rstrip("-."))
    assert named("u") == named("u") != named("v")


def test_the_priority_of_the_pods_is_that_of_their_group(kit):
    jobs = NODE.replace("containers", "priorityClassName: high, containers") % ("", "")
    (template,) = templates(kit, jobs)

    assert template["priorityClassName"] == "high"


@pytest.mark.parametrize(
    ("version", "workload", "group", "replaced"),
    [
        (V1ALPHA2, gang(4), gang(4), False),
        (V1ALPHA2, gang(3), gang(3), True),
        (V1ALPHA2, gang(4), gang(3), True),
        (V1BETA1, gang(3), gang(3), False),
        (V1BETA1, gang(4, priority="the-clusters-default"), gang(4, priority="the-clusters-default"), False),
        (V1BETA1, Template("trainer"), gang(4), True),
        (V1BETA1, gang(4, name="other"), gang(4), True),
    ],
)
def test_groups_that_cannot_become_what_is_wanted_are_replaced_together(kit, version, workload, group, replaced):
    kit.kinds = {version.workloads, version.pod_groups}
    kit.objects["workloads", Key("ns", "my-job")] = existing_workload(workload)
    name = group_name("trainer")
    kit.objects["podgroups", Key("ns", name)] = PodGroupState(metadata=meta(name), spec=group)

    assert [c.replaces for c in kit.plan(runtime(), job()).components] == [replaced, replaced, False]


def test_another_priority_is_another_gang(kit):
    kit.objects["workloads", Key("ns", "my-job")] = existing_workload(gang(4, priority="low"))
    text = runtime(NODE.replace("containers", "priorityClassName: high, containers") % ("", ""))

    assert [c.replaces for c in kit.plan(text, job()).components] == [True, True, False]


def test_what_a_server_fills_in_is_no_difference():
    given = {"name": "trainer", "schedulingPolicy": {"gang": {"minCount": 4}}, "disruptionMode": "Pod", "priority": 0}

    assert msgspec.convert(given, type=Template) == gang(4)


def with_pod(field):
    return (NODE % ("", "")).replace("containers", f"{field}, containers")


OURS = "podGroupPolicy.workload says how the pods are placed"
HIGH = PLAIN.replace("containers", "priorityClassName: high, containers") % ("a", "", "", "c")
OTHER = PLAIN.replace("containers", "schedulerName: mine, containers") % ("a", "", "", "c")


@pytest.mark.parametrize(
    ("jobs", "template", "expected"),
    [
        ((with_pod("schedulingGroup: {podGroupName: g}"),), "", f"job node must not have schedulingGroup: {OURS}"),
        ((with_pod("workloadRef: {name: w}"),), "", f"job node must not have workloadRef: {OURS}"),
        ((NODE % ("", "scheduling: {},"),), "", f"job node must not have scheduling: {OURS}"),
        ((NODE % ("", ""),), "scheduling: {},", f"the JobSet must not have scheduling: {OURS}"),
        (
            ((NODE % ("", "")).replace("{labels", "{annotations: {scheduling.k8s.io/group-template-name: t}, labels"),),
            "",
            f"job node must not have the annotation scheduling.k8s.io/group-template-name: {OURS}",
        ),
        (
            (NODE % ("", ""), HIGH),
            "",
            "all jobs must have the same priorityClassName: node has none, a has high",
        ),
        (
            (INITIALIZER.replace("containers", "priorityClassName: low, containers"), HIGH),
            "",
            "all jobs must have the same priorityClassName: data has low, a has high",
        ),
        (
            (NODE % ("", ""), OTHER),
            "",
            "the jobs of group trainer must have the same schedulerName: node has none, a has mine",
        ),
        ((INITIALIZER, OTHER), "", None),
        ((NODE % ("", ""),), "", None),
    ],
)  # fmt: skip
def test_a_runtime_with_gangs_does_not_say_itself_how_pods_are_placed(kit, jobs, template, expected):
    text = runtime(*jobs, template=template)

    assert kit.errors(text, job()) == ([f"spec.runtimeRef: Forbidden: {expected}"] if expected else [])
    assert kit.errors(text.replace("workload: {}", ""), job()) == []


def checked(kit, text, old=None, registry=None):
    """What is answered when the runtime is stored."""
    bodies = [text and {"kind": "TrainingRuntime", "metadata": {"name": "rt"}, **load(text)} for text in (text, old)]
    return validate_runtime(registry or kit.registry, *bodies, kit.context)


@pytest.mark.parametrize(
    ("jobs", "template", "expected"),
    [
        ((with_pod("schedulingGroup: {podGroupName: g}"),), "", f"job node must not have schedulingGroup: {OURS}"),
        ((with_pod("workloadRef: {name: w, podGroup: g}"),), "", f"job node must not have workloadRef: {OURS}"),
        ((NODE % ("", "scheduling: {},"),), "", f"job node must not have scheduling: {OURS}"),
        ((NODE % ("", ""),), "scheduling: {},", f"the JobSet must not have scheduling: {OURS}"),
        ((NODE % ("", ""), HIGH), "", "all jobs must have the same priorityClassName: node has none, a has high"),
    ],
)
def test_the_runtime_itself_is_refused_when_it_is_stored(kit, jobs, template, expected):
    text = runtime(*jobs, template=template)

    assert checked(kit, text).message == f"spec.template.spec: Forbidden: {expected}"
    assert checked(kit, text, old=text).allowed, "what is stored already can be changed otherwise"
    assert checked(kit, text, old=runtime(NODE % ("", ""))).message == f"spec.template.spec: Forbidden: {expected}"
    assert checked(kit, text.replace("workload: {}", "")).allowed
    assert checked(kit, runtime()).allowed


@pytest.mark.parametrize("policy", ["", "coscheduling: {}"])
def test_a_runtime_of_its_own_groups_is_warned_of_a_field_that_only_1_35_has(kit, policy):
    text = runtime(with_pod("workloadRef: {name: w, podGroup: g}")).replace("workload: {}", policy)
    warning = (
        "job node has workloadRef, a field of pods in Kubernetes 1.35 only: this cluster drops it, and the pods are"
        " placed one by one"
    )

    assert kit.warnings(text, job()) == [warning]
    assert checked(kit, text).warnings == (warning,)
    kit.kinds = {V1ALPHA1.workloads}
    assert checked(kit, text).warnings == ()


OFF = (
    "Forbidden: podGroupPolicy.workload needs the operator's feature gate GenericWorkload, which is off: turn it on"
    " with --feature-gates=GenericWorkload=true, or with featureGates: {GenericWorkload: true} in its configuration"
    " file"
)


def test_with_the_gate_off_the_policy_is_refused_everywhere_and_nothing_is_watched(kit):
    kit.registry = kit.registry.replacing(Workload(enabled=False))

    watched = {one.resource for watch in kit.registry.watches for one in watch.chain}
    assert not watched & {r for version in VERSIONS for r in (version.workloads, version.pod_groups)}
    assert kit.errors(runtime(), job()) == [f"spec.runtimeRef: {OFF}"]
    assert checked(kit, runtime()).message == f"spec.podGroupPolicy.workload: {OFF}"
    assert checked(kit, runtime(), old=runtime()).allowed
    with pytest.raises(PlanError, match="GenericWorkload, which is off"):
        kit.plan(runtime(), job())

    other = runtime().replace("workload: {}", "")
    assert kit.errors(other, job()) == []
    assert checked(kit, other).allowed
    assert list(kit.objects_of(other, job())) == ["JobSet"]


def test_a_priority_of_the_system_is_warned_of(kit):
    jobs = with_pod("priorityClassName: system-node-critical")

    assert kit.warnings(runtime(jobs), job()) == [
        'PodGroups cannot have the priority class "system-node-critical", whose value is reserved for the system'
    ]
