"""`ktrain runtime impact` on the runtimes that are shipped, seconds after their jobs were created."""

import pytest
import yaml

from ktrain.api.assets import config_directory
from ktrain.api.core import CONFIG_MAPS, untyped
from ktrain.api.trainer import TRAIN_JOBS, TRAINING_RUNTIMES
from ktrain.cli.runtime import _impacts

SHIPPED = ("torch-distributed", "jax-distributed", "xgboost-distributed")


def shipped(name, namespace):
    """The cluster's runtime of this name, for one namespace."""
    text = (config_directory() / "runtimes" / f"{name}.yaml").read_text()
    (cluster_wide,) = (one for one in yaml.safe_load_all(text) if one["metadata"]["name"] == name)
    return {**cluster_wide, "kind": "TrainingRuntime", "metadata": {"name": name, "namespace": namespace}}


@pytest.mark.parametrize("name", SHIPPED)
async def test_a_job_is_not_behind_the_runtime_that_nobody_has_changed(control_plane, running, name):
    client, namespace = control_plane.client(), control_plane.namespace
    stored = await client.create(untyped(TRAINING_RUNTIMES), shipped(name, namespace))
    spec = {"runtimeRef": {"kind": "TrainingRuntime", "name": name}, "suspend": True}
    meta = {"name": name, "namespace": namespace}
    async with running("trainjob"):
        job = {"apiVersion": TRAIN_JOBS.api_version, "kind": "TrainJob", "metadata": meta, "spec": spec}
        await client.create(untyped(TRAIN_JOBS), job)
        await control_plane.wait_for(CONFIG_MAPS, f"{name}-runtime-snapshot", lambda found: found is not None)

    (before,) = await _impacts(client, control_plane.env, name, namespace, None)
    stored["spec"]["mlPolicy"]["numNodes"] = 7
    await client.update(untyped(TRAINING_RUNTIMES), stored)
    (after,) = await _impacts(client, control_plane.env, name, namespace, None)

    assert (before.standing, before.behind) == ("on its snapshot", False)
    assert after.behind
