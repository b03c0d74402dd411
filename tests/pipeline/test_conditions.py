"""Conditions that plugins set on a TrainJob: of which types, how many, and of one type one."""

from __future__ import annotations

from msgspec.structs import replace

from ktrain.api.meta import Condition
from ktrain.api.trainer import TrainJobStatus
from ktrain.pipeline import Registry, conditions

from .test_runner import JOB, context


def plugin(name: str, *types: str):
    """A plugin that sets conditions of these types."""
    answer = [Condition(f"{name}.io/{type_}" if "/" not in type_ else type_, "True", "R", "m") for type_ in types]
    return type(name, (), {"name": name, "conditions": lambda *_: answer})()


def asked(*plugins, job=JOB):
    failures = []
    found = conditions(Registry(plugins), job, context(), failures)
    return [one.type for one in found], [str(failure) for failure in failures]


def test_all_plugins_are_asked():
    assert asked(plugin("a", "Saved"), plugin("b", "Warm", "Cold")) == (["a.io/Saved", "b.io/Warm", "b.io/Cold"], [])


def test_a_type_that_another_plugin_sets_is_refused_by_name():
    found, failures = asked(plugin("a", "x.io/Saved"), plugin("b", "x.io/Saved", "Warm"))

    assert found == ["x.io/Saved", "b.io/Warm"]
    [failure] = failures
    assert "plugin b failed in Conditions for TrainJob team/tj: plugin a sets the condition x.io/Saved, too" in failure


def test_five_conditions_fit_beside_kubeflows_and_those_of_other_controllers_count():
    there = (Condition("z.io/Seen", "True"), Condition("Suspended", "False"), Condition("a.io/T0", "False"))
    job = replace(JOB, status=TrainJobStatus(there))

    found, failures = asked(plugin("a", *(f"T{number}" for number in range(5))), job=job)

    assert found == [f"a.io/T{number}" for number in range(4)]
    [failure] = failures
    assert "no room for its condition a.io/T4: a TrainJob has at most 5 conditions besides Kubeflow's" in failure


def test_a_plugin_that_fails_costs_no_other_its_conditions():
    broken = type("Broken", (), {"name": "Broken", "conditions": lambda *_: 1 / 0})()

    found, failures = asked(broken, plugin("a", "Saved"))

    assert found == ["a.io/Saved"]
    assert "plugin Broken failed in Conditions for TrainJob team/tj: ZeroDivisionError" in failures[0]
