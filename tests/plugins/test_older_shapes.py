"""TrainJobs as Kubeflow Trainer 2.0 and 2.1 had them."""

import pytest

from ktrain.api.meta import Key, ObjectMeta, OwnerReference
from ktrain.plugins.jobset import JobSetState

RUNTIME = """
spec:
  mlPolicy: {numNodes: 1}
  template:
    metadata: {labels: {tier: gold}}
    spec:
      replicatedJobs:
      - name: init
        template: {spec: {template: {spec: {containers: [{name: init, image: i}]}}}}
      - name: node
        template: {metadata: {labels: L}, spec: {template: {spec: {containers: [{name: node, image: i}]}}}}
"""

PATCH = "{manager: x.io/y, trainingRuntimeSpec: {template: {metadata: {labels: {a: %s}}}}}"


def job(spec: str) -> str:
    return f"{{metadata: {{name: j, namespace: ns, uid: u}}, spec: {{runtimeRef: {{name: r}}, {spec}}}}}"


def pods(kit, spec):
    """Pod templates of the jobs by name."""
    jobs = kit.job_set(RUNTIME, job(spec))["spec"]["replicatedJobs"]
    return {one["name"]: one["template"]["spec"]["template"] for one in jobs}


def test_labels_and_annotations_are_those_of_jobset_jobs_and_pods(kit):
    job_set = kit.job_set(RUNTIME, job("labels: {tier: silver, a: b}, annotations: {x: y}"))
    templates = [one["template"] for one in job_set["spec"]["replicatedJobs"]]

    for metadata in (
        job_set["metadata"],
        *(template["metadata"] for template in templates),
        *(template["spec"]["template"]["metadata"] for template in templates),
    ):
        assert metadata["labels"].items() >= {"tier": "silver", "a": "b"}.items()
        assert metadata["annotations"] == {"x": "y"}
    assert STEP.items() <= templates[1]["metadata"]["labels"].items()


STEP = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}


def test_labels_of_a_job_make_no_steps(kit):
    (error,) = kit.errors(RUNTIME, job("labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}"))

    assert error.startswith("spec.labels[trainer.kubeflow.org/trainjob-ancestor-step]: Forbidden: must not be set")


@pytest.mark.parametrize(
    "targets",
    ["targetJobs: [{name: node}], ", "targetJobs: [node], ", "targetJob: node, "],
    ids=["2.0", "names", "one"],
)
def test_pod_spec_overrides_patch_the_pods_of_the_jobs_they_name(kit, targets):
    made = pods(kit, f"podSpecOverrides: [{{{targets}serviceAccountName: sa, nodeSelector: {{pool: a}}}}]")

    assert made["node"]["spec"]["serviceAccountName"] == "sa"
    assert made["node"]["spec"]["nodeSelector"] == {"pool": "a"}
    assert "serviceAccountName" not in made["init"]["spec"]


def test_without_names_they_patch_all(kit):
    made = pods(kit, "podSpecOverrides: [{nodeSelector: {pool: a}}]")

    assert [made[name]["spec"]["nodeSelector"] for name in ("init", "node")] == [{"pool": "a"}] * 2


def test_pod_template_overrides_patch_metadata_and_spec_and_later_ones_win(kit):
    first = "{targetJobs: [{name: node}], metadata: {labels: {a: '1'}}, spec: {nodeSelector: {pool: a}}}"
    made = pods(
        kit, f"podTemplateOverrides: [{first}, {{targetJobs: [{{name: node}}], spec: {{nodeSelector: {{pool: b}}}}}}]"
    )

    assert made["node"]["metadata"]["labels"] == {"a": "1"}
    assert made["node"]["spec"]["nodeSelector"] == {"pool": "b"}


