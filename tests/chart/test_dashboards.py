"""Every query of every dashboard, asked by a real Prometheus about a cluster under load, is answered with data."""

import json
import os
import time
from pathlib import Path

import pytest

from ..waiting import eventually
from .monitoring import dashboards
from .monitoring.cluster import missing, watched_cluster

pytestmark = pytest.mark.e2e
CHOSEN = {"namespace": "team-a", "trainjob": "mixed"}
"""What is chosen of the dashboard of one job: pods that run, one that ended and one that cannot start."""
PATIENCE_S = 120
RECORD_S, STEP_S = 60, 2


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    if needs := missing():
        pytest.skip(f"needs {needs}")
    with watched_cluster(tmp_path_factory.mktemp("watched")) as prometheus:
        yield prometheus


def resolved(prometheus, name):
    """Return the values of a dashboard's variables; each must have one, and what is chosen must be among them."""
    values = {}
    for variable in dashboards.variables(dashboards.load(name)):
        series = dashboards.filled(variable.series, values)
        found = prometheus.label_values(variable.label, series)
        if not found:
            raise LookupError(f"${variable.name} of {name} has no value: {series}")
        values[variable.name] = found if variable.several else CHOSEN[variable.name]
        if not variable.several and CHOSEN[variable.name] not in found:
            raise LookupError(f"${variable.name} of {name}: {CHOSEN[variable.name]} is not among {found}")
    return values


def unanswered(prometheus, name):
    """Return the queries without data."""
    values = resolved(prometheus, name)
    wanted = dashboards.targets(dashboards.load(name))
    return [
        (target.panel, target.expr)
        for target in wanted
        if not prometheus.samples(dashboards.filled(target.expr, values))
    ]


@pytest.mark.parametrize("name", dashboards.NAMES)
def test_every_query_of_every_panel_returns_data(watched, name):
    """Gauges that are 0 are data; a series that is not there, or is not a number, is none."""
    eventually(lambda: unanswered(watched, name), lambda queries: not queries, despite=LookupError, within_s=PATIENCE_S)

    if folder := os.environ.get("KTRAIN_DASHBOARDS_RECORD"):
        record(watched, name, Path(folder))


def record(prometheus, name, folder):
    """Keep what the panels show, for `python hack/dashboards --render`."""
    lasted = f"time() - min(min_over_time(timestamp(ktrain_build_info)[10m:2s])) > {RECORD_S + 10}"
    eventually(lambda: prometheus.samples(lasted), within_s=PATIENCE_S, every_s=1)
    values, end_s = resolved(prometheus, name), time.time()
    found = [
        {
            "panel": target.panel,
            "ref": target.ref,
            "series": [
                {"labels": labels, "values": course}
                for labels, course in prometheus.course(
                    dashboards.filled(target.expr, values), end_s - RECORD_S, end_s, STEP_S
                )
            ],
        }
        for target in dashboards.targets(dashboards.load(name))
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps({"variables": values, "results": found}))


def test_the_fleet_is_seen_as_it_is(watched):
    """Only the leader reports TrainJobs, so that sums over replicas are right."""
    suspended = 'sum(ktrain_trainjobs{phase="Suspended"}) == 1'
    waiting = 'sum(ktrain_gang_waiting_jobs{namespace="team-a"}) == 1'
    blocked = "sum by (namespace, reason) (ktrain_trainjobs_blocked) > 0"

    for expr in (suspended, waiting, "sum(leader_election_master_status) == 1", "count(ktrain_build_info) == 2"):
        eventually(lambda expr=expr: watched.samples(expr), within_s=PATIENCE_S)
    reasons = {(labels["namespace"], labels["reason"]) for labels, _ in watched.samples(blocked)}
    assert {("team-a", "PluginFailed"), ("team-a", "NameTaken"), ("team-a", "Unschedulable")} <= reasons
    phases = {labels["phase"] for labels, _ in watched.samples("sum by (phase) (ktrain_trainjobs) > 0")}
    assert {"Running", "Suspended", "Stalled", "Complete", "Failed"} <= phases


def test_the_rules_of_the_chart_are_evaluated(watched):
    groups = watched.get("rules")["groups"]
    failed = [(rule["name"], rule["lastError"]) for group in groups for rule in group["rules"] if rule.get("lastError")]

    assert groups
    assert failed == []


def test_only_the_alert_about_the_plugin_that_fails_is_on_its_way(watched):
    """Alerts that wait for long are of no use here; this is about those that would be wrong at once."""

    def stirred():
        rules = [rule for group in watched.get("rules")["groups"] for rule in group["rules"]]
        return {rule["name"] for rule in rules if rule.get("alerts")}

    expected = {"KtrainPluginFailing", "KtrainTrainJobsBlocked", "KtrainGangWaiting"}
    assert eventually(stirred, lambda names: expected <= names, within_s=PATIENCE_S) == expected
