"""Tracing as the environment configures it, up to the collector."""

import asyncio
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import structlog
from opentelemetry.sdk.trace import TracerProvider
from structlog.testing import capture_logs

from ktrain.framework import Tracing
from ktrain.framework.errors import ConfigError

from .traced import PATH, reconcile

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
            {"EXPORTER_OTLP_ENDPOINT": "http://x", "EXPORTER_OTLP_PROTOCOL": "http/json"},
            "OTEL_EXPORTER_OTLP_PROTOCOL is 'http/json'; there are grpc and http/protobuf",
        ),
        (
            {"TRACES_EXPORTER": "otlp", "EXPORTER_OTLP_TRACES_PROTOCOL": "kafka", "EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL is 'kafka'",
        ),
        (
            {"TRACES_EXPORTER": "otlp", "EXPORTER_OTLP_CERTIFICATE": "/nowhere/ca.crt"},
            "OTEL_EXPORTER_OTLP_CERTIFICATE: /nowhere/ca.crt: No such file or directory",
        ),
    ],
)
def test_what_the_environment_asks_for_in_vain_is_named(environment, variables, text):
    environment(**variables)

    with pytest.raises(ConfigError, match=text):
        Tracing.from_environment("op")


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_without_the_exporter_the_error_says_what_to_install(environment, monkeypatch, protocol):
    environment(EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1", EXPORTER_OTLP_PROTOCOL=protocol)
    module = protocol.partition("/")[0]
    monkeypatch.setitem(sys.modules, f"opentelemetry.exporter.otlp.proto.{module}.trace_exporter", None)

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
