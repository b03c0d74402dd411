"""Plugins that break their contract: each costs the jobs it is asked about, by name, and nobody else."""

from __future__ import annotations

import signal
import threading
import time
from datetime import UTC, datetime

import pytest

from ktrain.api.core import CONFIG_MAPS
from ktrain.api.meta import Condition
from ktrain.pipeline import (
    Address,
    Component,
    PluginError,
    Registry,
    gangs,
    overrun,
    plan,
    removals,
    runner,
    size,
    validate,
)

from .test_runner import JOB, RUNTIME, context

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def told(registry, ctx):
    """Ask for conditions, a phase that never raises, and raise what it notes."""
    failures = []
    runner.conditions(registry, JOB, ctx, failures)
    for failure in failures:
        raise failure


PHASES = {
    "validate": lambda registry, ctx: validate(registry, JOB, None, RUNTIME, ctx),
    "terminal_condition": lambda registry, ctx: runner.terminal_condition(registry, JOB, ctx),
    "conditions": told,
    "jobs_status": lambda registry, ctx: runner.jobs_status(registry, JOB, ctx),
    "size": lambda registry, ctx: size(registry, JOB, RUNTIME, ctx),
    "gangs": lambda registry, ctx: gangs(registry, JOB, RUNTIME, ctx),
    "upkeep": lambda registry, ctx: runner.upkeep(registry, JOB, RUNTIME, ctx),
    "removals": lambda registry, ctx: removals(registry, JOB, ctx),
}


def plugin(hook: str, function):
    return type("Broken", (), {"name": "Broken", hook: staticmethod(function)})()


def run(hook: str, function, ctx=None):
    """Have a plugin that does *function* in *hook* take part in that hook's phase."""
    phase = PHASES.get(hook, lambda registry, ctx: plan(registry, JOB, RUNTIME, ctx))
    return phase(Registry([plugin(hook, function)]), ctx or context())


async def later():
    """What a hook returns that was written as a coroutine function behind a decorator."""


@pytest.mark.parametrize(
    ("hook", "answer", "expected"),
    [
        ("validate", None, "Findings"),
        ("validate", ["spec.a: no"], "Findings"),
        ("enforce_pod_group_policy", {}, "nothing"),
        ("enforce_ml_policy", "done", "nothing"),
        ("enforce_pod_spec", True, "nothing"),
        ("pod_network", later, "nothing"),
        ("build", None, "a list of Components"),
        ("build", {"kind": "ConfigMap"}, "a list of Components"),
        ("build", (part for part in ()), "a list of Components"),
        ("build", [{"kind": "ConfigMap"}], "a list of Components"),
        ("build", [Component("configmaps", {"metadata": {"name": "c"}})], "a Resource"),
        ("build", [Component(CONFIG_MAPS, {})], "a body that has a name"),
        ("build", [Component(CONFIG_MAPS, {"metadata": {"name": 7}})], "a body that has a name"),
        ("terminal_condition", True, "a Condition or None"),
        ("terminal_condition", Condition("Ended", "True", "R", "m", NOW), "Complete or Failed"),
        ("terminal_condition", Condition("Complete", "False", "R", "m", NOW), "True"),
        ("terminal_condition", Condition("Failed", "True", "it failed", "m", NOW), "a reason in CamelCase"),
        ("terminal_condition", Condition("Failed", "True", "R", None, NOW), "a message"),
        ("conditions", None, "a list of Conditions"),
        ("conditions", [Condition("Checkpointed", "True", "R", "m")], "a type with a prefix"),
        ("conditions", [Condition("Complete", "True", "R", "m")], "a type with a prefix"),
        ("conditions", [Condition("/Complete", "True", "R", "m")], "a type with a prefix"),
        ("conditions", [Condition("a.io/" + "C" * 312, "True", "R", "m")], "a type with a prefix"),
        ("conditions", [Condition("a.io/C", "yes", "R", "m")], "the status True, False or Unknown"),
        ("conditions", [Condition("a.io/C", "True", "", "m")], "a reason in CamelCase"),
        ("conditions", [Condition("a.io/C", "True", "R", "m", "now")], "a list of Conditions"),
        ("jobs_status", [], "a tuple of JobStatus or None"),
        ("jobs_status", ({"name": "node"},), "a tuple of JobStatus or None"),
        ("size", 3, "a Size or None"),
        ("gangs", "job", "a list of Gangs"),
        ("upkeep", "job", "a list of Addresses"),
        ("removals", None, "a list of Removals"),
    ],
)
def test_a_hook_that_returns_what_it_must_not_is_named(hook, answer, expected):
    with pytest.raises(PluginError, match=r"plugin Broken failed in \w+ for TrainJob team/tj: it returned") as error:
        run(hook, lambda *_: answer)

    assert expected in str(error.value)


def test_what_a_hook_may_return_is_taken():
    end = Condition("Complete", "True", "R", "m", NOW)

    assert run("terminal_condition", lambda *_: end) == end
    assert run("jobs_status", lambda *_: ()) == ()
    assert run("gangs", lambda *_: ()) == ()
    assert run("upkeep", lambda *_: [Address(CONFIG_MAPS, JOB.key)]) == (Address(CONFIG_MAPS, JOB.key),)
    assert run("removals", lambda *_: []) == ()
    assert run("build", lambda *_: []).components == ()


@pytest.mark.parametrize("hook", ["enforce_ml_policy", "validate", "terminal_condition"])
def test_a_hook_that_ends_the_process_ends_its_job_only(hook):
    def leave(*_):
        raise SystemExit(3)

    with pytest.raises(PluginError, match="SystemExit: 3"):
        run(hook, leave)


def sleep(*_):
    time.sleep(30)


def sleep_on(*_):
    while True:
        try:
            time.sleep(30)
        except Exception:  # noqa: BLE001 -- it hopes that whatever it waits for will come
            continue


@pytest.mark.parametrize("hook", ["enforce_ml_policy", "validate", "terminal_condition"])
@pytest.mark.parametrize("waiting", [sleep, sleep_on])
def test_a_hook_that_waits_is_interrupted(hook, waiting, monkeypatch):
    monkeypatch.setattr(overrun, "LIMIT_S", 0.05)
    start_s = time.monotonic()

    with pytest.raises(PluginError, match=r"plugin Broken failed .*: it did not return within 0\.05 s, .* must not"):
        run(hook, waiting)

    assert time.monotonic() - start_s < 10
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)  # nothing is left that would interrupt what comes next


def test_what_cannot_be_interrupted_is_told_of_when_it_returns():
    failures: list[Exception] = []

    def elsewhere() -> None:
        try:
            run("enforce_ml_policy", lambda *_: None, context(step_s=2.0))
        except PluginError as error:
            failures.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()

    assert "it did not return within 1 s" in str(failures[0])


def test_a_program_keeps_the_alarm_that_it_uses_itself(monkeypatch):
    monkeypatch.setattr(overrun, "LIMIT_S", 0.01)
    rings: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda *_: rings.append(1))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        run("enforce_ml_policy", lambda *_: time.sleep(0.05))
        time.sleep(0.2)
    finally:
        signal.signal(signal.SIGALRM, before)

    assert rings == [1]
