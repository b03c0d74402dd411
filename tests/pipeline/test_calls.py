"""How plugins fare, as metrics."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import count

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from ktrain.framework.metrics import Metrics
from ktrain.pipeline import PipelineError, PlanError, Registry, overrun, plan

from .test_runner import JOB, RUNTIME, context

DURATION = "ktrain_plugin_call_duration_seconds"
FAILURES = "ktrain_plugin_call_failures_total"
HOOK = {"plugin": "Faring", "hook": "EnforceMLPolicy"}


def a_plugin(name, hook):
    return type(name, (), {"name": name, "enforce_ml_policy": staticmethod(hook)})()


def fare(hook, *, ctx=None, times=1):
    """Have two plugins take part in plans, the latter of which does *hook*; returns what a scrape sees."""
    registry = Registry([a_plugin("Before", lambda info, _: info.pod_sets[0].set_count(1)), a_plugin("Faring", hook)])
    scraped = CollectorRegistry()
    registry.without_kinds(()).calls.expose(Metrics(scraped))
    for _ in range(times):
        try:
            plan(registry, JOB, RUNTIME, ctx or context())
        except PipelineError:
            continue
    return scraped


def fail(*_):
    raise ZeroDivisionError


def refuse(*_):
    raise PlanError("not for this job")


@pytest.mark.parametrize(
    ("hook", "reason"),
    [
        (fail, "raised"),
        (lambda *_: 1, "answer"),
        (lambda *_: time.sleep(1), "overran"),
        (lambda info, _: info.pod_sets[0].set_count(2), "conflict"),
        (refuse, None),
        (lambda *_: None, None),
    ],
)
def test_a_failed_call_is_counted_by_plugin_hook_and_reason(monkeypatch, hook, reason):
    monkeypatch.setattr(overrun, "LIMIT_S", 0.05)
    scraped = fare(hook, times=2)
    reasons = ("raised", "answer", "overran", "conflict")
    found = {name: scraped.get_sample_value(FAILURES, {**HOOK, "reason": name}) for name in reasons}

    assert {name: value for name, value in found.items() if value} == ({reason: 2} if reason else {})


def test_a_call_takes_its_time_into_the_histogram():
    scraped = fare(lambda *_: None, times=3, ctx=replace(context(), monotonic=count(0, 0.02).__next__))
    below = {le: scraped.get_sample_value(f"{DURATION}_bucket", {**HOOK, "le": le}) for le in ("0.01", "0.05", "+Inf")}

    assert below == {"0.01": 0, "0.05": 3, "+Inf": 3}
    assert scraped.get_sample_value(f"{DURATION}_count", HOOK) == 3
    assert scraped.get_sample_value(f"{DURATION}_sum", HOOK) == pytest.approx(0.06)
    assert b"# TYPE ktrain_plugin_call_duration_seconds histogram" in generate_latest(scraped)


def test_what_nobody_scrapes_is_no_error():
    Registry([]).calls.expose(Metrics())
