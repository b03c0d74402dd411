import pytest

from ktrain.cli.config import ConfigError, Configuration
from ktrain.cli.config_file import load
from ktrain.cli.durations import parse_duration

HEAD = "apiVersion: config.trainer.kubeflow.org/v1alpha1\nkind: Configuration\n"


def load_text(tmp_path, text):
    path = tmp_path / "config.yaml"
    path.write_text(text)
    return load(str(path))


def test_an_empty_file_means_all_defaults(tmp_path):
    assert load_text(tmp_path, "") == Configuration()


def test_what_the_file_says_is_taken(tmp_path):
    text = HEAD + "leaderElection: {leaderElect: true, leaseDuration: 20s}\nhealth: {healthProbeBindAddress: '0'}\n"

    loaded = load_text(tmp_path, text)

    assert loaded.leader_election.leader_elect is True
    assert loaded.leader_election.lease_duration == "20s"
    assert loaded.health.health_probe_bind_address == "0"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("leaderElektion: {}", 'did you mean "leaderElection"?'),
        ("webhook: {port: 70000}", "webhook.port: must be between 1 and 65535"),
        ("webhook: {port: yes}", "$.webhook.port"),
        ("leaderElection: {leaseDuration: soon}", "leaderElection.leaseDuration: 'soon' is not a duration"),
        ("leaderElection: {leaseDuration: 5s}", "leaseDuration > renewDeadline"),
        ("controller: {groupKindConcurrency: {TrainJob.trainer.kubeflow.org: 0}}", "must be greater than 0"),
        ("controller: {groupKindConcurrency: {TrainJobs.trainer.kubeflow.org: 2}}", "no kind"),
        ("metrics: {certDir: /certs}", "metrics.certDir: it has no effect unless metrics.secureServing is true"),
        ("metrics: {authorize: true}", "metrics.authorize: needs metrics.secureServing, or tokens would cross"),
        ("metrics: {secure: true}", "metrics"),
        ("metrics: {bindAddress: nowhere}", "metrics.bindAddress: 'nowhere' is not HOST:PORT"),
        (
            "jobset: {enable: true, featureGates: {RestartJobs: true}}",
            "jobset.featureGates: no feature gate 'RestartJobs'",
        ),
        ("jobset: {featureGates: {RestartJob: true}}", "no effect unless jobset.enable is true"),
        ("snapshots: none", "Invalid enum value 'none' - at `$.snapshots`"),
        (
            "featureGates: {TrainJobsStatus: true}",
            "featureGates: no feature gate 'TrainJobsStatus'; there is TrainJobSt",
        ),
        ("featureGates: {TrainJobStatus: 1}", "$.featureGates"),
        ("statusServer: {port: 0}", "statusServer.port: must be between 1 and 65535"),
        ("statusServer: {qps: -1}", "statusServer.qps: must be greater than or equal to 0"),
        ("statusServer: {burst: -1}", "statusServer.burst: must be greater than or equal to 0"),
        ("statusServer: {ports: 1}", 'did you mean "port"?'),
        (
            "{certManagement: {enable: true}, webhook: {enable: false}}",
            "certManagement.enable: it has no effect unless webhook.enable is true",
        ),
        ("certManagement: {webhookSecret: s}", 'at `$.certManagement`; did you mean "webhookSecretName"?'),
        ("health: {readyEndpointName: readyz}", 'did you mean "readinessEndpointName"?'),
        ("health: {readinessEndpointName: a/b}", "health.readinessEndpointName: 'a/b' is not one segment of a path"),
        ("health: {readinessEndpointName: /healthz}", "health.readinessEndpointName: it is that of liveness"),
        ("clientConnection: {qps: -1}", "clientConnection.qps: must be greater than or equal to 0"),
        ("clientConnection: {bursts: 1}", 'did you mean "burst"?'),
        (
            "metrics: {auth: {enabled: true}}",
            "metrics.auth.enabled: needs metrics.secureServing, or tokens would cross",
        ),
        ("webhook: {enabled: true}", 'did you mean "enable"?'),
        ("plugins: {disabled: Volcano}", "Expected `array`, got `str` - at `$.plugins.disabled`"),
        ("plugins: {disable: [Volcano]}", 'did you mean "disabled"?'),
        ("plugins: {disabled: [Volcano, JobSet]}", "plugins.disabled: without JobSet no TrainJob could run"),
        ("plugins: {config: {Acme: 7}}", "Expected `object`, got `int` - at `$.plugins.config[...]`"),
        ("kind: Pod", "kind Configuration"),
        ("a: [", "not YAML"),
    ],
)
def test_what_cannot_work_is_refused_with_its_path(tmp_path, text, message):
    with pytest.raises(ConfigError) as refusal:
        load_text(tmp_path, text)

    assert message in str(refusal.value)
    assert "config.yaml" in str(refusal.value)


def test_jobsets_are_left_to_the_jobset_operator_unless_the_file_says_otherwise(tmp_path):
    assert not load_text(tmp_path, HEAD).jobset.enable
    chosen = load_text(tmp_path, HEAD + "jobset: {enable: true, featureGates: {ElasticJobSet: true}}\n").jobset

    assert (chosen.enable, chosen.feature_gates) == (True, {"ElasticJobSet": True})


def test_a_missing_file_is_named():
    with pytest.raises(ConfigError, match="/nowhere: No such file"):
        load("/nowhere")


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("1h30m", 5400), ("1.5m", 90), ("500ms", 0.5)])
def test_durations_are_read_as_people_write_them(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "0", "-5", "5 m", "5x", "1h30"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(text)
