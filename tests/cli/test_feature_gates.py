"""`--feature-gates`: which names there are, and what they switch."""

import pytest

from ktrain.cli.feature_gates import FeatureGates, parse
from ktrain.controllers.jobset import Gates


@pytest.mark.parametrize(
    ("text", "gates"),
    [
        ("", FeatureGates()),
        ("RestartJob", FeatureGates(Gates(restart_job=True, elastic_train_jobs=True))),
        ("RestartJob=true, ElasticJobSet", FeatureGates(Gates(restart_job=True, elastic_jobset=True))),
        ("ElasticJobSet=false", FeatureGates(Gates())),
        ("RestartJob,InPlaceRestart=false", FeatureGates(Gates(restart_job=True, elastic_train_jobs=True))),
        ("TrainJobStatus", FeatureGates(train_job_status=True)),
        ("TrainJobStatus=false", FeatureGates()),
        ("GenericWorkload", FeatureGates()),
        ("TrainJobState", FeatureGates(train_job_state=True)),
        ("TrainJobState=false", FeatureGates(train_job_state=False)),
        ("GenericWorkload=false", FeatureGates(generic_workload=False)),
        (
            "ElasticJobSet,GenericWorkload=false",
            FeatureGates(Gates(elastic_jobset=True), generic_workload=False),
        ),
        ("TrainJobStatus=true,ElasticJobSet", FeatureGates(Gates(elastic_jobset=True), train_job_status=True)),
    ],
)
def test_gates_are_read_as_kubernetes_writes_them(text, gates):
    assert parse(text) == gates


@pytest.mark.parametrize("text", ["Restart", "RestartJob=yes", "TrainJobStatus,TrainJobStatus=false"])
def test_what_is_no_gate_is_refused(text):
    with pytest.raises(ValueError, match="feature gate"):
        parse(text)
