"""The distribution as a user gets it: built, installed into an empty environment, and at work there; and the lock."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TRAINED = "learning rate 0.1: loss 0.000000"  # what examples/plain finds
UV = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")


def run(*command, cwd, **options):
    """Run a program as a new user's shell would: nothing of this environment, and no source tree on the path."""
    names = ("PATH", "HOME", "TMPDIR", "SSL_CERT_FILE", "PIP_CERT", "PIP_INDEX_URL", "PIP_FIND_LINKS")
    env = {name: os.environ[name] for name in names if name in os.environ}
    command = [str(part) for part in command]
    return subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, timeout=400, check=False, **options
    )


def must(*command, cwd):
    done = run(*command, cwd=cwd)
    assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def build(source, target, into):
    must(sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", into, cwd=source)
    return next(into.glob({"sdist": "*.tar.gz", "wheel": "*.whl"}[target]))


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    return build(ROOT, "sdist", tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def wheel(sdist, tmp_path_factory):
    """The wheel that is built from the unpacked sdist."""
    directory = tmp_path_factory.mktemp("unpacked")
    must("tar", "--extract", "--gzip", "--file", sdist, cwd=directory)
    return build(next(directory.iterdir()), "wheel", tmp_path_factory.mktemp("wheel"))


def test_the_sdist_builds_the_wheel_that_the_repository_builds(wheel, tmp_path):
    assert build(ROOT, "wheel", tmp_path).read_bytes() == wheel.read_bytes()


def test_the_wheel_has_the_license_the_types_marker_and_the_entry_points(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        entry_points = next(archive.read(name).decode() for name in names if name.endswith("entry_points.txt"))

    assert "ktrain/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert "ktrain = ktrain.cli.main:entry" in entry_points
    assert "[ktrain.plugins]" in entry_points
    assert {name.split("/")[0] for name in names} == {
        "ktrain",
        wheel.name.removesuffix("-py3-none-any.whl") + ".dist-info",
    }


def test_the_wheel_trains_in_an_empty_environment(wheel, tmp_path):
    """Only the wheel and what it requires are installed; the example's program needs nothing but Python."""
    environment = tmp_path / "venv"
    must(sys.executable, "-m", "venv", environment, cwd=tmp_path)
    must(environment / "bin/pip", "install", "--quiet", "--disable-pip-version-check", wheel, cwd=tmp_path)
    shutil.copytree(ROOT / "examples/plain", tmp_path / "examples/plain")
    ktrain = environment / "bin/ktrain"

    said = must(ktrain, "run", "examples/plain/trainjob.yaml", cwd=tmp_path)
    listed = run(environment / "bin/pip", "list", "--format", "freeze", cwd=tmp_path).stdout

    assert TRAINED in said
    assert "Complete" in said
    assert str(environment) in must(
        environment / "bin/python", "-c", "import ktrain; print(ktrain.__file__)", cwd=tmp_path
    )
    assert {"pytest", "torch"}.isdisjoint(line.partition("==")[0] for line in listed.splitlines())
    assert "ktrain-operator" in listed


@pytest.mark.skipif(UV is None, reason="uv is not installed: pip install uv")
def test_the_lock_is_what_uv_would_write():
    """A change of pyproject.toml needs `uv lock`."""
    done = run(UV, "lock", "--check", cwd=ROOT)

    assert done.returncode == 0, done.stderr
