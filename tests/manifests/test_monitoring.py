"""Dashboards, rules and runbooks belong together, and ask for metrics that exist."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FILES = ROOT / "charts/ktrain/files"
RUNBOOKS = ROOT / "docs/runbooks"
BOARDS = sorted((FILES / "dashboards").glob("*.json"))
RULES = sorted((FILES / "rules").glob("*.yaml"))

# Metrics of others: kube-state-metrics (TrainJobs by our configuration of it), cAdvisor, DCGM, the API server,
# Prometheus itself.
OUTSIDE = re.compile(
    r"kube_(pod|job)_\w+|container_(cpu|memory|network)_\w+|DCGM_FI_\w+|apiserver_admission_webhook_\w+|up|"
    + "|".join(
        f"kube_trainjob_{metric['name']}"
        for resource in yaml.safe_load((FILES / "kube-state-metrics.yaml").read_text())["spec"]["resources"]
        for metric in resource["metrics"]
    )
)
_SELECTORS = re.compile(r'\{[^}]*\}|\[[^\]]*\]|"[^"]*"')
_GROUPINGS = re.compile(r"\b(by|on|ignoring|without|group_left|group_right)\s*\([^)]*\)")
_NAME = re.compile(r"(?<![\w$:.])[a-zA-Z_:][\w:]*(?!\s*\(|[\w:])")
_WORDS = {"and", "or", "unless", "by", "on", "ignoring", "group_left", "group_right", "bool"}
_SUFFIXES = re.compile(r"_(bucket|count|sum)$")


def names(expr):
    """The metrics of a query: what stands there when selectors, ranges and groupings are taken out."""
    bare = _GROUPINGS.sub(" ", _SELECTORS.sub("", expr))
    return {_SUFFIXES.sub("", name) for name in _NAME.findall(bare)} - _WORDS


def expressions():
    """Every query of panels, variables and rules, with the place where it stands."""
    for path in BOARDS:
        board = json.loads(path.read_text())
        for panel in board["panels"]:
            yield from ((f"{path.name}: {panel['title']}", one["expr"]) for one in panel.get("targets") or [])
        for variable in board["templating"]["list"]:
            if variable["type"] == "query":
                series = variable["query"]["query"].removeprefix("label_values(").rpartition(",")[0]
                yield f"{path.name}: ${variable['name']}", series
    for rule in rules():
        yield rule.get("alert") or rule["record"], rule["expr"]


def rules():
    return [rule for path in RULES for group in yaml.safe_load(path.read_text())["groups"] for rule in group["rules"]]


def reported():
    """The operator's metrics, by the pages that list them and the code of those of TrainJobs, and what rules record."""
    pages = "".join(path.read_text() for path in (ROOT / "docs").glob("*.md") if path.name != "dashboards.md")
    documented = set(re.findall(r"`([a-z][a-z0-9_]+)`", pages))
    source = (ROOT / "ktrain/controllers").rglob("*.py")
    in_code = {name for path in source for name in re.findall(r'"(ktrain_\w+)"', path.read_text())}
    counters = {f"{name}_total" for name in in_code}
    return documented | in_code | counters | {rule["record"] for rule in rules() if "record" in rule}


def test_every_metric_that_is_asked_for_exists():
    known = reported()
    unknown = {
        (place, name)
        for place, expr in expressions()
        for name in names(expr)
        if name not in known and not OUTSIDE.fullmatch(name)
    }

    assert unknown == set()


def test_names_of_metrics_are_found_in_queries():
    expr = 'histogram_quantile(0.9, sum by (le, a) (rate(x_seconds_bucket{b=~"up"}[5m]))) > 0 and on (j) z or vector(0)'

    assert names(expr) == {"x_seconds", "z"}
    assert names("1 - rec:a:b / (sum(rate(c_total[$__rate_interval])) > 14.4 * 0.01)") == {"rec:a:b", "c_total"}


@pytest.mark.skipif(importlib.util.find_spec("grafana_foundation_sdk") is None, reason="needs grafana-foundation-sdk")
def test_rendering_the_dashboards_again_changes_nothing():
    command = [sys.executable, "hack/dashboards", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, ""), f"run `python hack/dashboards`: {done.stderr}"


@pytest.mark.parametrize("path", BOARDS, ids=lambda path: path.stem)
def test_every_panel_has_a_description_a_unit_and_thresholds(path):
    board = json.loads(path.read_text())
    panels = [panel for panel in board["panels"] if panel["type"] != "row"]

    assert len({panel["title"] for panel in panels}) == len(panels)
    assert [panel["title"] for panel in panels if not panel.get("description")] == []
    defaults = {panel["title"]: panel["fieldConfig"]["defaults"] for panel in panels}
    assert [title for title, one in defaults.items() if "unit" not in one] == []
    plain = [
        panel["title"] for panel in panels if panel["type"] != "table" and "thresholds" not in defaults[panel["title"]]
    ]
    assert plain == []
    assert [link["tags"] for link in board["links"]] == [["ktrain"]]
    assert "ktrain" in board["tags"]


def test_each_alert_names_its_runbook_and_each_runbook_has_its_alert():
    alerts = [rule for rule in rules() if "alert" in rule]
    pages = {page.stem for page in RUNBOOKS.glob("*.md")} - {"README"}

    assert {rule["alert"] for rule in alerts} == pages
    assert {rule["annotations"]["runbook"] == f"docs/runbooks/{rule['alert']}.md" for rule in alerts} == {True}
    assert {rule["labels"]["severity"] for rule in alerts} == {"critical", "warning"}
    listed = set(re.findall(r"\]\((\w+)\.md\)", (RUNBOOKS / "README.md").read_text()))
    assert listed == pages


def test_each_runbook_has_its_four_parts():
    parts = {
        page.stem: re.findall(r"^## (.+)$", page.read_text(), re.MULTILINE)
        for page in RUNBOOKS.glob("*.md")
        if page.stem != "README"
    }

    assert {name for name, found in parts.items() if found != ["Meaning", "Impact", "Diagnosis", "Mitigation"]} == set()


def test_log_events_in_runbooks_are_logged():
    named = {
        event
        for page in RUNBOOKS.glob("*.md")
        for event in re.findall(r"\b(?:webhook|plugin|list|watch|reconcile|election|loop)\.[a-z_]+", page.read_text())
    }
    source = "".join(path.read_text() for path in (ROOT / "ktrain").rglob("*.py"))

    assert named
    assert {event for event in named if f'"{event}"' not in source} == set()
