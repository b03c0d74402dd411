"""No field of a TrainJob is taken and dropped: it changes what is built, is refused, or is reported."""

from pathlib import Path

import msgspec
import pytest
import yaml

from ktrain.api import trainer as api
from ktrain.pipeline import PipelineError, unused, validate

from .conftest import load
from .test_steps import runtime, step

ROOT = Path(__file__).parents[2]
MOUNT = ", volumeMounts: [{name: initializer, mountPath: /workspace}]"
PATCH = "{manager: a/b, trainingRuntimeSpec: {template: {metadata: {%s}}}}"
FIELDS = [  # with values that no runtime below has
    "trainer: {image: other}",
    "trainer: {command: [other]}",
    "trainer: {args: [other]}",
    "trainer: {env: [{name: OTHER, value: other}]}",
    "trainer: {numNodes: 7}",
    "trainer: {numNodes: 0}",
    "trainer: {numProcPerNode: 7}",
    "trainer: {processesPerNode: cpu}",
    "trainer: {processesPerNode: gpu}",
    "trainer: {resourcesPerNode: {limits: {cpu: 77}}}",
    "trainer: {resourcesPerNode: {requests: {memory: 7Gi}}}",
    *(f"initializer: {{{asset}: {{storageUri: 's3://other/one'}}}}" for asset in ("dataset", "model")),
    *(f"initializer: {{{asset}: {{env: [{{name: OTHER, value: o}}]}}}}" for asset in ("dataset", "model")),
    *(f"initializer: {{{asset}: {{secretRef: {{name: other}}}}}}" for asset in ("dataset", "model")),
    "labels: {other: a}",
    "annotations: {other: a}",
    "podSpecOverrides: [{nodeSelector: {other: a}}]",
    "podSpecOverrides: [{targetJobs: [{name: other}], nodeSelector: {other: a}}]",
    "podSpecOverrides: [{targetJobs: [{name: node}]}]",
    "podTemplateOverrides: [{metadata: {labels: {other: a}}}]",
    "elasticNodes: 7",
    "elasticNodes: 3",
    f"runtimePatches: [{PATCH % 'labels: {other: a}'}]",
    f"runtimePatches: [{PATCH % 'finalizers: [a/b]'}]",
    f"runtimePatches: [{PATCH % 'name: other'}]",
]


def shipped():
    """The runtimes that ktrain ships."""
    for path in sorted((ROOT / "config" / "runtimes").glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            if document and document["kind"].endswith("TrainingRuntime"):
                yield document["metadata"]["name"], document


def proposed():
    """Runtimes in the forms of KEP-2170, as it has them for each policy."""
    trainer = step("node", "trainer", "trainer")
    assets = [step(name, name, name, rest=MOUNT) for name in ("dataset-initializer", "model-initializer")]
    launcher = step("launcher", "trainer", "mpi-launcher")
    elastic = "{torch: {elasticPolicy: {minNodes: 2, maxNodes: 9}}}"
    yield "torch", runtime("{numNodes: 2, torch: {numProcPerNode: 5}}", trainer)
    yield "simple", runtime("X", trainer).replace("mlPolicy: X, ", "")
    yield "elastic", runtime(elastic, trainer)
    yield "fine-tuning", runtime("{numNodes: 1}", *assets, trainer)
    yield "unlabelled", runtime("{numNodes: 1}", *assets, step("node", "", "trainer"))
    yield "mpi", runtime("{numNodes: 2, mpi: {numProcPerNode: 5}}", launcher, step("node", "", "trainer"))
    yield "working launcher", runtime("{mpi: {runLauncherAsNode: true}}", launcher, step("node", "", "trainer"))
    yield "jax", runtime("{jax: {}}", trainer)
    yield "xgboost", runtime("{xgboost: {}}", trainer)
    yield "flux", runtime("{flux: {}}", trainer)


RUNTIMES = {**dict(shipped()), **{name: load(text) for name, text in proposed()}}


def built(kit, job, runtime):
    return [component.body for component in kit.plan_of(job, runtime).components]


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("name", RUNTIMES)
def test_a_field_changes_the_plan_or_is_refused_or_reported(kit, name, field):
    spec = msgspec.json.decode(msgspec.json.encode(RUNTIMES[name]["spec"]), type=api.RuntimeSpec)
    # Beside `trainer: {}`, without which frameworks leave the container alone.
    head = f"metadata: {{name: j, namespace: ns, uid: u}}\nspec: {{runtimeRef: {{name: {name.replace(' ', '-')}}}"
    bare = kit.job(f"{head}, trainer: {{}}}}")
    job = kit.job(f"{head}, {field}}}" if field.startswith("trainer") else f"{head}, trainer: {{}}, {field}}}")

    if validate(kit.registry, job, None, spec, kit.context).errors:
        return
    try:
        changes = built(kit, job, spec) != built(kit, bare, spec)
    except PipelineError:
        return
    reported = unused(kit.registry, job, spec, kit.context)
    assert changes is not bool(reported), [str(one) for one in reported]
