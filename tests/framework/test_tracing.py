"""Spans as an exporter gets them; and that nothing of OpenTelemetry is there when nobody asked for it."""

import asyncio
import subprocess
import sys

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ktrain.framework import Tracing
from ktrain.framework.errors import TransportError
from ktrain.framework.telemetry.logging import trace_fields
from ktrain.framework.telemetry.otel import path_template

from .traced import KEY, PATH, provider_for, reconcile

SAMPLED = 1


def test_a_reconcile_is_a_span_that_says_of_what_why_and_which_pass(tracing, exporter):
    with reconcile(tracing) as span:
        span.set("ktrain.priority", 7)

    (found,) = exporter.get_finished_spans()
    assert found.name == "reconcile jobsets"
    assert dict(found.attributes) == {
        "ktrain.controller": "jobsets",
        "k8s.namespace.name": "team",
        "k8s.object.name": "job",
        "ktrain.reason": "JobSet team/job updated",
        "ktrain.reconcile_id": "1f",
        "ktrain.priority": 7,
    }
    assert span.trace_id == f"{found.context.trace_id:032x}"


def test_a_call_is_the_child_of_its_reconcile_and_tells_no_header_body_or_query(tracing, exporter):
    with reconcile(tracing), tracing.call("PATCH", f"{PATH}/status?token=hunter2", server="10.0.0.1") as call:
        call.set("http.response.status_code", 200)

    inner, outer = exporter.get_finished_spans()
    assert inner.parent.span_id == outer.context.span_id
    assert inner.kind is trace.SpanKind.CLIENT
    assert inner.name == "PATCH /apis/jobset.x-k8s.io/v1alpha2/namespaces/{namespace}/jobsets/{name}/status"
    assert dict(inner.attributes) == {
        "http.request.method": "PATCH",
        "url.path": f"{PATH}/status",
        "url.template": "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{namespace}/jobsets/{name}/status",
        "server.address": "10.0.0.1",
        "http.response.status_code": 200,
    }


def test_a_pass_is_the_root_of_its_trace_and_linked_to_what_made_its_key_due(tracing, exporter):
    with reconcile(tracing):
        cause = tracing.context()
        with reconcile(tracing, cause=cause):
            pass

    second, first = exporter.get_finished_spans()
    assert second.parent is None
    assert second.context.trace_id != first.context.trace_id
    assert [link.context for link in second.links] == [first.context]
    assert tracing.context() is None


@pytest.mark.parametrize("by", ["raised", "reported", "reported and raised"])
def test_a_failure_is_recorded_once(tracing, exporter, by):
    error = TransportError("no answer from https://server")
    try:
        with tracing.call("GET", PATH) as span:
            if "reported" in by:
                span.fail(error)
            if "raised" in by:
                raise error
    except TransportError:
        pass

    (found,) = exporter.get_finished_spans()
    assert found.status.status_code is trace.StatusCode.ERROR
    assert found.status.description == "no answer from https://server"
    assert found.attributes["error.type"] == "TransportError"
    assert [event.name for event in found.events] == ["exception"]


async def test_cancellation_ends_a_span_and_is_no_error(tracing, exporter):
    async def work():
        with reconcile(tracing):
            await asyncio.sleep(60)

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])

    (found,) = exporter.get_finished_spans()
    assert found.status.status_code is trace.StatusCode.UNSET
    assert [event.name for event in found.events] == ["cancelled"]


async def test_two_passes_at_once_have_their_own_children(tracing, exporter):
    async def work(name):
        with tracing.reconcile(name, KEY, reason="", reconcile_id="", cause=None):
            await asyncio.sleep(0)
            with tracing.call("GET", f"/api/v1/nodes/{name}"):
                await asyncio.sleep(0)

    await asyncio.gather(work("a"), work("b"))

    spans = exporter.get_finished_spans()
    parents = {span.context.span_id: span.name for span in spans if span.parent is None}
    found = {span.attributes["url.path"]: parents[span.parent.span_id] for span in spans if span.parent}
    assert found == {"/api/v1/nodes/a": "reconcile a", "/api/v1/nodes/b": "reconcile b"}


def test_the_sampler_decides_and_its_no_reaches_server_and_exemplar(exporter):
    tracing = Tracing.on(provider_for(exporter, sampler=ALWAYS_OFF))
    with reconcile(tracing) as span, tracing.call("GET", PATH) as call:
        assert not int(call.headers()["traceparent"][-2:], 16) & SAMPLED
        assert span.trace_id == ""

    assert not exporter.get_finished_spans()


def test_the_server_can_make_its_spans_children_of_a_call(tracing, exporter):
    with tracing.call("GET", PATH) as span:
        headers = span.headers()

    (found,) = exporter.get_finished_spans()
    received = trace.get_current_span(TraceContextTextMapPropagator().extract(headers)).get_span_context()
    assert received.is_remote
    assert (received.trace_id, received.span_id) == (found.context.trace_id, found.context.span_id)
    assert int(headers["traceparent"][-2:], 16) & SAMPLED


def test_without_tracing_a_span_takes_everything_and_does_nothing():
    tracing = Tracing()
    with reconcile(tracing) as span, tracing.call("GET", PATH) as call:
        span.set("ktrain.priority", 7)
        span.fail(ValueError("x"))

        assert (span.trace_id, call.headers(), tracing.context()) == ("", {}, None)


@pytest.mark.parametrize(
    ("path", "template"),
    [
        ("/api/v1/namespaces/a/pods/b/log", "/api/v1/namespaces/{namespace}/pods/{name}/log"),
        ("/api/v1/namespaces/a/services/b/proxy/any/path", "/api/v1/namespaces/{namespace}/services/{name}/proxy"),
        ("/api/v1/namespaces/a", "/api/v1/namespaces/{name}"),
        ("/api/v1/namespaces/a/finalize", "/api/v1/namespaces/{name}/finalize"),
        ("/api/v1/namespaces", "/api/v1/namespaces"),
        ("/apis/apps/v1/deployments", "/apis/apps/v1/deployments"),
        ("/apis/apps/v1/namespaces/a/deployments", "/apis/apps/v1/namespaces/{namespace}/deployments"),
        ("/apis", "/apis"),
        ("/openapi/v3/apis/apps/v1", "/openapi"),
        ("/version", "/version"),
    ],
)
def test_the_name_of_a_call_has_no_name_of_an_object(path, template):
    assert path_template(path) == template


def test_log_lines_of_a_traced_pass_carry_its_ids(tracing, exporter):
    with reconcile(tracing):
        line = trace_fields(None, "info", {"event": "x"})

    (found,) = exporter.get_finished_spans()
    assert line == {
        "event": "x",
        "trace_id": f"{found.context.trace_id:032x}",
        "span_id": f"{found.context.span_id:016x}",
    }
    assert trace_fields(None, "info", {"event": "x"}) == {"event": "x"}


def test_who_does_not_trace_imports_nothing_of_opentelemetry(environment):
    environment()
    program = """
import asyncio, io, pkgutil, sys, importlib, structlog
import ktrain.framework
from ktrain.framework.telemetry.logging import configure
for module in pkgutil.walk_packages(ktrain.framework.__path__, "ktrain.framework."):
    if module.name != "ktrain.framework.telemetry.otel":
        importlib.import_module(module.name)
from ktrain.framework import Tracing
configure(stream=io.StringIO())
tracing = Tracing.from_environment("nobody asked")
with tracing.call("GET", "/version"):
    structlog.get_logger().error("x")
print([name for name in sys.modules if name.split(".")[0] == "opentelemetry"])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
