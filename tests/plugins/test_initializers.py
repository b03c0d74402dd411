"""DatasetInitializer and ModelInitializer: what their steps are told, and what a runtime must have for them."""

import pytest

STEPS = {"dataset": "dataset-initializer", "model": "model-initializer"}
REF = '{"name":"base","apiGroup":"trainer.kubeflow.org","kind":"TrainingRuntime"}'


def runtime(asset, *, job=None, label=None, container=None, mount="initializer", place="containers"):
    """A runtime with one step, which has all that the plugin asks for unless a word says otherwise."""
    step = STEPS[asset]
    return f"""
spec:
  mlPolicy: {{numNodes: 1}}
  template:
    spec:
      replicatedJobs:
      - name: {job or step}
        replicas: 3
        template:
          metadata: {{labels: {{trainer.kubeflow.org/trainjob-ancestor-step: {label or step}}}}}
          spec: {{template: {{spec: {{
            containers: [{{name: other}}], {place}: [{{name: {container or step},
              env: [{{name: STORAGE_URI, value: "hf://default/set"}}, {{name: KEEP, value: "1"}}],
              envFrom: [{{configMapRef: {{name: cm}}}}],
              volumeMounts: [{{name: {mount}, mountPath: /workspace}}]}}]}}}}}}
      - name: node
        template: {{metadata: {{labels: L}}, spec: {{template: {{spec: {{containers: [{{name: node}}]}}}}}}}}
"""


def job(asset, said):
    return f"""
metadata: {{name: tj, namespace: team, uid: uid-1}}
spec:
  runtimeRef: {{apiGroup: trainer.kubeflow.org, kind: TrainingRuntime, name: base}}
  initializer: {{{asset}: {said}}}
  trainer: {{}}
"""


URI = {"name": "STORAGE_URI", "value": "s3://bucket/data"}
OWN_URI = {"name": "STORAGE_URI", "value": "hf://default/set"}
KEEP = {"name": "KEEP", "value": "1"}


@pytest.mark.parametrize("asset", STEPS)
@pytest.mark.parametrize(
    ("said", "env"),
    [
        ("{storageUri: s3://bucket/data}", [URI, KEEP]),
        (
            "{storageUri: s3://bucket/data, env: [{name: TOKENS, value: '9'}, {name: KEEP, value: '2'}]}",
            [URI, {"name": "KEEP", "value": "2"}, {"name": "TOKENS", "value": "9"}],
        ),
        ("{storageUri: hf://a/b, env: [{name: STORAGE_URI, value: s3://bucket/data}]}", [URI, KEEP]),
        ("{storageUri: ''}", [{"name": "STORAGE_URI", "value": ""}, KEEP]),
        ("{}", [OWN_URI, KEEP]),
    ],
)
def test_uri_and_variables_are_laid_over_the_runtimes_in_their_places(kit, asset, said, env):
    assert kit.container(runtime(asset), job(asset, said))["env"] == env


@pytest.mark.parametrize("asset", STEPS)
def test_the_secret_comes_after_the_runtimes_sources_of_variables(kit, asset):
    container = kit.container(runtime(asset), job(asset, "{secretRef: {name: creds}}"))

    assert container["envFrom"] == [{"configMapRef": {"name": "cm"}}, {"secretRef": {"name": "creds"}}]


@pytest.mark.parametrize("asset", STEPS)
def test_a_step_that_the_trainjob_does_not_mention_runs_once_as_the_runtime_says(kit, asset):
    other = "model" if asset == "dataset" else "dataset"
    step = kit.job_set(runtime(asset), job(other, "{storageUri: s3://x/y}"))["spec"]["replicatedJobs"][0]

    assert step["replicas"] == 1
    assert step["template"]["spec"]["template"]["spec"]["containers"][0]["env"] == [OWN_URI, KEEP]


def test_the_label_decides_which_job_is_told_not_its_name(kit):
    said = "{storageUri: s3://bucket/data}"

    assert kit.container(runtime("dataset", job="fetch"), job("dataset", said))["env"] == [URI, KEEP]
    assert kit.container(runtime("dataset", label="none"), job("dataset", said))["env"] == [OWN_URI, KEEP]


def test_the_trainjob_is_the_author_of_what_it_says(kit):
    provenance = kit.plan(runtime("model"), job("model", "{storageUri: s3://bucket/data}")).provenance

    container = "replicatedJobs[model-initializer].template.spec.template.spec.containers[model-initializer]"
    assert provenance[f"{container}.env[STORAGE_URI]"] == "TrainJob"


@pytest.mark.parametrize("asset", STEPS)
@pytest.mark.parametrize(
    ("lacking", "detail"),
    [
        ({}, None),
        ({"job": "fetch"}, "must have {step} job when trainJob is configured with input {asset}Config"),
        ({"container": "fetch"}, "must have container with name - {step} in the {step} job"),
        (
            {"mount": "data"},
            "must have volumeMount with name - initializer in container {step} of the {step} job",
        ),
        (
            {"place": "initContainers"},
            "must have volumeMount with name - initializer in container {step} of the {step} job",
        ),
    ],
    ids=str,
)
def test_a_runtime_without_job_container_or_mount_is_refused(kit, asset, lacking, detail):
    errors = kit.errors(runtime(asset, **lacking), job(asset, "{storageUri: s3://bucket/data}"))

    text = detail and detail.format(step=STEPS[asset], asset=asset)
    assert errors == ([f"spec.runtimeRef: Invalid value: {REF}: {text}"] if text else [])


def test_a_patch_may_bring_the_mount(kit):
    pod = (
        "{containers: [{name: dataset-initializer, volumeMounts: [{name: initializer, mountPath: /data}]}],"
        " volumes: [{name: initializer, emptyDir: {}}]}"
    )
    step = f"{{name: dataset-initializer, template: {{spec: {{template: {{spec: {pod}}}}}}}}}"
    patch = (
        "  runtimePatches: [{manager: acme.io/ops,"
        f" trainingRuntimeSpec: {{template: {{spec: {{replicatedJobs: [{step}]}}}}}}}}]\n"
    )

    assert kit.errors(runtime("dataset", mount="data"), job("dataset", "{storageUri: s3://b/d}") + patch) == []
