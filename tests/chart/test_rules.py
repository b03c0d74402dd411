"""Alerts and recording rules by promtool: they are valid, fire when they should, and each alert has its runbook."""

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
RULES = sorted((ROOT / "charts/ktrain/files/rules").glob("*.yaml"))
CASES = sorted((Path(__file__).parent / "rules").glob("*.yaml"))
PROMTOOL = shutil.which("promtool")

needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="needs promtool (the Debian package prometheus)")


def promtool(*arguments):
    done = subprocess.run([PROMTOOL, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


@needs_promtool
def test_the_rules_are_valid():
    code, said = promtool("check", "rules", *RULES)

    assert (code, "WARNING" in said) == (0, False), said


@needs_promtool
@pytest.mark.parametrize("cases", CASES, ids=lambda path: path.stem)
def test_alerts_fire_when_they_should_and_are_silent_otherwise(cases):
    code, said = promtool("test", "rules", cases)

    assert code == 0, said


@needs_promtool
def test_a_case_with_another_threshold_would_fail(tmp_path):
    """The cases are at work: gangs that may wait for two hours do not fire after one."""
    for path in RULES:
        text = path.read_text().replace("for: 1h", "for: 2h")
        (tmp_path / path.name).write_text(text)
    cases = CASES[[path.stem for path in CASES].index("trainjobs")].read_text()
    (tmp_path / "cases.yaml").write_text(cases.replace("../../../charts/ktrain/files/rules/", ""))

    code, said = promtool("test", "rules", tmp_path / "cases.yaml")

    assert code == 1
    assert "KtrainGangWaiting" in said


def alerts():
    groups = [group for path in RULES for group in yaml.safe_load(path.read_text())["groups"]]
    return {rule["alert"] for group in groups for rule in group["rules"] if "alert" in rule}


def test_each_alert_has_cases_that_fire_and_cases_that_do_not():
    asked = [
        (one["alertname"], bool(one.get("exp_alerts")))
        for path in CASES
        for case in yaml.safe_load(path.read_text())["tests"]
        for one in case.get("alert_rule_test", [])
    ]

    assert {name for name, fires in asked if fires} == alerts()
    assert {name for name, fires in asked if not fires} == alerts()


def test_the_chart_says_where_the_runbooks_are(render):
    rule = {"enabled": True, "runbookUrl": "https://docs.example/runbooks/"}
    rendered = [
        one for one in render(values={"monitoring": {"prometheusRule": rule}}) if one["kind"] == "PrometheusRule"
    ]

    groups = [group for one in rendered for group in one["spec"]["groups"]]
    urls = {
        rule["alert"]: rule["annotations"]["runbook_url"]
        for group in groups
        for rule in group["rules"]
        if "alert" in rule
    }
    assert urls == {alert: f"https://docs.example/runbooks/{alert}/" for alert in alerts()}
