"""What an informer shows to those who watch over it."""

import sys

import msgspec
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from ktrain.api.core import CONFIG_MAPS, PODS, SECRETS
from ktrain.framework import Metrics
from ktrain.framework.cache.footprint import SAMPLE_EVERY, Footprint, size_of
from ktrain.testing.time import simulate

from .following import SYNCED, event, failure, pod, running

FOREVER = float("inf")
LABELS = 'cache="west",resource="pods",scope="in ns",type="Pod"'


def shown(registry):
    """The samples whose value is not 0, by name and labels; those of a histogram's buckets left out."""
    lines = generate_latest(registry).decode().splitlines()
    samples = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name: float(value) for name, value in samples.items() if "_bucket" not in name and "_created" not in name}


def test_an_informer_shows_count_memory_age_and_why_it_listed_or_watched_again(script):
    broken = {**pod("broken", 7), "spec": {"nodeName": 7}}
    script.streams += [
        [*SYNCED, event("ADDED", broken), 10.0, event("ERROR", failure(410, "Expired"))],
        [*SYNCED, event("ERROR", failure(429, "TooManyRequests", retryAfterSeconds=5))],
        [FOREVER],
    ]
    registry = CollectorRegistry()

    async def main(env):
        async with running(script, env, metrics=Metrics(registry), cluster="west") as cache:
            informer = cache.informer(PODS, namespace="ns")
            early = shown(registry)
            await env.clock.sleep(30)
            later, bad = shown(registry), informer.statistics().bad
            cache.release(informer)
            return early, later, bad, generate_latest(registry).decode()

    early, later, bad, released = simulate(main)
    assert early[f"ktrain_informer_objects{{{LABELS}}}"] == 0
    assert (
        early['ktrain_informer_relists_total{cache="west",reason="expired",resource="pods",scope="in ns",type="Pod"}']
        == 0
    )
    assert later[f"ktrain_informer_objects{{{LABELS}}}"] == 2
    assert 500 < later[f"ktrain_informer_bytes{{{LABELS}}}"] < 5000
    assert later[f"ktrain_informer_last_event_age_seconds{{{LABELS}}}"] == pytest.approx(20)
    assert later[f"ktrain_informer_synced{{{LABELS}}}"] == 1
    assert later[f"ktrain_informer_missing{{{LABELS}}}"] == 0
    assert later[f"ktrain_informer_bad_objects_total{{{LABELS}}}"] == 1
    assert later[f"ktrain_informer_list_duration_seconds_count{{{LABELS}}}"] == 2
    counted = {
        name.partition("{")[0] + " " + name.partition('reason="')[2].partition('"')[0]: value
        for name, value in later.items()
        if "reason=" in name and value
    }
    assert counted == {"ktrain_informer_relists_total expired": 1, "ktrain_informer_watch_restarts_total throttled": 1}
    assert bad == {}
    assert 'resource="pods"' not in released


def test_two_informers_share_metrics_and_the_release_of_one_leaves_the_other(script):
    registry = CollectorRegistry()

    async def main(env):
        async with running(script, env, metrics=Metrics(registry)) as cache:
            cache.informer(CONFIG_MAPS)
            cache.release(cache.informer(SECRETS))
            return generate_latest(registry).decode()

    text = simulate(main)
    assert 'resource="configmaps"' in text
    assert 'resource="secrets"' not in text


def test_the_size_of_an_object_is_that_of_everything_in_it():
    class Inner(msgspec.Struct, gc=False):
        text: str
        raw: msgspec.Raw

    class Outer(msgspec.Struct, gc=False):
        inners: tuple[Inner, ...]
        labels: dict[str, str]

    def outer(length):
        text = "x" * length
        return Outer((Inner(text, msgspec.Raw(text.encode())),), {"a": text})

    assert size_of(outer(1100)) - size_of(outer(100)) == 3000


def test_the_mean_follows_what_comes_in():
    footprint = Footprint()
    for _ in range(64 * 100):
        footprint.note("x" * 1000)
    before = footprint.mean
    for _ in range(64 * 300):
        footprint.note("x" * 3000)

    assert before == pytest.approx(sys.getsizeof("x" * 1000))
    assert footprint.mean == pytest.approx(sys.getsizeof("x" * 3000), rel=0.02)


def test_an_object_nested_too_deeply_to_be_measured_is_passed_over():
    footprint, deep = Footprint(), {}
    for _ in range(sys.getrecursionlimit()):
        deep = {"in": deep}

    footprint.note(deep)
    for _ in range(SAMPLE_EVERY):
        footprint.note("x" * 100)

    assert footprint.mean == sys.getsizeof("x" * 100)
