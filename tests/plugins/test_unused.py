"""Fields of a TrainJob that change nothing on its runtime, and those that only seem to."""

import pytest

from ktrain.pipeline import unused
from ktrain.pipeline.errors import PlanError
from ktrain.pipeline.info import literal
from ktrain.pipeline.registry import Registry
from ktrain.plugins.jobset import JobSet

LABEL = "trainer.kubeflow.org/trainjob-ancestor-step"
NODE = "{name: node, template: {metadata: {labels: L}, spec: {template: {spec: {containers: [{name: node}]}}}}}"
UNLABELLED = "{name: NAME, template: {spec: {template: {spec: {containers: [{name: NAME, image: i}]}}}}}"
MINIMAL = "{image: mine, command: [a], args: [b], env: [{name: A, value: a}]}"


def runtime(policy="{}", *jobs):
    return f"spec: {{mlPolicy: {policy}, template: {{spec: {{replicatedJobs: [{', '.join(jobs or (NODE,))}]}}}}}}"


def job(spec):
    return f"metadata: {{name: j, namespace: ns, uid: u}}\nspec: {{runtimeRef: {{name: rt}}, {spec}}}"


@pytest.fixture
def found(kit):
    def found(runtime, spec):
        all_found = unused(kit.registry, kit.job(job(spec)), kit.runtime(runtime), kit.context)
        return {path: one.reason for one in all_found for path in one.paths}

    return found


POLICIES = ["{}", "{torch: {}}", "{jax: {}}", "{xgboost: {}}", "{flux: {}}", "{numNodes: 3}"]


@pytest.mark.parametrize("policy", POLICIES)
def test_what_every_trainer_gets_has_an_effect(found, policy):
    fields = "image: mine, command: [a], args: [b], env: [{name: A, value: a}], numNodes: 3"

    assert found(runtime(policy), f"trainer: {{{fields}, resourcesPerNode: {{requests: {{cpu: 1}}}}}}") == {}


def test_a_runtime_that_takes_long_to_plan_is_not_tried(found):
    others = [UNLABELLED.replace("NAME", f"other-{number}-{'x' * 40}") for number in range(400)]

    assert found(runtime("{}", NODE, *others), "trainer: {numProcPerNode: 2}") == {}
    assert found(runtime("{}", NODE, *others[:2]), "trainer: {numProcPerNode: 2}") != {}


@pytest.mark.parametrize("policy", POLICIES)
def test_processes_per_node_have_an_effect_where_a_policy_has_them(found, policy):
    has_them = "torch" in policy or "flux" in policy
    reason = "no policy or plugin of the runtime uses it"

    assert found(runtime(policy), "trainer: {numProcPerNode: 2}") == (
        {} if has_them else {"spec.trainer.numProcPerNode": reason}
    )


def test_a_value_that_is_the_runtimes_own_has_an_effect(found):
    """Another one would change the job: the user says it, and it counts."""
    own = NODE.replace("{name: node}", "{name: node, image: i, args: [x], env: [{name: A, value: a}]}")
    spec = "trainer: {image: i, args: [x], env: [{name: A, value: a}], numNodes: 1}"

    assert found(runtime("{numNodes: 1, torch: {}}", own), spec) == {}


def test_a_field_that_another_of_the_job_overrides_is_not_reported(found):
    step = UNLABELLED.replace("template: {spec", f"template: {{metadata: {{labels: {{{LABEL}: NAME}}}}, spec", 1)
    spec = "initializer: {dataset: {storageUri: 's3://a/b', env: [{name: STORAGE_URI, value: 's3://c/d'}]}}"
    patch = "trainingRuntimeSpec: {template: {metadata: {labels: {tier: %s}}}}"

    assert found(runtime("{}", step.replace("NAME", "dataset-initializer"), NODE), spec) == {}
    assert found(runtime(), f"runtimePatches: [{{manager: a/b, {patch % 'x'}}}, {{manager: c/d, {patch % 'y'}}}]") == {}


def test_a_runtime_without_a_trainer_has_no_use_for_one(found):
    spec = f"trainer: {MINIMAL.replace('}]}', '}], numNodes: 5}')}"
    reason = "no job of the runtime is labelled as the step trainer"
    paths = [f"spec.trainer.{key}" for key in ("image", "command", "args", "env", "numNodes")]

    assert found(runtime("{torch: {}}", UNLABELLED.replace("NAME", "node")), spec) == dict.fromkeys(paths, reason)


