import re
from pathlib import Path

import pytest

from ktrain.cli.config import ConfigError, Configuration, load
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


def test_the_file_in_the_guide_for_those_who_come_from_kubeflow_is_taken(tmp_path):
    guide = (Path(__file__).parents[2] / "docs" / "operator.md").read_text()
    (text,) = re.findall(r"```yaml\n(.*?)```", guide.partition("## Coming from")[2].partition("\n## ")[0], re.DOTALL)

    loaded = load_text(tmp_path, text)
    assert (loaded.leader_election.leader_elect, loaded.webhook.enable) == (True, True)


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
        ("statusServer: {qps: 0}", "statusServer.qps: must be greater than 0"),
        ("statusServer: {burst: -1}", "statusServer.burst: must be greater than or equal to 0"),
        ("statusServer: {ports: 1}", 'did you mean "port"?'),
        ("certManagement: {enable: true}", "certManagement.enable: it has no effect unless webhook.enable is true"),
        (
            "{certManagement: {enable: true}, webhook: {enable: true}, featureGates: {TrainJobStatus: true}}",
            "certManagement.enable: the status server takes its certificate from webhook.certDir",
        ),
        ("certManagement: {webhookSecretName: s}", "it has the name of the Service; else mount it at webhook.certDir"),
        ("health: {readinessEndpointName: readyz}", "Kubeflow Trainer's: the path is /readyz"),
        ("clientConnection: {qps: 50}", "Kubeflow Trainer's: requests are not limited by a rate"),
        ("webhook: {enabled: true}", 'did you mean "enable"?'),
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
