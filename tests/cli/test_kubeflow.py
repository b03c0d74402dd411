"""The file and the flags of Kubeflow Trainer 2.3's manager, given to ours."""

import ssl
from pathlib import Path

import pytest
import structlog
from click.testing import CliRunner

from ktrain.cli.config import Configuration
from ktrain.cli.config_file import load
from ktrain.cli.kubeflow import Logs, logs, unheeded, warn
from ktrain.cli.operating import settings_of
from ktrain.cli.operator import _with_options, command

STOCK = Path(__file__).parent / "data" / "kubeflow-trainer-2.3.yaml"


def loaded(tmp_path, text):
    path = tmp_path / "config.yaml"
    path.write_text(text)
    return load(str(path))


def given(*arguments):
    """The options as the command line has them; the file is read elsewhere."""
    return command.make_context("operator", list(arguments)).params


def test_the_file_that_kubeflow_trainer_is_installed_with_runs_the_operator_as_it_says():
    configuration = load(str(STOCK))
    settings = settings_of(configuration, None, Logs())

    assert configuration.webhook.enable
    assert configuration.cert_management.enable
    assert configuration.cert_management.webhook_secret_name == "kubeflow-trainer-webhook-cert"
    assert configuration.controller.group_kind_concurrency["TrainJob.trainer.kubeflow.org"] == 5
    assert (settings.leader_election, settings.metrics_address, settings.metrics_tls) == (
        "trainer.kubeflow.org",
        ":8443",
        True,
    )
    assert (configuration.status_server.qps, configuration.takes_reports) == (5, False)


def test_what_of_it_has_no_effect_is_said_once_each():
    with structlog.testing.capture_logs() as lines:
        warn(load(str(STOCK)), Logs())

    assert [(line["event"], line["field"], line["log_level"]) for line in lines] == [
        ("operator.field_unheeded", "clientConnection.qps", "warning"),
        ("operator.field_unheeded", "clientConnection.burst", "warning"),
    ]
    assert all(line["instead"].startswith("requests are not limited") for line in lines)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("", []),
        ("clientConnection: {qps: 0}", ["clientConnection.qps"]),
        ("leaderElection: {resourceLock: leases}", []),
        ("leaderElection: {resourceLock: endpoints}", ["leaderElection.resourceLock"]),
        ("tls: {minVersion: VersionTLS12, nextProtos: [http/1.1]}", []),
        (
            "tls: {minVersion: VersionTLS13, cipherSuites: [TLS_AES_128_GCM_SHA256], nextProtos: [h2, http/1.1]}",
            ["tls.cipherSuites", "tls.nextProtos"],
        ),
        ('tls: {minVersion: "1.1"}', ["tls.minVersion"]),
        ('tls: {minVersion: "1.3"}', []),
        ("featureGates: {AllAlpha: true, AllBeta: true}", []),
        ("clientConnection:\nfeatureGates:\nleaderElection: {leaseDuration: }", []),
    ],
)
def test_fields_of_kubeflows_that_have_no_effect_are_taken_and_named(tmp_path, text, fields):
    assert [field for field, _ in unheeded(loaded(tmp_path, text))] == fields


@pytest.mark.parametrize(
    ("text", "enabled"),
    [
        ("", False),
        ("webhook: {port: 9443}", True),
        ("certManagement: {enable: true}", True),
        ("webhook: {enable: false, port: 9443}", False),
    ],
)
def test_webhooks_are_on_in_files_that_configure_them(tmp_path, text, enabled):
    assert loaded(tmp_path, text).webhook.enable is enabled


def test_metrics_are_for_those_with_a_token_by_either_name(tmp_path):
    configuration = loaded(tmp_path, "metrics: {secureServing: true, auth: {enabled: true}}")

    assert settings_of(configuration, None, Logs()).metrics_auth


def test_probes_answer_at_the_names_in_the_file(tmp_path):
    configuration = loaded(tmp_path, "health: {readinessEndpointName: /ready, livenessEndpointName: alive}")

    assert settings_of(configuration, None, Logs()).health_aliases == {"ready": "readyz", "alive": "healthz"}


@pytest.mark.parametrize(
    ("text", "service"),
    [
        ("", "kubeflow-trainer-controller-manager"),
        ("certManagement: {webhookServiceName: '', webhookSecretName: ''}", "kubeflow-trainer-controller-manager"),
        ("certManagement: {webhookServiceName: trainer}", "trainer"),
    ],
)
def test_an_empty_name_of_the_service_is_kubeflow_trainers(tmp_path, text, service):
    assert loaded(tmp_path, text).cert_management.service == service


