"""The workflows by actionlint: expressions, inputs, events, runners, and the shell of their scripts."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ACTIONLINT = shutil.which("actionlint", path=f"{os.environ.get('KTRAIN_TOOLS', '')}{os.pathsep}{os.environ['PATH']}")

pytestmark = pytest.mark.skipif(ACTIONLINT is None, reason="actionlint is not there: hack/tools/build builds it")


def lint(*files, directory=ROOT):
    done = subprocess.run(
        [ACTIONLINT, "-no-color", *map(str, files)],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_actionlint_finds_nothing():
    code, said = lint(*sorted((ROOT / ".github/workflows").glob("*.yaml")))

    assert (code, said) == (0, "")


def test_actionlint_would_find_something(tmp_path):
    """The check is at work: a release whose job waits for one that is not there."""
    broken = tmp_path / "release.yaml"
    broken.write_text((ROOT / ".github/workflows/release.yaml").read_text().replace("needs: [build]", "needs: [bulid]"))

    code, said = lint(broken, directory=tmp_path)
    assert code == 1
    assert "bulid" in said
