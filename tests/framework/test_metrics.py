"""Instruments of one registry, as a scrape shows them."""

import subprocess
import sys

import aiohttp
import anyio
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from ktrain.framework import Metrics
from ktrain.framework.serving.health import MetricsServer

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def metrics(registry):
    return Metrics(registry)


def values(registry, name):
    return {
        tuple(sample.labels.values()): sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == name
    }


def test_label_values_beyond_the_bound_are_counted_as_other(metrics, registry):
    count = metrics.counter_by("calls", "Calls.", "method", "code", most=2)
    for method, code in [("GET", "200"), ("GET", "404"), ("GET", "500"), ("PUT", "1"), ("GET", "200")]:
        count(method, code)

    assert values(registry, "calls_total") == {("GET", "200"): 2, ("GET", "404"): 1, ("other", "other"): 2}


def test_two_users_of_one_counter_share_its_series_and_its_bound(metrics, registry):
    first = metrics.counter_by("calls", "Calls.", "code", most=1)
    second = metrics.counter_by("calls", "Calls.", "code", most=1)
    first("200")
    second("200")
    second("404")

    assert values(registry, "calls_total") == {("200",): 2, ("other",): 1}


def test_a_counter_exists_at_0_before_it_counts_and_is_gone_when_forgotten(metrics, registry):
    metrics.counter("passes", "Passes.", {"controller": "jobs"})
    assert values(registry, "passes_total") == {("jobs",): 0}

    metrics.forget("passes", {"controller": "jobs"})
    assert values(registry, "passes_total") == {}


def exemplars(text):
    return [
        (sample.labels["le"], sample.exemplar.labels)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.exemplar
    ]


def test_an_exemplar_is_in_the_openmetrics_exposition_at_its_bucket_and_not_in_the_old_one(metrics, registry):
    observe = metrics.histogram("pass_seconds", "Passes.", (0.1, 1.0), {"controller": "jobs"})
    observe(0.5, {"trace_id": TRACE})
    observe(0.05)

    assert exemplars(generate_openmetrics(registry).decode()) == [("1.0", {"trace_id": TRACE})]
    assert TRACE not in generate_latest(registry).decode()


def test_an_exemplar_that_is_too_long_is_cut_from_its_end_and_never_raises(metrics, registry):
    observe = metrics.histogram("pass_seconds", "Passes.", (1.0,), {"controller": "jobs"})
    observe(0.5, {"trace_id": TRACE, "reason": "Job " + "x" * 300, "reconcile_id": "1f"})

    ((_, labels),) = exemplars(generate_openmetrics(registry).decode())
    assert labels["trace_id"] == TRACE
    assert labels["reason"].startswith("Job xxx")
    assert sum(len(name) + len(value) for name, value in labels.items()) == 128


def test_an_exemplar_without_content_is_none(metrics, registry):
    observe = metrics.histogram("pass_seconds", "Passes.", (1.0,), {"controller": "jobs"})
    observe(0.5, {"trace_id": ""})

    assert "trace_id" not in generate_openmetrics(registry).decode()


async def test_who_scrapes_for_openmetrics_gets_the_exemplars(metrics, registry):
    metrics.histogram("pass_seconds", "Passes.", (1.0,), {"controller": "jobs"})(0.5, {"trace_id": TRACE})
    server = MetricsServer("127.0.0.1", 0, registry)
    async with anyio.create_task_group() as group, aiohttp.ClientSession() as session:
        await group.start(server.run)
        headers = {"Accept": "application/openmetrics-text; version=1.0.0"}
        async with session.get(f"http://127.0.0.1:{server.port}/metrics", headers=headers) as answer:
            text = await answer.text()
        group.cancel_scope.cancel()

    assert exemplars(text) == [("1.0", {"trace_id": TRACE})]


def test_without_a_registry_instruments_do_nothing_and_import_nothing():
    program = """
import sys
from ktrain.framework import Metrics
metrics = Metrics()
metrics.counter_by("a", "A.", "x")("1")
metrics.counter("b", "B.", {"x": "1"})()
metrics.histogram("c", "C.", (1.0,), {"x": "1"})(0.5, {"trace_id": "1"})
metrics.gauge("d", "D.", {"x": "1"})(1.0)
metrics.gauge_read("e", "E.", {"x": "1"}, lambda: 1.0)
metrics.forget("d", {"x": "1"})
print("prometheus_client" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"