@pytest.mark.parametrize(
    ("gates", "on"),
    [
        ({}, False),
        ({"TrainJobStatus": True}, True),
        ({"AllAlpha": True}, True),
        ({"AllAlpha": True, "TrainJobStatus": False}, False),
        ({"AllBeta": True}, False),
    ],
)
def test_a_gate_is_on_by_its_name_or_by_its_stage(gates, on):
    assert Configuration(feature_gates=gates).takes_reports is on


@pytest.mark.parametrize(("gate", "field"), [("GenericWorkload", "has_native_gangs"), ("TrainJobState", "shows_state")])
@pytest.mark.parametrize(
    ("values", "on"),
    [
        ({}, True),
        ({"GATE": True}, True),
        ({"GATE": False}, False),
        ({"AllBeta": False}, False),
        ({"AllBeta": False, "GATE": True}, True),
        ({"AllAlpha": False}, True),
    ],
)
def test_a_beta_gate_is_on_unless_it_or_its_stage_is_off(gate, field, values, on):
    gates = {name.replace("GATE", gate): value for name, value in values.items()}

    assert getattr(Configuration(feature_gates=gates), field) is on
    texts = [f"{name}={str(value).lower()}" for name, value in gates.items()]
    if texts:
        given_on_the_command_line = _with_options(Configuration(), given("--feature-gates", ",".join(texts)))
        assert getattr(given_on_the_command_line, field) is on


@pytest.mark.parametrize(
    ("flags", "level", "form", "unheeded_flags"),
    [
        ([], "info", "auto", []),
        (["--zap-log-level=2"], "info", "auto", []),
        (["--zap-log-level=5"], "debug", "auto", []),
        (["--zap-log-level=debug", "--zap-encoder=json"], "debug", "json", []),
        (["--zap-log-level", "panic", "--zap-encoder", "console"], "error", "text", []),
        (["--zap-devel"], "debug", "text", []),
        (["--zap-devel=true", "--zap-log-level=info", "--zap-encoder=json"], "info", "json", []),
        (["--zap-devel=false"], "info", "auto", []),
        (["--zap-devel", "--no-leader-elect"], "debug", "text", []),
        (["--zap-time-encoding=rfc3339nano"], "info", "auto", []),
        (
            ["--zap-stacktrace-level=error", "--zap-time-encoding=epoch"],
            "info",
            "auto",
            ["--zap-stacktrace-level", "--zap-time-encoding"],
        ),
    ],
)
def test_flags_about_logs_act_or_are_named(flags, level, form, unheeded_flags):
    found = logs(given(*flags))

    assert (found.level, found.format, list(found.unheeded)) == (level, form, unheeded_flags)
    settings = settings_of(Configuration(), None, found)
    assert (settings.log_level, settings.log_format) == (level, form)


def test_feature_gates_of_the_command_line_win_over_the_file():
    configuration = Configuration(feature_gates={"TrainJobStatus": True, "AllAlpha": False})

    assert not _with_options(configuration, given("--feature-gates=TrainJobStatus=false")).takes_reports
    assert _with_options(Configuration(), given("--feature-gates", "AllAlpha=true,AllBeta=false")).takes_reports


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--feature-gates=TrainJobsStatus=true"],
            "--feature-gates: no feature gate 'TrainJobsStatus'; there is Train",
        ),
        (["--feature-gates=TrainJobStatus=yes"], "feature gate TrainJobStatus: 'yes' is neither true nor false"),
        (["--zap-log-level=loud"], "'loud' is neither a number above 0 nor one of debug, info, error, panic"),
        (["--zap-log-level=0"], "'0' is neither a number above 0"),
        (["--zap-encoder=xml"], "'xml' is not one of 'json', 'console'"),
        (["--zap-level=2"], "No such option '--zap-level'"),
    ],
)
def test_flags_that_nobody_knows_are_refused(arguments, message):
    result = CliRunner().invoke(command, arguments)

    assert result.exit_code == 2
    assert message in result.output


@pytest.mark.parametrize(
    ("text", "minimum"),
    [
        ("", "1.2"),
        ("tls: {minVersion: '1.2'}", "1.2"),
        ("tls: {minVersion: '1.3'}", "1.3"),
        ("tls: {minVersion: VersionTLS13}", "1.3"),
    ],
)
def test_the_least_version_of_tls_holds_for_our_servers(tmp_path, text, minimum):
    configuration = loaded(tmp_path, text)
    expected = ssl.TLSVersion[f"TLSv{minimum.replace('.', '_')}"]

    assert (configuration.tls.minimum, settings_of(configuration, None, Logs()).tls_minimum) == (expected, expected)
