"""The environment variables, definitions from files, and what is left of a run that failed."""

import re
import socket
from pathlib import Path

import pytest
import yaml

from ktrain.testing.crds import read_crds
from ktrain.testing.envtest import DEFAULT_DIRECTORY, Settings
from ktrain.testing.realserver import ATTEMPTS, StartFailed, real_server


def definition(name, version="v1"):
    return {"kind": "CustomResourceDefinition", "metadata": {"name": name}, "spec": {"version": version}}


def programs(directory, **scripts):
    """Write shell scripts that stand for programs."""
    directory.mkdir(exist_ok=True)
    for name, script in scripts.items():
        path = directory / name.replace("_", "-")
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    return directory


def test_without_variables_nothing_is_started():
    assert Settings.of({}) == Settings()


def test_the_directory_is_used_and_one_program_can_be_another(tmp_path):
    programs(tmp_path, kubectl="exit")
    found = Settings.of({"KUBEBUILDER_ASSETS": str(tmp_path), "TEST_ASSET_ETCD": "/opt/etcd"}).binaries

    assert found.etcd == Path("/opt/etcd")
    assert found.kube_apiserver == tmp_path / "kube-apiserver"
    assert found.kubectl == tmp_path / "kubectl"
    assert found.kube_controller_manager is None


def test_what_is_not_named_lies_in_envtests_own_directory():
    found = Settings.of({"TEST_ASSET_KUBE_APISERVER": "/opt/kube-apiserver"}).binaries

    assert found.kube_apiserver == Path("/opt/kube-apiserver")
    assert found.etcd == DEFAULT_DIRECTORY / "etcd"


def test_an_existing_cluster_and_output_can_be_asked_for():
    settings = Settings.of({"USE_EXISTING_CLUSTER": "true", "KUBEBUILDER_ATTACH_CONTROL_PLANE_OUTPUT": "true"})

    assert settings.existing_cluster
    assert settings.attach_output


@pytest.mark.parametrize(("text", "seconds"), [("20s", 20), ("1m30s", 90), ("1.5h", 5400), ("250ms", 0.25)])
def test_durations_are_go_s(text, seconds):
    environment = {
        "KUBEBUILDER_CONTROLPLANE_START_TIMEOUT": text,
        "KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT": text,
    }
    settings = Settings.of(environment)

    assert (settings.start_timeout_s, settings.stop_timeout_s) == (seconds, seconds)


@pytest.mark.parametrize("text", ["20", "s", "1m-2s", "soon"])
def test_what_is_no_duration_is_named(text):
    with pytest.raises(ValueError, match=f"START_TIMEOUT={re.escape(text)} is no duration"):
        Settings.of({"KUBEBUILDER_CONTROLPLANE_START_TIMEOUT": text})


def test_definitions_come_from_files_directories_and_objects(tmp_path):
    many = [definition("a"), None, {"kind": "ConfigMap", "metadata": {"name": "other"}}, definition("b")]
    (tmp_path / "some.yaml").write_text(yaml.safe_dump_all(many))
    (tmp_path / "notes.txt").write_text("not YAML: [")
    directory = tmp_path / "more"
    directory.mkdir()
    (directory / "one.json").write_text('{"kind": "CustomResourceDefinition", "metadata": {"name": "c"}}')

    found = read_crds([tmp_path, str(directory), directory / "one.json", definition("b", version="v2")])

    assert [one["metadata"]["name"] for one in found] == ["a", "b", "c"]
    assert found[1]["spec"]["version"] == "v2"


def test_a_path_that_does_not_exist_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        read_crds([tmp_path / "nowhere"])


def test_a_port_that_another_program_took_is_tried_again(tmp_path):
    count = tmp_path / "count"
    script = f"echo x >> {count}; echo 'listen tcp 127.0.0.1:1: bind: address already in use'; exit 1"
    binaries = programs(tmp_path / "bin", etcd=script, kube_apiserver="sleep 60")

    with pytest.raises(StartFailed, match="address already in use"), real_server(binaries):
        pass

    assert len(count.read_text().split()) == ATTEMPTS


def test_a_program_that_hangs_ends_the_start_after_its_time(tmp_path):
    binaries = programs(tmp_path / "bin", etcd="exec sleep 60", kube_apiserver="echo waiting; exec sleep 60")
    hurry = Settings(start_timeout_s=0.5)
    words = r"kube-apiserver did not come up \(exit code None\):\nwaiting"

    with pytest.raises(StartFailed, match=words), real_server(binaries, settings=hurry):
        pass


def test_logs_are_kept_when_somebody_wants_them(tmp_path):
    binaries = programs(tmp_path / "bin", etcd="echo that was it; exit 3", kube_apiserver="exec sleep 60")
    logs = tmp_path / "logs"

    with pytest.raises(StartFailed), real_server(binaries, keep_logs=lambda: logs):
        pass

    assert (logs / "etcd.log").read_text() == "that was it\n"


@pytest.fixture
def environment(monkeypatch):
    for name in ("KUBEBUILDER_ASSETS", "TEST_ASSET_ETCD", "TEST_ASSET_KUBE_APISERVER", "USE_EXISTING_CLUSTER"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_the_report_of_a_failed_run_says_where_the_logs_are(pytester, environment, tmp_path):
    binaries = programs(tmp_path / "bin", etcd="echo no space left; exit 3", kube_apiserver="exec sleep 60")
    environment.setenv("KUBEBUILDER_ASSETS", str(binaries))
    environment.setenv("TMPDIR", str(tmp_path))
    pytester.makeini("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n")
    pytester.makeconftest('pytest_plugins = ["ktrain.testing.plugin"]')
    pytester.makepyfile("async def test_it(control_plane): pass")

    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")

    result.assert_outcomes(errors=1)
    found = re.search(r"the logs of etcd and kube-apiserver are in (\S+)", result.stdout.str())
    assert (Path(found[1]) / "etcd.log").read_text() == "no space left\n"


def test_an_existing_cluster_is_the_one_of_the_kubeconfig(pytester, environment, tmp_path):
    """A socket that nobody answers on stands for a cluster: what counts is that it is asked."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.close()
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "users": [{"name": "c", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        }
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    environment.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    environment.setenv("USE_EXISTING_CLUSTER", "true")
    pytester.makeini("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n")
    pytester.makeconftest('pytest_plugins = ["ktrain.testing.plugin"]')
    pytester.makepyfile("async def test_it(control_plane): pass")

    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")

    result.assert_outcomes(errors=1)
    assert url.removeprefix("http://") in result.stdout.str()
