import json
from pathlib import Path

import pytest
import structlog

from ktrain.cli.config import Configuration, Metrics, Webhook
from ktrain.cli.kubeflow import Logs
from ktrain.cli.operating import operate, settings_of
from ktrain.cli.plugin_choice import registry_of


@pytest.fixture(autouse=True)
def own_log():
    """`operate` sets logging up for its process."""
    yield
    structlog.reset_defaults()


def test_traces_to_nowhere_known_are_refused_before_anything_starts(monkeypatch, capsys):
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "smoke-signals")

    assert operate(Configuration(), None, Logs()) == 1
    said = json.loads(capsys.readouterr().err.splitlines()[-1])
    assert said["error"] == "OTEL_TRACES_EXPORTER names 'smoke-signals'; there are otlp, console and none"
    assert (said["event"], said["level"], said["exit_code"]) == ("operator.failed", "error", 1)


def test_a_log_of_text_ends_with_one_line_for_people(monkeypatch, capsys):
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "smoke-signals")

    assert operate(Configuration(), None, Logs(format="text")) == 1
    assert capsys.readouterr().err.splitlines()[-1] == (
        "ktrain: OTEL_TRACES_EXPORTER names 'smoke-signals'; there are otlp, console and none"
    )


@pytest.mark.parametrize(("host", "address"), [("", ":9443"), ("127.0.0.1", "127.0.0.1:9443"), ("::1", "[::1]:9443")])
def test_the_address_of_the_webhooks_is_one_whatever_the_host(host, address):
    assert settings_of(Configuration(webhook=Webhook(host=host)), None, Logs()).webhook_address == address


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (Metrics(), (False, None, False)),
        (Metrics(secure_serving=True), (True, None, False)),
        (Metrics(secure_serving=True, cert_dir="/certs", authorize=True), (True, Path("/certs"), True)),
    ],
)
def test_metrics_are_served_as_the_file_says(given, meant):
    found = settings_of(Configuration(metrics=given), None, Logs())

    assert (found.metrics_tls, found.metrics_cert_dir, found.metrics_auth) == meant


@pytest.mark.parametrize("is_on", [True, False])
def test_the_gate_of_native_gangs_decides_whether_their_kinds_are_watched(is_on):
    registry = registry_of(Configuration(feature_gates={"GenericWorkload": is_on}))

    assert ("workloads" in {watch.resource.plural for watch in registry.watches}) is is_on
    assert "Workload" in registry.names
