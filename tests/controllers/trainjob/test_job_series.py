"""Labels of TrainJobs' series: how many there are, and which make room for others."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis.strategies import booleans, integers, lists, tuples
from prometheus_client import CollectorRegistry

from ktrain.controllers.trainjob.metrics import KNOWN_REASONS, MAX_NAMES, MAX_PLACES, MAX_REASONS, JobSeries
from ktrain.framework.metrics import Metrics


class Scrape:
    """The series of TrainJobs that never had an operator."""

    def __init__(self, **limits: int) -> None:
        self.series = JobSeries(Metrics(CollectorRegistry()), lambda: 0.0, **limits)
        self.series.leads = True

    def places(self) -> set[tuple[str, str]]:
        (created,) = (one for one in self.series.collect() if one.name == "ktrain_trainjobs_created")
        return {(one.labels["namespace"], one.labels["runtime"]) for one in created.samples}


@pytest.mark.parametrize(("varied", "fixed"), [(0, 1), (1, 0)])
def test_names_without_end_share_one_label_until_others_are_gone(varied: int, fixed: int):
    def place(name: str) -> tuple[str, str]:
        return (name, "x") if fixed else ("x", name)

    scrape = Scrape()
    series = scrape.series
    for number in range(MAX_NAMES):
        assert series.enter(*place(f"n{number}")) == place(f"n{number}")
    assert series.enter(*place("late")) == place("other")
    assert series.enter(*place("n7")) == place("n7")
    series.leave(place("n7"))
    assert series.enter(*place("later")) == place("other")
    series.phases[*place("n7"), "Running"] += 1
    series.leave(place("n7"))
    assert place("n7") in scrape.places()
    assert series.enter(*place("latest")) == place("latest")
    assert place("n7") not in scrape.places()
    assert not any(place("n7") == key[:2] for key in series.phases)
    assert len(scrape.places()) == MAX_NAMES + 1


def test_a_name_that_is_taken_again_keeps_its_series():
    scrape = Scrape()
    series = scrape.series
    for number in range(MAX_NAMES):
        series.leave(series.enter(f"n{number}", "rt"))
    series.created["n0", "rt"] += 5
    series.enter("n0", "rt")
    assert series.enter("late", "rt") == ("late", "rt")
    assert series.created["n0", "rt"] == 5
    assert ("n1", "rt") not in scrape.places()


def test_pairs_of_names_are_bounded():
    scrape = Scrape()
    places = {scrape.series.enter(f"n{a}", f"r{b}") for a in range(MAX_NAMES) for b in range(MAX_NAMES)}
    assert len(places) == MAX_PLACES + MAX_NAMES - MAX_PLACES // MAX_NAMES
    assert ("n99", "other") in places
    for place in places:
        scrape.series.leave(place)
    assert scrape.series.enter("new", "new") == ("new", "new")


def test_a_namespace_named_as_the_rest_takes_no_room():
    scrape = Scrape()
    assert scrape.series.enter("other", "rt") == ("other", "rt")
    scrape.series.leave(("other", "rt"))
    assert scrape.places() == {("other", "rt")}


@given(lists(tuples(integers(0, 4), integers(0, 4), booleans()), max_size=60))
def test_gauges_are_what_is_there_whoever_comes_and_goes(moves):
    """With room for two namespaces, two runtimes and three pairs."""
    scrape = Scrape(names=2, places=3)
    series = scrape.series
    there: list[tuple[str, str]] = []
    for namespace, runtime, comes in moves:
        if comes:
            place = series.enter(f"n{namespace}", f"r{runtime}")
            there.append(place)
            series.phases[*place, "Running"] += 1
        elif there:
            place = there.pop((namespace * 5 + runtime) % len(there))
            series.phases[*place, "Running"] -= 1
            series.leave(place)
        shown = {key[:2]: value for key, value in series.phases.items() if value}
        assert shown == Counter(there)
        assert len({one for one, _ in scrape.places()}) <= 3
        assert len(scrape.places()) <= 3 + 3 + 3


def test_reasons_without_end_share_one_label_but_for_those_that_alerts_look_for():
    scrape = Scrape()
    given = [scrape.series.reason(f"r{n}") for n in range(MAX_REASONS + 1)]
    assert (given[0], given[-1]) == ("r0", "other")
    assert len(set(given)) == MAX_REASONS - len(KNOWN_REASONS) + 1
    assert [scrape.series.reason(name) for name in ("r0", "PluginFailed")] == ["r0", "PluginFailed"]