def test_an_initializer_without_a_label_is_told_nothing(found):
    spec = "initializer: {model: {storageUri: 'hf://a/b', secretRef: {name: s}}}"
    shape = runtime("{}", UNLABELLED.replace("NAME", "model-initializer"), NODE)
    reason = "no job of the runtime is labelled as the step model-initializer"

    assert found(shape, spec) == {
        "spec.initializer.model.storageUri": reason,
        "spec.initializer.model.secretRef": reason,
    }


def test_a_container_that_cannot_be_told_gets_nothing(found):
    (reason,) = set(
        found(runtime("{}", NODE.replace("{name: node}", "{name: a}, {name: b}")), "trainer: {image: x}").values()
    )

    assert reason == "no container of the runtime's job node can be told to be that of the step trainer"


def test_resources_without_an_ml_policy_have_no_effect_in_upstreams_form_alone(kit, found):
    spec = "trainer: {resourcesPerNode: {limits: {cpu: 2}}}"
    bare = runtime("X").replace("mlPolicy: X, ", "")
    proposals = bare.replace("metadata: {labels: L}, spec: {template: {", "spec: {template: {metadata: {labels: L}, ")
    (one,) = unused(kit.registry, kit.job(job(spec)), kit.runtime(bare), kit.context)

    assert one.is_upstreams
    assert str(one) == (
        "spec.trainer.resourcesPerNode: no effect, because the runtime has no mlPolicy, which says what a node is"
    )
    assert found(proposals, spec) == {}
    assert kit.container(proposals, job(spec))["resources"] == {"limits": {"cpu": "2"}}


def test_what_a_patch_says_of_the_jobsets_name_has_no_effect(found):
    metadata = "{name: other, finalizers: [a/b], labels: {a: b}, annotations: {c: d}}"
    spec = f"runtimePatches: [{{manager: a/b, trainingRuntimeSpec: {{template: {{metadata: {metadata}}}}}}}]"

    assert [path.rpartition(".")[2] for path in found(runtime(), spec)] == ["name", "finalizers"]


def test_older_shapes_have_an_effect_unless_they_are_empty(found):
    spec = "labels: {a: b}, annotations: {a: b}, podSpecOverrides: [{targetJobs: [{name: node}], nodeSelector: {a: b}}]"

    assert found(runtime(), spec) == {}
    assert list(found(runtime(), "podTemplateOverrides: [{targetJobs: [{name: node}]}]")) == [
        "spec.podTemplateOverrides[0]"
    ]


def test_the_nodes_of_an_mpi_job_with_a_working_launcher_have_an_effect_though_two_are_as_one(found):
    launcher = NODE.replace("name: node, template", "name: launcher, template")
    shape = runtime("{mpi: {runLauncherAsNode: true}}", UNLABELLED.replace("NAME", "node"), launcher)

    assert found(shape, "trainer: {numNodes: 1, numProcPerNode: 2}") == {}


class Extra:
    """Somebody's plugin that reads a field which ktrain's leave alone."""

    name = "Extra"
    before = ("JobSet",)

    def __init__(self, enforce):
        self.enforce_ml_policy = enforce


def with_plugin(kit, enforce):
    return unused(
        Registry([JobSet(), Extra(enforce)]),
        kit.job(job("trainer: {numProcPerNode: 2, numNodes: 2}")),
        kit.runtime(runtime()),
        kit.context,
    )


def test_a_field_that_only_a_plugin_of_others_uses_has_an_effect(kit):
    def enforce(info, ctx):
        info.trainer_container.set_env(literal("RANKS", str(info.job.spec.trainer.num_proc_per_node)))

    assert [one.paths for one in with_plugin(kit, enforce)] == [("spec.trainer.numNodes",)]


def test_a_plugin_that_refuses_or_draws_tells_nothing(kit):
    def refuses(info, ctx):
        raise PlanError("never")

    draws = iter(range(100))

    def draw(info, ctx):
        info.trainer_container.set_env(literal("DRAWN", str(next(draws))))

    assert with_plugin(kit, refuses) == ()
    assert with_plugin(kit, draw) == ()


def test_trials_count_in_no_metric(kit):
    unused(kit.registry, kit.job(job("trainer: {image: never-counted}")), kit.runtime(runtime()), kit.context)

    assert [metric.samples for metric in kit.registry.calls.collect()] == [[], []]


def test_the_answer_for_jobs_that_say_the_same_is_remembered(kit):
    context = kit.context

    def ask(name):
        trainer = f"{{image: {name}, args: [{name}], env: [{{name: A, value: {name}}}], numProcPerNode: 2}}"
        text = job(f"trainer: {trainer}").replace("name: j", f"name: {name}")
        return unused(kit.registry, kit.job(text), kit.runtime(runtime()), context)

    first = ask("a")

    assert ask("b") is first
