"""The JobSet plugin: what is built from a runtime and a TrainJob, and what is refused."""

from itertools import islice

from ktrain.api import jobset
from ktrain.api.meta import Condition, Key, ObjectMeta, OwnerReference
from ktrain.pipeline import prepare, terminal_condition
from ktrain.pipeline.runner import jobs_status
from ktrain.plugins.jobset import JobSet, JobSetState

RUNTIME = """
spec:
  mlPolicy: {numNodes: 2}
  template:
    metadata: {labels: {tier: gold, owner: platform}, annotations: {note: from-runtime}}
    spec:
      suspend: true
      replicatedJobs:
      - name: dataset-initializer
        template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: dataset-initializer}},
          spec: {template: {spec: {containers: [{name: dataset-initializer, image: "init:1",
            env: [{name: STORAGE_URI, value: "hf://default/set"}, {name: KEEP, value: "1"}],
            envFrom: [{configMapRef: {name: cm}}],
            volumeMounts: [{name: initializer, mountPath: /workspace}]}]}}}}
      - name: node
        dependsOn: [{name: dataset-initializer, status: Complete}]
        template: {metadata: {labels: L}, spec: {parallelism: 7, completions: 9, backoffLimit: 3, template: {spec: {
          hostIPC: true,
          containers: [{name: node, image: "train:1", command: [python], args: [a.py],
            env: [{name: LR, value: "0.1"}, {name: SEED, value: "1"}],
            resources: {requests: {cpu: 2, memory: 4Gi}, claims: [{name: g}]}}, {name: side, image: s}]}}}}
      - name: aux
        replicas: 3
        template: {spec: {parallelism: 2, template: {spec: {containers: [{name: aux}]}}}}
"""
JOB = """
metadata: {name: tj, namespace: team, uid: uid-1, labels: {ignored: "yes"}}
spec:
  runtimeRef: {apiGroup: trainer.kubeflow.org, kind: TrainingRuntime, name: base}
  suspend: true
  initializer: {dataset: {storageUri: s3://bucket/data, env: [{name: TOKENS, value: "9"}], secretRef: {name: creds}}}
  trainer:
    image: train:2
    args: [b.py, --fast]
    numNodes: 3
    env: [{name: LR, value: "0.2"}, {name: EXTRA, value: e}, {name: EMPTY}]
    resourcesPerNode: {limits: {nvidia.com/gpu: 1}, requests: {cpu: "4"}, claims: [{name: h}]}
"""


def rjob(job_set: dict, name: str) -> dict:
    return next(r for r in job_set["spec"]["replicatedJobs"] if r["name"] == name)


def pod(job_set: dict, name: str) -> dict:
    return rjob(job_set, name)["template"]["spec"]["template"]["spec"]


