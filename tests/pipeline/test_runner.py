"""Running the phases: order, conflicts, and plugins that fail."""

import random
from datetime import UTC, datetime

import msgspec
import pytest
import structlog
from structlog.testing import capture_logs

from ktrain.api import trainer as api
from ktrain.api.core import CONFIG_MAPS
from ktrain.api.meta import ObjectMeta
from ktrain.pipeline import Component, Context, PlanError, PluginConflict, PluginError, Registry, plan, validate
from ktrain.pipeline.findings import Findings, forbidden, invalid
from ktrain.pipeline.info import literal
from ktrain.plugins.jobset import JobSet

JOB = api.TrainJob(metadata=ObjectMeta(name="tj", namespace="team", uid="u"))
RUNTIME = msgspec.json.decode(
    b"""{"mlPolicy": {"numNodes": 2}, "template": {"spec": {"replicatedJobs": [{"name": "node", "template": {
    "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
    "spec": {"template": {"spec": {"containers": [{"name": "node"}]}}}}}]}}}""",
    type=api.RuntimeSpec,
)


class Ticking:
    """A clock that advances by a second each time it is read."""

    def __init__(self, step_s: float) -> None:
        self.now_s, self.step_s = 0.0, step_s

    def __call__(self) -> float:
        self.now_s += self.step_s
        return self.now_s


def context(step_s: float = 0.0) -> Context:
    return Context(
        lookup=lambda resource, key: None,
        now=datetime(2026, 1, 1, tzinfo=UTC),
        random=random.Random(1),
        log=structlog.get_logger(),
        monotonic=Ticking(step_s),
    )


def sets_env(plugin_name: str, value: str):
    class Plugin:
        name = plugin_name

        def enforce_ml_policy(self, info, ctx):
            info.trainer_container.set_env(literal("X", value))

    return Plugin()


class Recording:
    name = "Recording"

    def __init__(self) -> None:
        self.calls: list[str] = []

    def enforce_pod_group_policy(self, info, ctx):
        self.calls.append("EnforcePodGroupPolicy")

    def enforce_ml_policy(self, info, ctx):
        self.calls.append("EnforceMLPolicy")

    def enforce_pod_spec(self, info, ctx):
        self.calls.append("EnforcePodSpec")

    def pod_network(self, info, ctx):
        self.calls.append("PodNetwork")

    def build(self, info, ctx):
        self.calls.append("ComponentBuilder")
        return [Component(CONFIG_MAPS, {"metadata": {"name": "c"}})]


def test_the_build_phase_asks_its_extension_points_in_order():
    recording = Recording()
    made = plan(Registry([recording]), JOB, RUNTIME, context())

    assert recording.calls == [
        "EnforcePodGroupPolicy",
        "EnforceMLPolicy",
        "EnforcePodSpec",
        "PodNetwork",
        "ComponentBuilder",
    ]
    assert [component.resource for component in made.components] == [CONFIG_MAPS]


def test_two_plugins_that_differ_in_one_field_are_both_named():
    with pytest.raises(
        PluginConflict, match=r"plugin Two .* team/tj: it sets .*env\[X\], which plugin One has set"
    ) as e:
        plan(Registry([sets_env("One", "1"), sets_env("Two", "2")]), JOB, RUNTIME, context())

    assert (e.value.first, e.value.plugin) == ("One", "Two")


WRITES = {
    "label": (lambda info, value: info.set_metadata("labels", "x", value), "metadata.labels.x"),
    "annotation": (lambda info, value: info.set_metadata("annotations", "x", value), "metadata.annotations.x"),
    "pod label": (
        lambda info, value: info.set_pod_metadata("labels", "x", value),
        "replicatedJobs[node].template.spec.template.metadata.labels.x",
    ),
    "replicas": (lambda info, value: info.pod_sets[0].set_replicas(len(value)), "replicatedJobs[node].replicas"),
    "job field": (
        lambda info, value: info.pod_sets[0].set_job_field("backoffLimit", len(value)),
        "replicatedJobs[node].template.spec.backoffLimit",
    ),
}


