"""Stages that start one after the other, by the time stamps of their own programs: `dependsOn`, and KEP-672's rules."""

import re
from datetime import datetime

import pytest

from .conftest import BOTH_WAYS

pytestmark = [pytest.mark.e2e, pytest.mark.examples]

SLOW_DATA = ("stage.py, data", "stage.py, data, --work=3")
SAID = re.compile(r"\[\w+-0\] (\w+) (began|ended|was ready) at (\S+)")


def stamps(output):
    """When what happened to which stage."""
    return {(stage, what): datetime.fromisoformat(when) for stage, what, when in SAID.findall(output)}


@pytest.mark.parametrize("pods", BOTH_WAYS)
def test_a_trainer_starts_when_what_it_depends_on_is_complete_or_ready(ktrain, example, pods):
    code, output = ktrain("run", "--pods", pods, example("order/depends-on.yaml", SLOW_DATA))
    at = stamps(output)

    assert code == 0, output
    assert at["cache", "began"] < at["data", "ended"], "these two wait for nobody"
    assert at["cache", "was ready"] < at["data", "ended"] < at["node", "began"] < at["node", "ended"]


@pytest.mark.parametrize("pods", BOTH_WAYS)
def test_groups_of_startup_rules_start_one_after_the_other(ktrain, example, pods):
    code, output = ktrain("run", "--pods", pods, example("order/startup-rules.yaml"))
    at = stamps(output)

    assert code == 0, output
    assert at["model", "began"] < at["data", "ended"], "the first group starts together"
    assert max(at["data", "ended"], at["model", "ended"]) < at["cache", "began"]
    assert at["cache", "was ready"] < at["node", "began"] < at["node", "ended"]


def test_no_stage_starts_when_the_one_it_waits_for_fails(ktrain, example):
    fails = ("command: [python, examples/order/stage.py, data]", "command: ['false']")
    for name in ("depends-on", "startup-rules"):
        code, output = ktrain("run", example(f"order/{name}.yaml", fails))

        assert code == 1, output
        assert ("node", "began") not in stamps(output)
        assert "first failed job: ordered-data-0" in output