def test_the_trainjob_wins_over_the_runtime_and_the_rest_passes_through(kit):
    job_set = kit.job_set(RUNTIME, JOB)
    node = rjob(job_set, "node")

    assert job_set["metadata"] == {
        "name": "tj",
        "namespace": "team",
        "labels": {"tier": "gold", "owner": "platform"},
        "annotations": {"note": "from-runtime"},
        "ownerReferences": [
            {
                "apiVersion": "trainer.kubeflow.org/v1alpha1",
                "kind": "TrainJob",
                "name": "tj",
                "uid": "uid-1",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    assert job_set["spec"]["suspend"] is True
    assert node["replicas"] == 1
    assert node["dependsOn"] == [{"name": "dataset-initializer", "status": "Complete"}]
    assert node["template"]["spec"]["backoffLimit"] == 3
    assert (node["template"]["spec"]["parallelism"], node["template"]["spec"]["completions"]) == (3, 3)
    assert pod(job_set, "node")["hostIPC"] is True
    assert pod(job_set, "node")["containers"] == [
        {
            "name": "node",
            "image": "train:2",
            "command": ["python"],
            "args": ["b.py", "--fast"],
            "env": [
                {"name": "LR", "value": "0.2"},
                {"name": "SEED", "value": "1"},
                {"name": "EXTRA", "value": "e"},
                {"name": "EMPTY", "value": ""},
            ],
            "resources": {
                "limits": {"nvidia.com/gpu": "1"},
                "requests": {"cpu": "4", "memory": "4Gi"},
                "claims": [{"name": "g"}, {"name": "h"}],
            },
        },
        {"name": "side", "image": "s"},
    ]


def test_jobs_without_a_label_keep_their_replicas_and_get_completions(kit):
    aux = rjob(kit.job_set(RUNTIME, JOB), "aux")

    assert aux["replicas"] == 3
    assert (aux["template"]["spec"]["parallelism"], aux["template"]["spec"]["completions"]) == (2, 2)


def test_an_empty_command_clears_the_runtimes(kit):
    job = JOB.replace("args: [b.py, --fast]", "args: []\n    command: []")
    container = pod(kit.job_set(RUNTIME, job), "node")["containers"][0]

    assert "command" not in container
    assert "args" not in container


def test_an_empty_image_is_said_so_that_the_api_server_refuses_it(kit):
    job = JOB.replace("image: train:2", 'image: ""')

    assert pod(kit.job_set(RUNTIME, job), "node")["containers"][0]["image"] == ""


def test_an_absent_suspend_clears_the_templates(kit):
    assert "suspend" not in kit.job_set(RUNTIME, JOB.replace("suspend: true", ""))["spec"]


def test_without_an_ml_policy_resources_have_no_meaning_but_nodes_have(kit):
    job_set = kit.job_set(RUNTIME.replace("mlPolicy: {numNodes: 2}", ""), JOB)

    assert rjob(job_set, "node")["template"]["spec"]["parallelism"] == 3
    assert "limits" not in pod(job_set, "node")["containers"][0]["resources"]


def test_a_plan_does_not_change_what_it_is_made_from(kit):
    assert kit.job_set(RUNTIME, JOB) == kit.job_set(RUNTIME, JOB)


def test_provenance_names_the_author_of_each_field(kit):
    provenance = kit.plan(RUNTIME, JOB).provenance

    assert provenance["replicatedJobs[node].count"] == "plugin PlainML"
    assert provenance["replicatedJobs[node].template.spec.template.spec.containers[node].image"] == "TrainJob"
    assert "replicatedJobs[aux].count" not in provenance


# Reading


def state(uid: str = "uid-1", conditions: tuple[Condition, ...] = ()) -> JobSetState:
    owner = OwnerReference(kind="TrainJob", name="tj", uid=uid, controller=True)
    counters = jobset.ReplicatedJobStatus("node", ready=1, active=1)
    return JobSetState(
        metadata=ObjectMeta(name="tj", namespace="team", owner_references=(owner,)),
        status=jobset.JobSetStatus(conditions=conditions, replicated_jobs_status=(counters,)),
    )


def test_the_end_of_the_jobset_is_the_end_of_the_job_in_the_jobsets_words(kit):
    condition = Condition("Completed", "True", "AllJobsCompleted", "jobset completed successfully")
    kit.objects["jobsets", Key("team", "tj")] = state(conditions=(Condition("Suspended", "False"), condition))
    end = terminal_condition(kit.registry, kit.job(JOB), kit.context)

    assert (end.type, end.status, end.reason, end.message) == (
        "Complete",
        "True",
        "AllJobsCompleted",
        "jobset completed successfully",
    )


def test_a_condition_that_is_not_true_ends_nothing(kit):
    kit.objects["jobsets", Key("team", "tj")] = state(conditions=(Condition("Failed", "False"),))

    assert terminal_condition(kit.registry, kit.job(JOB), kit.context) is None


def test_a_jobset_of_another_owner_says_nothing(kit):
    kit.objects["jobsets", Key("team", "tj")] = state("uid-0", (Condition("Completed", "True"),))

    assert terminal_condition(kit.registry, kit.job(JOB), kit.context) is None
    assert jobs_status(kit.registry, kit.job(JOB), kit.context) is None


def test_counters_are_the_jobsets(kit):
    kit.objects["jobsets", Key("team", "tj")] = state()
    (counters,) = jobs_status(kit.registry, kit.job(JOB), kit.context)

    assert (counters.name, counters.ready, counters.active, counters.suspended) == ("node", 1, 1, 0)


# Rules


def patched(manager: str = "acme.io/ops", target: str = "{name: node}") -> str:
    spec = f"{{template: {{spec: {{replicatedJobs: [{target}]}}}}}}"
    return f"{JOB}  runtimePatches: [{{manager: '{manager}', trainingRuntimeSpec: {spec}}}]\n"


def pod_patch(name: str, pod_spec: str) -> str:
    return f"{{name: {name}, template: {{spec: {{template: {{spec: {pod_spec}}}}}}}}}"


def details(errors: list[str]) -> list[str]:
    return [error.rpartition("]: ")[2] for error in errors]


def test_patches_may_only_name_what_the_runtime_has(kit):
    ghost_container = pod_patch("node", "{containers: [{name: ghost}]}")
    ghost_init = pod_patch("node", "{initContainers: [{name: ghost}]}")

    assert kit.errors(RUNTIME, patched()) == []
    assert details(kit.errors(RUNTIME, patched(target="{name: ghost}"))) == [
        "must not have replicated job that doesn't exist in the runtime job template"
    ]
    assert details(kit.errors(RUNTIME, patched(target=ghost_container))) == [
        "must not have container that doesn't exist in the runtime job node"
    ]
    assert details(kit.errors(RUNTIME, patched(target=ghost_init))) == [
        "must not have initContainer that doesn't exist in the runtime job node"
    ]


def test_patches_may_set_variables_of_side_containers_only(kit):
    side = pod_patch("node", "{containers: [{name: side, env: [{name: A, value: a}]}]}")
    node = pod_patch("node", "{containers: [{name: node, env: [{name: A, value: a}]}]}")

    assert kit.errors(RUNTIME, patched(target=side)) == []
    assert details(kit.errors(RUNTIME, patched(target=node))) == [
        "must not have envs for the dataset-initializer, model-initializer, node containers"
    ]


def test_a_manager_is_a_domain_prefixed_path(kit):
    for bad, shown in (("foo", "foo"), ("acme.io/", "acme.io/"), ("/foo", "/foo")):
        assert kit.errors(RUNTIME, patched(bad)) == [
            (
                f'spec.runtimePatches.manager: Invalid value: "{shown}": '
                'must be a domain-prefixed path (such as "acme.io/foo")'
            )
        ]
    assert kit.errors(RUNTIME, patched("acme.io/fo o")) == [
        (
            'spec.runtimePatches.manager: Invalid value: "fo o": '
            "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')"
        )
    ]
    assert kit.errors(RUNTIME, patched("Acme_x/foo"))[0].startswith(
        'spec.runtimePatches.manager: Invalid value: "Acme_x": a lowercase RFC 1123 subdomain must consist of'
    )
    assert kit.errors(RUNTIME, patched("acme.io/a/b")) == []


def test_patches_change_only_while_suspended_and_idle(kit):
    running = JOB.replace("suspend: true", "suspend: false")
    changed = patched().replace("suspend: true", "suspend: false")

    assert kit.errors(RUNTIME, changed, old=running) == [
        (
            "spec.runtimePatches: Forbidden: "
            "RuntimePatches can only be modified when the TrainJob is suspended before or after the update"
        )
    ]
    assert kit.errors(RUNTIME, changed, old=changed) == []
    assert kit.errors(RUNTIME, changed, old=JOB) == []
    kit.objects["jobsets", Key("team", "tj")] = state()
    assert kit.errors(RUNTIME, patched(), old=running) == [
        (
            "spec.runtimePatches: Forbidden: "
            "RuntimePatches cannot be modified when the JobSet's ReplicatedJob node is still active"
        )
    ]


def test_a_trainer_cannot_be_added_later(kit):
    bare = JOB[: JOB.index("  trainer:")]

    assert kit.errors(RUNTIME, JOB, old=bare)[0].endswith(": field is immutable")
    assert kit.errors(RUNTIME, bare, old=bare) == []


def test_names_of_pods_must_fit_a_dns_label(kit):
    room = 63 - len("-dataset-initializer-0-0-abcde")
    job = JOB.replace("name: tj,", f"name: {'n' * room},")

    assert kit.errors(RUNTIME, job) == []
    assert kit.errors(RUNTIME, job.replace("n" * room, "n" * (room + 1))) == [
        (
            f'metadata.name: Invalid value: "{"n" * (room + 1)}": is 1 characters too long: '
            f"a pod would be called {'n' * (room + 1)}-dataset-initializer-0-0-abcde, and 63 are allowed"
        )
    ]


def test_without_a_runtime_its_rules_are_left_out(kit):
    assert kit.errors(None, JOB, old=JOB) == []


def test_host_names_of_two_billion_pods_cost_nothing_until_they_are_asked_for(kit):
    runtime = "spec: {template: {spec: {replicatedJobs: [{name: a, replicas: 2000000000, template: {spec: {}}}]}}}"
    info = prepare(kit.job("metadata: {name: tj}"), kit.runtime(runtime))

    JobSet().pod_network(info, kit.context)

    assert list(islice(info.pod_sets[0].endpoints(), 2)) == ["tj-a-0-0.tj", "tj-a-1-0.tj"]
