"""Spans of a controller: passes, their calls, their logs."""

import asyncio
import io
import json

import anyio
import pytest
import structlog
from opentelemetry import trace
from prometheus_client import CollectorRegistry

from ktrain.api.core import CONFIG_MAPS
from ktrain.framework import Cache, Client, Controller, Metrics
from ktrain.framework.telemetry.logging import configure
from ktrain.testing.time import simulate

from .traced import KEY

# In a controller

STATUS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}


@pytest.fixture
def passes(tracing, script):
    """Run a controller that reads one ConfigMap until it succeeds, on virtual time; returns its registry and lines."""

    def run(*answers):
        script.answers += answers
        registry = CollectorRegistry()
        out = io.StringIO()
        configure(stream=out, json=True)

        async def scenario(env):
            client = Client(script, env, field_manager="test", tracing=tracing)
            done = anyio.Event()

            async def reconcile(key):
                structlog.get_logger("reconciler").info("looked")
                await client.get(CONFIG_MAPS, key.name, key.namespace)
                done.set()

            controller = Controller(
                "maps", reconcile, env=env, cache=Cache(client, env), metrics=Metrics(registry), tracing=tracing
            )
            async with anyio.create_task_group() as group:
                await group.start(controller.run)
                controller.enqueue(KEY, reason="by hand")
                await done.wait()
                await asyncio.sleep(0)
                controller.shut_down()

        simulate(scenario)
        structlog.reset_defaults()
        return registry, [json.loads(line) for line in out.getvalue().splitlines()]

    return run


def test_a_retry_is_linked_to_the_pass_that_failed_and_each_pass_has_its_calls(passes, exporter):
    passes((500, {**STATUS, "code": 500, "message": "etcd is away"}), (200, {"metadata": {"name": "job"}}))

    call, failed, second_call, succeeded = exporter.get_finished_spans()
    assert [span.name for span in (failed, succeeded)] == ["reconcile maps"] * 2
    assert (call.parent.span_id, second_call.parent.span_id) == (failed.context.span_id, succeeded.context.span_id)
    assert [link.context.span_id for link in succeeded.links] == [failed.context.span_id]
    assert failed.attributes["ktrain.reason"] == "by hand"
    assert succeeded.attributes["ktrain.reason"].startswith("retry")
    assert failed.attributes["ktrain.runs_again"].startswith("retry")
    assert succeeded.attributes["ktrain.runs_again"] == "with its next event"
    assert succeeded.attributes["ktrain.priority"] == 0
    assert (call.attributes["http.response.status_code"], call.attributes["error.type"]) == (500, "500")
    assert failed.attributes["error.type"] == "ServerError"
    assert succeeded.status.status_code is trace.StatusCode.UNSET


def test_the_log_of_a_pass_and_the_exemplar_of_its_length_name_its_trace(passes, exporter):
    registry, lines = passes(
        (403, {**STATUS, "code": 403, "reason": "Forbidden", "message": "no"}), (200, {"metadata": {"name": "job"}})
    )

    traces = {f"{span.context.trace_id:032x}": span for span in exporter.get_finished_spans() if not span.parent}
    line = next(line for line in lines if line["event"] == "looked")
    assert traces[line["trace_id"]].attributes["ktrain.reconcile_id"] == line["reconcile_id"]
    assert (line["controller"], line["object"], line["reason"]) == ("maps", "team/job", "by hand")

    shown = {
        sample.exemplar.labels["trace_id"]
        for family in registry.collect()
        for sample in family.samples
        if family.name == "controller_runtime_reconcile_time_seconds" and sample.exemplar
    }
    assert shown
    assert shown <= set(traces)


def test_a_call_that_is_sent_again_is_one_span_that_counts_and_the_server_gets_its_context(passes, exporter, script):
    passes(
        (429, {**STATUS, "code": 429, "message": "later"}, {"retry-after": "1"}), (200, {"metadata": {"name": "job"}})
    )

    call, _ = exporter.get_finished_spans()
    assert call.attributes["http.request.resend_count"] == 1
    assert call.attributes["http.response.status_code"] == 200
    assert [(event.name, event.attributes["code"]) for event in call.events] == [("retry", "429")]
    context = f"-{call.context.trace_id:032x}-{call.context.span_id:016x}-"
    assert [context in sent.headers["traceparent"] for sent in script.calls] == [True, True]
