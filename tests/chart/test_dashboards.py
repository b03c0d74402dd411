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
CHOSEN = {"namespace": ["team-a"], "trainjob": ["mixed"]}
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
        values[variable.name] = found if variable.several else [one for one in CHOSEN[variable.name] if one in found]
        if not values[variable.name]:
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
    """Keep what the panels show, for `python hack/dashboards render`."""
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


def test_the_rules_of_the_chart_are_evaluated(watched):
    groups = watched.get("rules")["groups"]
    failed = [(rule["name"], rule["lastError"]) for group in groups for rule in group["rules"] if rule.get("lastError")]

    assert groups
    assert failed == []
