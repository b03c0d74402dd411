"""The fixtures, as a project sees them that is not ours."""

import asyncio
import re
import time
from pathlib import Path

import pytest
import yaml

from ktrain.api.core import CONFIG_MAPS, untyped
from ktrain.api.jobset import JOBSETS
from ktrain.api.meta import Key
from ktrain.api.trainer import TRAIN_JOBS
from ktrain.framework.errors import Forbidden
from ktrain.testing.envtest import ASSETS
from ktrain.testing.planes import embedded_plane
from ktrain.testing.realserver import StartFailed, real_server
from ktrain.testing.time import simulate

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def embedded(monkeypatch):
    """Tests of the embedded control plane, whatever the environment says."""
    monkeypatch.delenv(ASSETS, raising=False)


def config_map(name, **metadata):
    metadata = {"name": name, "namespace": "default", **metadata}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


async def test_an_embedded_control_plane_starts_and_stops_in_less_than_100_ms():
    """With our kinds and rules, and serving. The best of five: other programs run beside the tests."""
    times_s = []
    for _ in range(5):
        start = time.perf_counter()
        async with embedded_plane() as plane:
            await plane.client().list(TRAIN_JOBS)
        times_s.append(time.perf_counter() - start)

    assert min(times_s) < 0.1


async def test_every_plane_is_empty_and_has_our_kinds_and_rules():
    body = {
        "apiVersion": TRAIN_JOBS.api_version,
        "kind": "TrainJob",
        "metadata": {"name": "job", "namespace": "default"},
        "spec": {"runtimeRef": {"name": "missing"}},
    }
    for _ in range(2):
        async with embedded_plane() as plane:
            client = plane.client()
            assert (await client.list(untyped(JOBSETS))).items == []
            assert (await client.list(CONFIG_MAPS, plane.namespace)).items == []
            with pytest.raises(Forbidden, match="must be created before"):
                await client.create(TRAIN_JOBS, body)
            await client.create(CONFIG_MAPS, config_map("left-behind"))


def test_an_embedded_plane_runs_on_virtual_time_and_collects_garbage():
    async def scenario(env):
        async with embedded_plane(env) as plane:
            client = plane.client()
            owner = await client.create(CONFIG_MAPS, config_map("owner"))
            reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.metadata.uid}
            await client.create(CONFIG_MAPS, config_map("owned", ownerReferences=[reference]))
            await client.delete(CONFIG_MAPS, Key("default", "owner"))
            return await plane.wait_for(CONFIG_MAPS, "owned", lambda found: found is None)

    assert simulate(scenario) is None


def test_waiting_ends_with_what_was_seen_last():
    async def scenario(env):
        async with embedded_plane(env) as plane:
            await plane.client().create(CONFIG_MAPS, config_map("c"))
            with pytest.raises(AssertionError, match=r'ConfigMap default/c .* in 3600 s: .*"name":"c"'):
                await plane.wait_for(CONFIG_MAPS, "c", lambda found: found is None, timeout_s=3600)
            with pytest.raises(AssertionError, match="it does not exist"):
                await plane.wait_for(CONFIG_MAPS, "d", lambda found: found is not None)
            return env.clock.monotonic()

    assert simulate(scenario) >= 3630


async def test_the_kubeconfig_leads_to_the_same_server_and_goes_with_it():
    async with embedded_plane() as plane:
        await plane.client().create(CONFIG_MAPS, config_map("seen"))
        file = await plane.kubeconfig()
        config = yaml.safe_load(file.read_text())
        cluster, token = config["clusters"][0]["cluster"], config["users"][0]["user"]["token"]
        assert await plane.kubeconfig() == file

    assert not file.exists()
    assert cluster["server"].startswith("https://127.0.0.1:")
    assert token
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", int(cluster["server"].rpartition(":")[2]))


def test_the_plugin_works_in_a_project_that_knows_nothing_of_ours(pytester, embedded):
    """In pytest-asyncio's strict mode too, which is its default."""
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    pytester.makeconftest('pytest_plugins = ["ktrain.testing.plugin"]')
    pytester.makepyfile(
        """
        import pytest
        from ktrain.api.core import CONFIG_MAPS

        @pytest.mark.asyncio
        @pytest.mark.parametrize("_", range(2))
        async def test_fresh(control_plane, _):
            assert not control_plane.is_real
            metadata = {"name": "a", "namespace": control_plane.namespace}
            await control_plane.client("me").create(CONFIG_MAPS, {"metadata": metadata})
        """
    )

    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=2)


def test_the_examples_in_the_documentation_run(pytester, embedded):
    pages = [(DOCS / page).read_text() for page in ("testing.md", "framework.md")]
    setup, *examples = re.findall(r"```python\n(.*?)```", "".join(pages), re.DOTALL)
    tests = [example for example in examples if "async def test_" in example]
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\nasyncio_mode = auto\n")
    pytester.makeconftest(setup)
    pytester.makepyfile(**{f"test_{number}": example for number, example in enumerate(tests)})

    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=3)


def test_a_real_server_that_cannot_start_says_why_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    for name in ("etcd", "kube-apiserver"):
        binary = tmp_path / "bin" / name
        binary.parent.mkdir(exist_ok=True)
        binary.write_text(f"#!/bin/sh\necho {name} is not for this machine >&2\nexit 3\n")
        binary.chmod(0o755)

    with pytest.raises(StartFailed, match=r"exit code 3\).*\n.*is not for this machine"), real_server(tmp_path / "bin"):
        pass

    assert [entry.name for entry in tmp_path.iterdir()] == ["bin"]
