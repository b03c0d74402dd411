"""Traces of `ktrain operator` at a collector: by OTLP over HTTP and over gRPC, and a log whose lines name them."""

import gzip
import json
import os
import threading
from concurrent import futures
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)

from ktrain.api.jobset import JOBSETS

from .processes import end, operating

pytestmark = pytest.mark.e2e
LATER = pytest.mark.skipif("KUBEBUILDER_ASSETS" not in os.environ, reason="seconds of a process: `make test-real`")


@contextmanager
def over_http(received):
    """An OTLP endpoint over HTTP."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            assert (self.path, self.headers["Content-Type"]) == ("/v1/traces", "application/x-protobuf")
            received.append((ExportTraceServiceRequest.FromString(body), dict(self.headers)))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@contextmanager
def over_grpc(received):
    """An OTLP endpoint over gRPC."""

    class Service(TraceServiceServicer):
        def Export(self, request, context):  # noqa: N802 -- the name of the protocol
            received.append((request, dict(context.invocation_metadata())))
            return ExportTraceServiceResponse()

    server = grpc.server(futures.ThreadPoolExecutor(1))
    add_TraceServiceServicer_to_server(Service(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"http://127.0.0.1:{port}"
    server.stop(grace=None).wait()


def attributes(of):
    return {one.key: one.value.string_value or one.value.int_value for one in of.attributes}


@pytest.fixture
def run(control_plane, create_train_job, tmp_path):
    """Have an operator with OTEL_* variables make the JobSet of a TrainJob; returns the lines of its log, decoded."""

    async def run(**variables):
        log = tmp_path / "operator.log"
        otel = {f"OTEL_{name}": value for name, value in variables.items()}
        options = ("--zap-log-level", "debug")
        async with operating(control_plane, await control_plane.kubeconfig(), *options, log=log, **otel) as process:
            await create_train_job("traced")
            await control_plane.wait_for(JOBSETS, "traced", lambda found: found is not None)
            await end(process)
        return [json.loads(line) for line in log.read_text().splitlines()]

    return run


@pytest.mark.parametrize(
    ("protocol", "collector"), [("http/protobuf", over_http), pytest.param("grpc", over_grpc, marks=LATER)]
)
async def test_a_reconcile_with_its_calls_and_plugins_reaches_a_collector(run, protocol, collector):
    received = []
    with collector(received) as url:
        lines = await run(
            EXPORTER_OTLP_ENDPOINT=url,
            EXPORTER_OTLP_PROTOCOL=protocol,
            EXPORTER_OTLP_HEADERS="x-tenant=research",
            RESOURCE_ATTRIBUTES="deployment.environment=test",
            SERVICE_NAME="trainer-of-the-test",
        )
    requests = [request for request, _ in received]
    assert {headers.get("x-tenant") for _, headers in received} == {"research"}
    resources = [attributes(one.resource) for request in requests for one in request.resource_spans]
    assert {one["service.name"] for one in resources} == {"trainer-of-the-test"}
    assert {one["deployment.environment"] for one in resources} == {"test"}
    spans = [
        span
        for request in requests
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    # A real server has TrainJobs of other tests, too.
    roots = {one.trace_id: one for one in spans if attributes(one).get("k8s.object.name") == "traced"}
    patch = next(one for one in spans if one.name.startswith("PATCH /apis/jobset.x-k8s.io") and one.trace_id in roots)
    trace = [one for one in spans if one.trace_id == patch.trace_id]
    (root,) = [one for one in trace if not one.parent_span_id]
    assert root is roots[root.trace_id]
    assert root.name == "reconcile trainjob_controller"
    plugins = [one for one in trace if one.name.startswith("plugin ")]
    assert {attributes(one)["ktrain.plugin"] for one in plugins} >= {"JobSet", "PlainML"}
    assert {one.parent_span_id for one in [patch, *plugins]} == {root.span_id}
    assert all(root.start_time_unix_nano <= one.start_time_unix_nano <= one.end_time_unix_nano for one in plugins)
    told = [line for line in lines if line.get("trace_id") == patch.trace_id.hex()]
    assert root.span_id.hex() in {line["span_id"] for line in told}


@LATER
@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
async def test_a_collector_that_is_gone_leaves_a_log_of_json_lines(run, protocol):
    lines = await run(
        EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1", EXPORTER_OTLP_PROTOCOL=protocol, BSP_SCHEDULE_DELAY="50"
    )
    told = [line for line in lines if str(line.get("logger", "")).startswith("opentelemetry")]
    assert any("127.0.0.1" in line["message"] for line in told)


async def test_spans_on_the_console_are_json_lines(run):
    lines = await run(TRACES_EXPORTER="console", TRACES_SAMPLER="always_on")
    spans = [line for line in lines if "parent_id" in line]
    names = {span["name"] for span in spans}
    assert {"reconcile trainjob_controller", "plugin JobSet"} <= names
    assert "PATCH /apis/jobset.x-k8s.io/v1alpha2/namespaces/{namespace}/jobsets/{name}" in names
    assert any(span["attributes"].get("ktrain.reason", "").startswith("Train") for span in spans)


@LATER
async def test_a_sampler_that_takes_nothing_sends_nothing(run):
    lines = await run(TRACES_EXPORTER="console", TRACES_SAMPLER="traceidratio", TRACES_SAMPLER_ARG="0")
    assert [line for line in lines if "parent_id" in line] == []
