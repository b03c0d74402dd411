"""What a scrape says of TrainJobs, over their lives, in virtual time."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.exposition import generate_latest

from ktrain.api import assets, core, jobset
from ktrain.api import trainer as api
from ktrain.api.meta import Key
from ktrain.controllers.trainjob.metrics import JobSeries
from ktrain.framework.metrics import Metrics
from ktrain.framework.telemetry.tracing import Tracing
from ktrain.plugins import coscheduling

from .conftest import RUNTIME
from .world import NS, World, play

PLACE = {"namespace": NS, "runtime": "rt"}


def watch(world: World):
    """Have the next operator count; returns what reads a sample."""
    registry = CollectorRegistry()
    world.metrics = Metrics(registry)
    return lambda name, **labels: registry.get_sample_value(name, labels)


def observed(value, milestone: str) -> tuple[float, float]:
    name = "ktrain_trainjob_milestone_seconds"
    return value(f"{name}_count", milestone=milestone), value(f"{name}_sum", milestone=milestone)


def test_a_life_is_counted_by_phase_milestones_nodes_and_end():
    async def scenario(world: World) -> None:
        value = watch(world)
        async with world.operator():
            await world.job()
            assert value("ktrain_trainjobs", **PLACE, phase="Unknown") == 1  # its status is not written yet
            assert value("ktrain_trainjobs_created_total", **PLACE) == 1
            assert value("ktrain_trainjobs_ended_total", **PLACE, result="Failed", reason="FailedJobs") == 0
            assert observed(value, "jobset")[0] == observed(value, "admitted")[0] == 1
            assert observed(value, "jobset")[1] < 1
            await world.settle(9)
            await world.progress(active=1)
            await world.settle(10)
            assert value("ktrain_trainjobs", **PLACE, phase="Starting") == 1
            assert value("ktrain_trainjobs", **PLACE, phase="Unknown") == 0
            assert value("ktrain_trainjob_nodes", **PLACE, state="wanted") == 2
            assert value("ktrain_trainjob_nodes", **PLACE, state="ready") == 0
            assert observed(value, "first_pod")[1] == pytest.approx(10, abs=1)
            await world.progress(active=1, ready=1)
            await world.settle(10)
            assert value("ktrain_trainjob_nodes", **PLACE, state="ready") == 2
            assert observed(value, "running")[1] == pytest.approx(20, abs=1)
            await world.progress(failed=1)
            await world.settle()
            assert value("ktrain_trainjob_nodes", **PLACE, state="failed") == 2
            await world.progress("Failed", failed=1)
            await world.settle(10)
            assert value("ktrain_trainjobs", **PLACE, phase="Failed") == 1
            assert value("ktrain_trainjob_nodes", **PLACE, state="wanted") == 0
            assert value("ktrain_trainjobs_ended_total", **PLACE, result="Failed", reason="Because") == 1
            assert observed(value, "ended")[1] == pytest.approx(30, abs=1)
            assert [observed(value, one)[0] for one in ("jobset", "admitted", "first_pod", "running")] == [1, 1, 1, 1]
            await world.user.delete(api.TRAIN_JOBS, Key(NS, "job"))
            await world.settle()
            assert value("ktrain_trainjobs", **PLACE, phase="Failed") == 0

    play(scenario)


def test_a_new_leader_counts_what_is_there_and_no_milestone_twice():
    async def scenario(world: World) -> None:
        async with world.operator():
            await world.job()
            await world.progress(active=1)
            await world.settle()
        value = watch(world)
        async with world.operator():
            await world.settle()
            assert value("ktrain_trainjobs", **PLACE, phase="Starting") == 1
            assert value("ktrain_trainjobs_created_total", **PLACE) == 0
            assert [observed(value, one)[0] for one in ("jobset", "admitted", "first_pod", "running")] == [0, 0, 0, 0]
            await world.progress(active=1, ready=1)
            await world.settle()
            assert [observed(value, one)[0] for one in ("first_pod", "running")] == [0, 1]
        assert value("ktrain_trainjobs", **PLACE, phase="Running") is None  # it does not lead any more

    play(scenario)


def test_a_suspended_job_is_admitted_when_it_is_resumed():
    async def scenario(world: World) -> None:
        value = watch(world)
        async with world.operator():
            await world.job(suspend=True)
            assert value("ktrain_trainjobs", **PLACE, phase="Suspended") == 1
            assert observed(value, "jobset")[0] == 1
            assert observed(value, "admitted")[0] == 0
            await world.settle(99)
            await world.patch(api.TRAIN_JOBS, spec={"suspend": False})
            assert observed(value, "admitted") == (1, pytest.approx(100, abs=1))

    play(scenario)


def test_restarts_are_counted_as_the_status_reports_them():
    async def scenario(world: World) -> None:
        value = watch(world)
        async with world.operator():
            await world.job()
            await world.progress(active=1, ready=1)
            await world.settle()
            for restarts in (1, 3):
                await world.patch(jobset.JOBSETS, subresource="status", status={"restarts": restarts})
                await world.settle()
            assert value("ktrain_trainjob_restarts_total", **PLACE) == 3

    play(scenario)


def test_a_blocked_job_shows_its_reason_and_how_long():
    async def scenario(world: World) -> None:
        world.quota_exceeded = True
        value = watch(world)
        labels = {"namespace": NS, "reason": "Refused"}
        async with world.operator():
            await world.job()
            await world.settle(60)
            assert value("ktrain_trainjobs_blocked", **labels) == 1
            assert value("ktrain_trainjob_blocked_age_seconds", reason="Refused") == pytest.approx(60, abs=5)
            assert value("ktrain_trainjobs_created_total", **PLACE) == 0
            world.quota_exceeded = False
            await world.settle(1200)
            assert value("ktrain_trainjobs_blocked", **labels) == 0
            assert value("ktrain_trainjob_blocked_age_seconds", reason="Refused") == 0

    play(scenario)


def test_a_gang_waits_from_its_admission_until_it_runs():
    async def scenario(world: World) -> None:
        spec = {**RUNTIME["spec"], "podGroupPolicy": {"coscheduling": {}}}
        world.plugins += (coscheduling.CoScheduling(),)
        world.server.install_crds(assets.pod_group_crds())
        body = RUNTIME | {"metadata": {"name": "gang", "namespace": NS}, "spec": spec}
        await world.user.create(core.untyped(api.TRAINING_RUNTIMES), body)
        value = watch(world)
        async with world.operator():
            await world.job("alone")
            await world.job(runtimeRef={"name": "gang", "kind": "TrainingRuntime"})
            await world.settle(100)
            assert value("ktrain_gang_waiting_jobs", namespace=NS) == 1
            await world.progress(active=1, ready=1)
            await world.settle()
            assert value("ktrain_gang_waiting_jobs", namespace=NS) == 0
            assert value("ktrain_gang_wait_seconds_count") == 1
            assert value("ktrain_gang_wait_seconds_sum") == pytest.approx(101, abs=2)

    play(scenario)


@pytest.mark.parametrize(("shared", "mode", "other"), [(0, "perJob", "shared"), (1, "shared", "perJob")])
def test_snapshots_are_counted_by_mode_and_answer(shared, mode, other):
    async def scenario(world: World) -> None:
        value = watch(world)
        name = "ktrain_snapshots_written_total"
        async with world.operator(shared=bool(shared)):
            world.limited, world.quota_exceeded = "configmaps", True
            await world.job()
            assert value(name, mode=mode, result="refused") >= 1
            assert value(name, mode=mode, result="stored") == 0
            world.quota_exceeded = False
            await world.settle(30)
            assert value(name, mode=mode, result="stored") == 1
            assert value(name, mode=other, result="stored") == value(name, mode=other, result="refused") == 0

    play(scenario)


@pytest.mark.parametrize(("hindered", "counted"), [(True, 0), (False, 1)])
def test_time_that_something_else_than_ktrain_took_is_no_time_to_the_jobset(hindered, counted):
    async def scenario(world: World) -> None:
        world.quota_exceeded = hindered
        value = watch(world)
        async with world.operator():
            await world.job()
            await world.settle(60)
            world.quota_exceeded = False
            await world.settle(1200)
            assert value("ktrain_trainjobs_created_total", **PLACE) == 1
            assert observed(value, "jobset")[0] == counted
            assert observed(value, "admitted")[0] == 1

    play(scenario)


def test_a_milestone_names_the_trace_of_the_reconcile_that_led_to_it():
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    async def scenario(world: World) -> None:
        spans = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(spans))
        watch(world)
        world.tracing = Tracing.on(provider)
        async with world.operator():
            await world.job()
            text = generate_latest(world.metrics.registry).decode()
        traces = {f"{span.context.trace_id:032x}" for span in spans.get_finished_spans()}
        lines = [line for line in text.splitlines() if line.startswith("ktrain_trainjob_milestone_seconds_bucket")]
        named = [line for line in lines if "trace_id" in line and 'milestone="jobset"' in line]
        assert named
        assert all(any(trace in line for trace in traces) for line in named)

    play(scenario)


def test_a_scrape_costs_series_and_not_jobs():
    """Ten thousand TrainJobs of one namespace, runtime and phase are one sample."""
    registry = CollectorRegistry()
    series = JobSeries(Metrics(registry), lambda: 0.0)
    series.leads = True
    for _ in range(10_000):
        series.phases[NS, "rt", "Running"] += 1
    samples = [one for metric in series.collect() for one in metric.samples]
    assert [(one.labels["phase"], one.value) for one in samples] == [("Running", 10_000)]