def test_runtime_patches_come_after_them(kit):
    patch = "{manager: a.io/b, trainingRuntimeSpec: {template: {metadata: {labels: {tier: bronze}}}}}"

    assert kit.job_set(RUNTIME, job(f"labels: {{a: b}}, runtimePatches: [{patch}]"))["metadata"]["labels"] == {
        "tier": "bronze",
        "a": "b",
    }


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            "podSpecOverrides: [{targetJobs: [{name: nobody}]}]",
            "must not have targetJob that doesn't exist in the runtime job template",
        ),
        (
            "podTemplateOverrides: [{targetJobs: [{name: node}], spec: {containers: [{name: other}]}}]",
            "must not have container that doesn't exist in the runtime job node",
        ),
        (
            "podSpecOverrides: [{targetJobs: [{name: node}], containers: [{name: node, env: [{name: A, value: b}]}]}]",
            "must not have envs for the dataset-initializer, model-initializer, node containers",
        ),
        (
            "podSpecOverrides: [{targetJobs: [{name: node}], containers: [{name: node, command: [a]}]}]",
            "spec.podSpecOverrides[0].containers[0].command: Forbidden: cannot be overridden",
        ),
        (
            "podTemplateOverrides: [{targetJobs: [{name: node}], spec: {nodeSelector: {pool: 1}}}]",
            "spec.podTemplateOverrides[0].spec.nodeSelector.pool: Invalid value",
        ),
        (
            "podSpecOverrides: [{nodeSelector: {a: b}}], podTemplateOverrides: [{spec: {nodeSelector: {a: b}}}]",
            "spec.podSpecOverrides: Forbidden: must not be set together with podTemplateOverrides",
        ),
        (
            "podSpecOverrides: [{targetJobs: node}]",
            'spec.podSpecOverrides[0].targetJobs: Invalid value: "node": must be a list of objects, each with the name',
        ),
        (
            "podSpecOverrides: [{containers: [{volumeMounts: [{name: v, mountPath: /v}]}]}]",
            "spec.podSpecOverrides[0].containers[0].name: Required value",
        ),
        (
            "podTemplateOverrides: [{spec: {$patch: null}}]",
            "spec.podTemplateOverrides[0].spec.$patch: Forbidden: cannot be overridden",
        ),
        (
            f"labels: {{a: b}}, runtimePatches: [{PATCH % 'c'}]",
            "spec.labels: Forbidden: sets metadata.labels.a to another value than the runtimePatches of x.io/y",
        ),
    ],
    ids=["job", "container", "env", "field", "type", "both", "targets", "nameless", "directive", "patch"],
)
def test_what_they_may_not_say_is_refused(kit, spec, message):
    (error,) = kit.errors(RUNTIME, job(spec))

    assert message in error


def test_overrides_that_make_too_much_of_all_jobs_are_refused_before_they_are_merged(kit):
    overrides = f"podTemplateOverrides: [{{%s spec: {{nodeSelector: {{k: {'v' * 800_000}}}}}}}]"

    (error,) = kit.errors(RUNTIME, job(overrides % ""))
    assert error.startswith("spec: Forbidden: the overrides of the TrainJob have more than 1572864 bytes, written out")
    assert error.endswith("each of the 2 jobs of its runtime; no JobSet is that large: name the jobs they are for")
    assert kit.errors(RUNTIME, job(overrides % "targetJobs: [{name: node}],")) == []


def test_what_agrees_with_a_runtime_patch_is_not_refused(kit):
    assert kit.errors(RUNTIME, job(f"labels: {{a: b}}, runtimePatches: [{PATCH % 'b'}]")) == []


@pytest.mark.parametrize(("suspended", "errors"), [("true", 0), ("false", 1)])
def test_they_change_only_while_the_job_is_suspended(kit, suspended, errors):
    old = job(f"suspend: {suspended}, podTemplateOverrides: [{{spec: {{nodeSelector: {{pool: a}}}}}}]")
    new = job(f"suspend: {suspended}, podTemplateOverrides: [{{spec: {{nodeSelector: {{pool: b}}}}}}]")

    found = kit.errors(RUNTIME, new, old)

    assert len(found) == errors
    assert all("PodTemplateOverrides can only be modified when the TrainJob is suspended" in error for error in found)


@pytest.mark.parametrize("name", ["labels", "annotations"])
def test_labels_and_annotations_are_fixed_once_there_is_a_jobset(kit, name):
    new, old = job(f"suspend: true, {name}: {{a: c}}"), job(f"suspend: true, {name}: {{a: b}}")

    assert kit.errors(RUNTIME, new, old) == []
    owner = OwnerReference(kind="TrainJob", name="j", uid="u", controller=True)
    metadata = ObjectMeta(name="j", namespace="ns", owner_references=(owner,))
    kit.objects["jobsets", Key("ns", "j")] = JobSetState(metadata=metadata)
    (error,) = kit.errors(RUNTIME, new, old)
    assert error.startswith(f"spec.{name}: Forbidden: must not change once the TrainJob has a JobSet")
