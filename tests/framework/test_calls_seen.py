"""What is seen of a call: metrics, spans and warnings."""

from contextlib import contextmanager

import pytest
import structlog
from prometheus_client import CollectorRegistry

from ktrain.api.core import CONFIG_MAPS
from ktrain.framework.client.warnings import MAX_TEXTS, WarningLog
from ktrain.framework.errors import (
    ApiError,
    Conflict,
    TransportError,
)
from ktrain.framework.metrics import Metrics
from ktrain.framework.telemetry.tracing import Tracing

from .calling import BODY, STORED, call, refusal

# What is seen of a call


def samples(registry):
    return {
        (name, *labels.items()): value
        for family in registry.collect()
        for name, labels, value, *_ in family.samples
        if value and not name.endswith(("_created", "_bucket", "_sum"))
    }


def test_attempts_and_retries_are_counted_by_code_method_and_host(script):
    registry = CollectorRegistry()
    script.answers += [refusal(429), TransportError("reset"), (200, STORED), TransportError("reset")]

    async def use(client):
        await client.get(CONFIG_MAPS, "a", "ns")
        with pytest.raises(TransportError):
            await client.create(CONFIG_MAPS, BODY)

    call(script, use, metrics=Metrics(registry))

    def count(name, code, verb, method):
        return (name, ("code", code), (verb, method), ("host", "in-process"))

    assert samples(registry) == {
        count("rest_client_requests_total", "429", "method", "GET"): 1,
        count("rest_client_requests_total", "<error>", "method", "GET"): 1,
        count("rest_client_requests_total", "200", "method", "GET"): 1,
        count("rest_client_requests_total", "<error>", "method", "POST"): 1,
        count("rest_client_request_retries_total", "429", "verb", "GET"): 1,
        count("rest_client_request_retries_total", "<error>", "verb", "GET"): 1,
    }


def test_durations_and_sizes_are_measured_only_if_that_is_wanted(script):
    registry = CollectorRegistry()
    script.answers.append((200, STORED))

    call(script, lambda c: c.create(CONFIG_MAPS, BODY), metrics=Metrics(registry), detailed_metrics=True)

    labels = (("verb", "POST"), ("host", "in-process"))
    names = ("duration_seconds", "size_bytes")
    found = samples(registry)
    assert [found[f"rest_client_request_{name}_count", *labels] for name in names] == [1, 1]
    assert found["rest_client_response_size_bytes_count", *labels] == 1
    size = registry.get_sample_value("rest_client_request_size_bytes_sum", dict(labels))
    assert size == len(script.calls[0].body)


class Spans(Tracing):
    """Writes down what is said of each call."""

    trace_id = ""

    def __init__(self):
        self.seen = []

    @contextmanager
    def call(self, method, path, *, server=""):
        self.seen.append((method, path, server))
        try:
            yield self
        except ApiError as error:
            self.seen.append(error.code)
            raise

    def set(self, name, value):
        self.seen.append((name, value))

    def retried(self, code):
        self.seen.append(("again after", code))

    def headers(self):
        return {"traceparent": "x"}


def test_a_call_with_all_its_attempts_is_one_span(script):
    script.answers += [refusal(429), (200, STORED), refusal(409)]
    spans = Spans()

    async def use(client):
        await client.get(CONFIG_MAPS, "a", "ns")
        with pytest.raises(Conflict):
            await client.update(CONFIG_MAPS, BODY)

    call(script, use, tracing=spans)

    call_of = ("/api/v1/namespaces/ns/configmaps/a", "in-process")
    got = [("GET", *call_of), ("again after", "429"), ("http.response.status_code", 200)]
    assert spans.seen == [*got, ("PUT", *call_of), 409]
    assert {each.headers["traceparent"] for each in script.calls} == {"x"}


def test_each_warning_is_logged_once_with_the_call_it_came_with(script):
    header = '299 - "v1 is \\"old\\"", 299 ktrain "use v2, please", 199 - "of a cache"'
    script.answers += [(200, STORED, {"warning": header})] * 3

    async def use(client):
        for _ in range(3):
            await client.get(CONFIG_MAPS, "a", "ns")

    with structlog.testing.capture_logs() as logs:
        call(script, use)

    assert [(line["text"], line["method"]) for line in logs] == [('v1 is "old"', "GET"), ("use v2, please", "GET")]


def test_the_texts_of_warnings_that_are_remembered_are_bounded():
    warnings = WarningLog()

    with structlog.testing.capture_logs() as logs:
        for number in range(MAX_TEXTS + 1):
            warnings.note(f'299 - "{number}"', method="GET", path="/")
        warnings.note(f'299 - "{MAX_TEXTS}"', method="GET", path="/")
        warnings.note('299 - "0"', method="GET", path="/")

    assert (len(warnings._seen), len(logs)) == (MAX_TEXTS, MAX_TEXTS + 2)
