import pytest

from ktrain.api import assets, documents


def test_crds_are_those_of_the_trainer_and_of_jobset():
    assert [crd["spec"]["names"]["kind"] for crd in assets.crds()] == [
        "TrainJob",
        "TrainingRuntime",
        "ClusterTrainingRuntime",
        "JobSet",
    ]


def test_each_caller_gets_crds_of_its_own():
    assets.crds()[0].clear()

    assert assets.crds()[0]["metadata"]["name"] == "trainjobs.trainer.kubeflow.org"


def test_shipped_runtimes_are_valid_cluster_training_runtimes():
    for runtime in [document.object for document in documents.load(assets.runtime_files())]:
        assert documents.resource_of(runtime).kind == "ClusterTrainingRuntime"


def test_missing_assets_say_where_they_were_looked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(assets, "_PACKAGE", tmp_path / "ktrain")
    assets.config_directory.cache_clear()
    try:
        with pytest.raises(assets.AssetsMissing, match=r"_config and .*config; reinstall"):
            assets.config_directory()
    finally:
        assets.config_directory.cache_clear()
