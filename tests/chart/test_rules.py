"""Alerts and recording rules by promtool: they are valid, fire when they should, and each alert has its runbook."""

import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from .programs import of_kind

ROOT = Path(__file__).parents[2]
RULES = sorted((ROOT / "charts/ktrain/files/rules").glob("*.yaml"))
CASES = sorted((Path(__file__).parent / "rules").glob("*.yaml"))
PROMTOOL = shutil.which("promtool")
PATIENCE_S = 30
WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
TRAINER = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "metadata": {"name": "runbook", "namespace": "default"}}

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


def annotations(render, **rule):
    """Return each alert's annotations, as the chart renders them."""
    found = render(values={"monitoring": {"prometheusRule": {"enabled": True, **rule}}})
    groups = [group for one in of_kind(found, "PrometheusRule") for group in one["spec"]["groups"]]
    return {rule["alert"]: rule["annotations"] for group in groups for rule in group["rules"] if "alert" in rule}


@pytest.mark.parametrize("url", ["https://docs.example/runbooks/", "https://docs.example/runbooks"])
def test_the_chart_says_where_the_runbooks_are(render, url):
    found = annotations(render, runbookUrl=url)

    urls = {alert: one["runbook_url"] for alert, one in found.items()}
    assert urls == {alert: f"https://docs.example/runbooks/{alert}/" for alert in alerts()}
    assert [alert for alert, one in found.items() if "runbook" in one] == []


def test_an_address_of_runbooks_is_taken_literally(render):
    found = annotations(render, runbookUrl='https://docs.example/$1/${1}?a="b"#c')

    assert found["KtrainNoLeader"]["runbook_url"] == 'https://docs.example/$1/${1}?a="b"#c/KtrainNoLeader/'


def test_without_an_address_alerts_name_the_page_and_have_no_dead_link(render):
    found = annotations(render)

    assert {alert: one["runbook"] for alert, one in found.items()} == {
        alert: f"docs/runbooks/{alert}.md" for alert in alerts()
    }
    assert [alert for alert, one in found.items() if "runbook_url" in one] == []
    assert all((ROOT / one["runbook"]).is_file() for one in found.values())


def selectors(metric):
    """Return the matchers of each place where KtrainWebhookUnreachable reads a metric: `{label: (operator, value)}`."""
    groups = [group for path in RULES for group in yaml.safe_load(path.read_text())["groups"]]
    exprs = [
        one["expr"] for group in groups for one in group["rules"] if one.get("alert") == "KtrainWebhookUnreachable"
    ]
    found = [inner for expr in exprs for inner in re.findall(rf"{metric}{{([^}}]*)}}", expr)]
    return [{label: (op, value) for label, op, value in re.findall(r'(\w+)(=~|=)"([^"]*)"', inner)} for inner in found]


def matches(matchers, labels):
    return all(
        re.fullmatch(value, labels.get(label, "")) if op == "=~" else labels.get(label) == value
        for label, (op, value) in matchers.items()
    )


@pytest.fixture
def unreachable(cluster, kubectl, render):
    """The chart's webhook configurations, with a Service that does not exist; returns the webhooks' names."""
    hooks = [one for kind in WEBHOOKS for one in of_kind(render(), kind)]
    text = yaml.safe_dump_all(hooks)
    kubectl("apply", "-f", "-", stdin=text)
    yield {hook["name"] for one in hooks for hook in one["webhooks"]}
    kubectl("delete", "-f", "-", stdin=text)


def test_the_api_server_counts_calls_that_fail_as_the_alert_expects(unreachable, kubectl):
    """The names of all webhooks, and the labels of a real API server, fit the alert's selectors."""
    rejections, fail_open = (f"apiserver_admission_webhook_{one}_count" for one in ("rejection", "fail_open"))
    job = {**TRAINER, "kind": "TrainJob", "spec": {"runtimeRef": {"name": "r"}}}
    runtime = {**TRAINER, "kind": "TrainingRuntime", "spec": {"template": {"spec": {"replicatedJobs": []}}}}

    deadline = time.monotonic() + PATIENCE_S
    while "failed calling webhook" not in kubectl.run("create", "-f", "-", stdin=yaml.safe_dump(job)).stderr:
        assert time.monotonic() < deadline, "the API server has not seen the webhook configurations"
        kubectl.run("delete", "trainjob", "runbook")
        time.sleep(0.2)
    kubectl.run("create", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(runtime))

    text = kubectl("get", "--raw", "/metrics")
    counted = {
        metric: [
            dict(re.findall(r'(\w+)="([^"]*)"', line)) for line in re.findall(rf"^{metric}{{.*", text, re.MULTILINE)
        ]
        for metric in (rejections, fail_open)
    }
    chosen = {
        metric: [{one["name"] for one in counted[metric] if matches(matchers, one)} for matchers in selectors(metric)]
        for metric in counted
    }
    refused = {"defaulter.trainjob.trainer.kubeflow.org", "validator.trainingruntime.trainer.kubeflow.org"}
    assert [refused - names for names in chosen[rejections]] == [set(), set()]
    assert ["defaulter.runtime.trainer.kubeflow.org" in names for names in chosen[fail_open]] == [True]
    assert 'apiserver_admission_webhook_request_total{code="503"' in text
    for matchers in (*selectors(rejections), *selectors(fail_open)):
        assert {name for name in unreachable if not matches({"name": matchers["name"]}, {"name": name})} == set()
