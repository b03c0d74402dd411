"""Spans as an exporter gets them; and that nothing of OpenTelemetry is there when nobody asked for it."""

import asyncio
import io
import json
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import anyio
import pytest
import structlog
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from ktrain.api.core import CONFIG_MAPS
from ktrain.api.meta import Key
from ktrain.framework import Cache, Client, Controller, Metrics, Tracing
from ktrain.framework.errors import ConfigError, TransportError
from ktrain.framework.telemetry.logging import configure, trace_fields
from ktrain.framework.telemetry.otel import path_template
from ktrain.testing.time import simulate

SAMPLED = 1
KEY = Key("team", "job")
PATH = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/team/jobsets/job"


@pytest.fixture
def exporter():
    return InMemorySpanExporter()


@pytest.fixture
def tracing(exporter):
    return Tracing.on(provider_for(exporter))


@pytest.fixture
def environment(monkeypatch):
    """Set OTEL_* variables, of which there are no others."""
    import os

    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)

    def put(**variables):
        for name, value in variables.items():
            monkeypatch.setenv(f"OTEL_{name}", value)

    return put


def provider_for(exporter, **options):
    provider = TracerProvider(shutdown_on_exit=False, **options)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider


def reconcile(tracing, *, cause=None):
    return tracing.reconcile("jobsets", KEY, reason="JobSet team/job updated", reconcile_id="1f", cause=cause)


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


# From the environment


def test_an_environment_that_asks_for_nothing_turns_nothing_on(environment):
    environment()
    assert type(Tracing.from_environment("op")) is Tracing

    environment(EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1", TRACES_EXPORTER="none")
    assert type(Tracing.from_environment("op")) is Tracing

    environment(TRACES_EXPORTER="otlp", SDK_DISABLED="true")
    assert type(Tracing.from_environment("op")) is Tracing


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        ({"TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER names 'zipkin'; there are otlp, console and none"),
        (
            {"EXPORTER_OTLP_ENDPOINT": "http://x", "EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_PROTOCOL is 'grpc'; only http/protobuf is supported",
        ),
    ],
)
def test_what_the_environment_asks_for_in_vain_is_named(environment, variables, text):
    environment(**variables)

    with pytest.raises(ConfigError, match=text):
        Tracing.from_environment("op")


def test_without_the_exporter_the_error_says_what_to_install(environment, monkeypatch):
    environment(EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)

    with pytest.raises(ConfigError, match=r"pip install 'ktrain-operator\[otlp\]'"):
        Tracing.from_environment("op")


class Collector:
    """An OTLP endpoint that keeps what it gets, or never answers."""

    def __init__(self, *, hangs=False):
        collector = self
        self.bodies = []
        self.release = threading.Event()
        self.asked = threading.Event()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.asked.set()
                if hangs:
                    collector.release.wait(30)
                collector.bodies.append(body)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self):
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.release.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


async def test_the_end_sends_what_is_left_to_the_collector_of_the_environment(environment):
    with Collector() as collector:
        environment(
            EXPORTER_OTLP_ENDPOINT=collector.url,
            EXPORTER_OTLP_COMPRESSION="none",
            SERVICE_NAME="chosen-by-environment",
            BSP_SCHEDULE_DELAY="60000",
        )
        tracing = Tracing.from_environment("website-operator")
        with reconcile(tracing):
            pass
        await tracing.aclose()

    (body,) = collector.bodies
    assert b"reconcile jobsets" in body
    assert b"chosen-by-environment" in body
    assert b"website-operator" not in body


async def test_the_name_of_the_service_is_the_programs_unless_the_environment_has_one(environment):
    with Collector() as collector:
        environment(EXPORTER_OTLP_ENDPOINT=collector.url, EXPORTER_OTLP_COMPRESSION="none")
        tracing = Tracing.from_environment("website-operator")
        with reconcile(tracing):
            pass
        await tracing.aclose()

    assert b"website-operator" in collector.bodies[0]


async def test_a_collector_that_hangs_delays_the_end_by_no_more_than_asked_and_blocks_nobody(environment):
    structlog.reset_defaults()
    with Collector(hangs=True) as collector:
        environment(EXPORTER_OTLP_ENDPOINT=collector.url, BSP_SCHEDULE_DELAY="60000")
        tracing = Tracing.from_environment("op")
        with reconcile(tracing):
            pass
        turns = 0

        async def others():
            nonlocal turns
            while True:
                await asyncio.sleep(0.005)
                turns += 1

        working = asyncio.create_task(others())
        started = time.monotonic()
        with capture_logs() as lines:
            await tracing.aclose(timeout_s=0.3)
        took = time.monotonic() - started
        working.cancel()

        assert collector.asked.is_set()
        assert 0.3 <= took < 5
        assert turns > 10
        assert [line["event"] for line in lines] == ["tracing.flush_incomplete"]


async def test_a_provider_of_the_callers_is_flushed_and_lives_on(exporter):
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=60_000))
    tracing = Tracing.on(provider)
    for count in (1, 2):
        with reconcile(tracing):
            pass
        await tracing.aclose()

        assert len(exporter.get_finished_spans()) == count
    provider.shutdown()


async def test_without_a_provider_of_anybody_the_end_is_no_error():
    tracing = Tracing.on()
    with reconcile(tracing) as span, tracing.call("GET", PATH) as call:
        assert (span.trace_id, call.headers()) == ("", {})

    await tracing.aclose()