def writing(plugin_name, write, value):
    def enforce_pod_group_policy(self, info, ctx):
        write(info, value)

    return type("Writing", (), {"name": plugin_name, "enforce_pod_group_policy": enforce_pod_group_policy})()


@pytest.mark.parametrize("what", WRITES)
def test_whatever_two_plugins_set_differently_both_are_named(what):
    write, path = WRITES[what]
    one, two = writing("One", write, "1"), writing("Two", write, "22")

    with pytest.raises(PluginConflict) as conflict:
        plan(Registry([one, two, JobSet()]), JOB, RUNTIME, context())

    assert (conflict.value.first, conflict.value.plugin) == ("One", "Two")
    assert f"it sets {path}, which plugin One has set" in str(conflict.value)
    assert plan(Registry([one]), JOB, RUNTIME, context()).provenance == {path: "plugin One"}


def test_what_is_not_set_by_a_method_cannot_be_set():
    def write(info, value):
        info.labels["x"] = value

    with pytest.raises(PluginError, match="'mappingproxy' object does not support item assignment"):
        plan(Registry([writing("One", write, "1")]), JOB, RUNTIME, context())


def test_two_plugins_that_agree_are_no_conflict():
    provenance = plan(Registry([sets_env("One", "1"), sets_env("Two", "1")]), JOB, RUNTIME, context()).provenance

    assert list(provenance.values()) == ["plugin Two"]


class Broken:
    name = "Broken"

    def enforce_pod_spec(self, info, ctx):
        raise KeyError("gone")

    def validate(self, info, job, old, ctx):
        raise KeyError("gone")


def test_a_plugin_that_raises_is_named_with_hook_and_job():
    registry = Registry([Broken()])

    with pytest.raises(
        PluginError, match="plugin Broken failed in EnforcePodSpec for TrainJob team/tj: KeyError: 'gone'"
    ):
        plan(registry, JOB, RUNTIME, context())
    with pytest.raises(PluginError, match="CustomValidation"):
        validate(registry, JOB, None, RUNTIME, context())


class Refusing:
    name = "Refusing"

    def enforce_ml_policy(self, info, ctx):
        raise PlanError("two is not a power of three")


def test_a_plugin_that_refuses_has_the_word():
    with pytest.raises(PlanError, match=r"^two is not a power of three$"):
        plan(Registry([Refusing()]), JOB, RUNTIME, context())


def test_hooks_are_measured_and_slow_ones_are_reported():
    with capture_logs() as logs:
        made = plan(Registry([sets_env("Slow", "1")]), JOB, RUNTIME, context(step_s=1.0))

    assert made.durations == {"Slow": 1.0}
    assert [(entry["event"], entry["plugin"]) for entry in logs] == [("plugin.slow", "Slow")]


def test_a_runtime_whose_template_is_malformed_is_a_plan_error():
    runtime = msgspec.json.decode(b'{"template": {"spec": {"replicatedJobs": ["no"]}}}', type=api.RuntimeSpec)

    with pytest.raises(PlanError, match="malformed"):
        plan(Registry([]), JOB, runtime, context())


def test_findings_of_all_validators_read_as_the_api_server_writes_them():
    class Strict:
        name = "Strict"

        def validate(self, info, job, old, ctx):
            return Findings((invalid("spec.a", {"b": "c"}, "no"), forbidden("spec.d", "never")), ("careful",))

    findings = validate(Registry([Strict()]), JOB, None, RUNTIME, context())

    assert findings.message == '[spec.a: Invalid value: {"b":"c"}: no, spec.d: Forbidden: never]'
    assert findings.warnings == ("careful",)
    assert Findings((forbidden("spec.d", "never"),) * 2).message == "spec.d: Forbidden: never"
