"""The open slots of runtimes: who takes them, what may be in them, and what is said of the rest."""

import msgspec
import pytest
from structlog.testing import capture_logs

from ktrain.api import trainer as api
from ktrain.pipeline import PlanError, Registry, plan, validate

from .test_runner import JOB, RUNTIME, context

CONFIG = {
    "type": "object",
    "required": ["ranks"],
    "properties": {"ranks": {"type": "integer", "minimum": 1}, "network": {"type": "string", "default": "eth0"}},
}


class Acme:
    name = "acme"
    schemas = {"mlPolicy": CONFIG}

    def enforce_ml_policy(self, info, ctx):
        """Only its name and schema matter here."""


def runtime(slot, **plugin):
    spec = msgspec.json.decode(msgspec.json.encode(RUNTIME)) | {slot: {"plugin": plugin}}
    return msgspec.json.decode(msgspec.json.encode(spec), type=api.RuntimeSpec)


def said(spec, *plugins, old=None):
    return [str(error) for error in validate(Registry(plugins), JOB, old, spec, context()).errors]


def test_a_configuration_that_fits_is_taken():
    spec = runtime("mlPolicy", name="acme", config={"ranks": 2})

    assert said(spec, Acme()) == []
    assert plan(Registry([Acme()]), JOB, spec, context()).components == ()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "spec.mlPolicy.plugin.config.ranks: Required value"),
        (
            {"ranks": 0},
            "spec.mlPolicy.plugin.config.ranks: Invalid value: 0: spec.mlPolicy.plugin.config.ranks in body should be",
        ),
        ({"ranks": "2"}, 'spec.mlPolicy.plugin.config.ranks: Invalid value: "string"'),
        ({"ranks": 1, "rank": 2}, "spec.mlPolicy.plugin.config.rank: unknown field"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused_with_its_path(config, message):
    (error,) = said(runtime("mlPolicy", name="acme", config=config), Acme())

    assert error.startswith(f"spec.runtimeRef: Forbidden: the runtime's {message}")


@pytest.mark.parametrize(
    ("slot", "name", "there"),
    [("mlPolicy", "acne", "acme"), ("podGroupPolicy", "acme", "none"), ("mlPolicy", "", "acme")],
)
def test_a_runtime_of_a_plugin_that_nobody_installed_is_refused_and_never_built_without_it(slot, name, there):
    spec = runtime(slot, name=name, config={"ranks": 2})
    text = f'the runtime\'s spec.{slot}.plugin names "{name}", and no such plugin is installed; there are: {there}'

    assert said(spec, Acme()) == [f"spec.runtimeRef: Forbidden: {text}"]
    with pytest.raises(PlanError, match=text):
        plan(Registry([Acme()]), JOB, spec, context())


def test_no_plugin_is_asked_about_a_configuration_that_its_schema_refuses():
    class Trusting(Acme):
        def validate(self, info, job, old, ctx):
            raise AssertionError(info.runtime.ml_policy.plugin.config)

    assert len(said(runtime("mlPolicy", name="acme", config={"ranks": "many"}), Trusting())) == 1


def test_a_job_that_runs_may_change_although_its_runtime_names_another_plugin_now():
    assert said(runtime("mlPolicy", name="gone"), Acme(), old=JOB) == []


@pytest.mark.parametrize(
    ("schemas", "reason"),
    [
        ({"jobPolicy": CONFIG}, "`schemas` must be a dict from slots (mlPolicy, podGroupPolicy) to schemas"),
        ({"mlPolicy": "object"}, "schemas['mlPolicy'] must be a schema: a dict"),
        ({"mlPolicy": {"type": "array", "items": {"type": "string"}}}, "schemas['mlPolicy'].type: Invalid value"),
        ({"mlPolicy": {"type": "object", "properties": {"a": {}}}}, "schemas['mlPolicy'].properties[a].type: Required"),
    ],
)
def test_a_plugin_whose_schema_is_none_is_left_out_and_runtimes_that_name_it_say_why(schemas, reason):
    with capture_logs() as logs:
        registry = Registry([type("Broken", (Acme,), {"schemas": schemas})()])

    assert registry.names == ()
    assert reason in registry.failures[0].reason
    assert [entry["event"] for entry in logs] == ["plugin.unusable"]
    error = validate(registry, JOB, None, runtime("mlPolicy", name="acme"), context()).message
    assert 'spec.mlPolicy.plugin names "acme", which is installed and cannot be used: ' in error
    assert reason in error
