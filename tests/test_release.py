"""The scripts of the release workflow, run as a runner would run them."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml

import ktrain

ROOT = Path(__file__).parent.parent
JOBS = yaml.safe_load((ROOT / ".github/workflows/release.yaml").read_text())["jobs"]


def script(job, name):
    return next(step["run"] for step in JOBS[job]["steps"] if step.get("name", "").startswith(name))


def run(text, tmp_path, **variables):
    """Run a script of a step in the repository, with files for what it writes; returns exit code, errors, outputs."""
    outputs = tmp_path / "outputs"
    outputs.touch()
    env = {"PATH": os.environ["PATH"], "GITHUB_OUTPUT": str(outputs), **variables}
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", text]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr, outputs.read_text()


@pytest.fixture
def checkout(tmp_path):
    (tmp_path / "ktrain").symlink_to(ROOT / "ktrain")
    (tmp_path / "CHANGELOG.md").symlink_to(ROOT / "CHANGELOG.md")
    return tmp_path


def test_a_tag_that_is_the_version_is_released(checkout):
    done = run(script("build", "The tag"), checkout, GITHUB_REF_NAME=f"v{ktrain.__version__}")

    assert done == (0, "", f"version={ktrain.__version__}\n")


def test_a_tag_that_is_not_the_version_is_refused_with_both(checkout):
    code, said, outputs = run(script("build", "The tag"), checkout, GITHUB_REF_NAME="v9.9.9")

    assert (code, outputs) == (1, "")
    assert said == f"the tag is v9.9.9, and ktrain/__init__.py has {ktrain.__version__}\n"


def test_the_notes_of_a_release_are_its_section_of_the_change_log(checkout):
    """`gh` is another program: here it is one that shows what it was called with."""
    gh = checkout / "bin/gh"
    gh.parent.mkdir()
    gh.write_text('#!/bin/sh\necho "$@"\n')
    gh.chmod(0o755)
    (checkout / "dist").mkdir()
    (checkout / "dist/wheel.whl").touch()
    (checkout / "CHANGELOG.md").unlink()
    (checkout / "CHANGELOG.md").write_text(
        "# Changelog\n\n## 0.2.0 (2027-01-02)\n\nNew.\n\n## 0.1.0 (2026-11-23)\n\nOld.\n"
    )
    path = f"{gh.parent}{os.pathsep}{os.environ['PATH']}"

    code, said, _ = run(script("github", "Create"), checkout, PATH=path, VERSION="0.2.0", GITHUB_REF_NAME="v0.2.0")

    assert (code, (checkout / "notes.md").read_text()) == (0, "\nNew.\n\n")
    assert said == "release create v0.2.0 --verify-tag --title ktrain 0.2.0 --notes-file notes.md dist/wheel.whl\n"


def test_a_release_without_a_section_in_the_change_log_is_not_created(checkout):
    code, said, _ = run(script("github", "Create"), checkout, VERSION="9.9.9", GITHUB_REF_NAME="v9.9.9")

    assert code == 1
    assert "release" not in said


def test_what_publishes_waits_for_what_is_tested_and_only_pypi_s_job_may_ask_for_its_identity():
    assert all("build" in job.get("needs", ()) for name, job in JOBS.items() if name != "build")
    assert "make test" in [step.get("run") for step in JOBS["build"]["steps"]]
    assert JOBS["pypi"]["permissions"] == {"id-token": "write"}
    assert not any("secrets." in str(job) or "password" in str(job.get("with", "")) for job in JOBS.values())


def test_the_chart_pulls_the_image_that_the_workflow_pushes():
    image = yaml.safe_load((ROOT / "charts/ktrain/values.yaml").read_text())["image"]
    job = yaml.safe_load((ROOT / ".github/workflows/images.yaml").read_text())["jobs"]["image"]
    push = next(step["run"] for step in job["steps"] if step.get("id") == "push")

    assert image["repository"].split("/")[-1] in [each["name"] for each in job["strategy"]["matrix"]["include"]]
    assert job["env"]["IMAGE"].startswith(image["registry"])
    assert (image["tag"], '--tag "$IMAGE:v$VERSION"' in push) == ("", True)  # which stands for v and the appVersion
    for each in job["strategy"]["matrix"]["include"]:
        stages = (ROOT / each["file"]).read_text()
        assert f" AS {each['target']}\n" in stages or each["target"] == ""
