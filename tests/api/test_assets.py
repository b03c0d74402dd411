import copy

import pytest

from ktrain.api import assets, documents
from ktrain.framework import system_env
from ktrain.local.apiserver.server import ApiServer


def test_crds_are_those_of_the_trainer_and_of_jobset():
    assert [crd["spec"]["names"]["kind"] for crd in assets.crds()] == [
        "TrainJob",
        "TrainingRuntime",
        "ClusterTrainingRuntime",
        "OptimizationJob",
        "JobSet",
    ]


def test_a_server_leaves_the_shared_crds_as_they_are():
    before = copy.deepcopy(assets.crds())

    ApiServer(system_env(), crds=assets.crds())

    assert assets.crds() == before
    assert assets.crds() is assets.crds()


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
