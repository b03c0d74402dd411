"""What contributors and their robots rely on: the Makefile, the hooks before a commit, the workflows."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
MAKEFILE = (ROOT / "Makefile").read_text()
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yaml"))
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.MULTILINE))


def jobs_of(workflow):
    return yaml.safe_load(workflow.read_text())["jobs"]


def steps_of(workflow):
    return [step for job in jobs_of(workflow).values() for step in job.get("steps", ())]


def test_the_hooks_before_a_commit_are_the_parts_of_make_check():
    hooks = [
        hook
        for repo in yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
        for hook in repo["hooks"]
    ]
    parts = re.search(r"^check: (.*)$", MAKEFILE, re.MULTILINE)[1].split()

    assert [hook["entry"] for hook in hooks] == [f"make {part}" for part in parts]
    assert {hook["language"] for hook in hooks} == {"system"}


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_each_make_target_of_a_workflow_exists(workflow):
    commands = "\n".join(step.get("run", "") for step in steps_of(workflow))
    matrix = [
        each
        for job in jobs_of(workflow).values()
        for each in job.get("strategy", {}).get("matrix", {}).get("target", ())
    ]
    named = {*re.findall(r"^make ([a-z-]+)", commands, re.MULTILINE), *matrix}

    assert named - TARGETS == set()


def test_help_and_the_guide_name_the_targets_for_people():
    parts = {target for target in TARGETS if target.startswith("check-")}
    documented = set(re.findall(r'echo "make ([a-z-]+)', MAKEFILE))

    assert documented == TARGETS - parts - {"help"}
    named = set(re.findall(r"`make ([a-z-]+)`", (ROOT / "CONTRIBUTING.md").read_text()))
    assert named - TARGETS - {"help"} == set()


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_may_read_only_and_each_job_says_what_else_it_may(workflow):
    allowed = {"id-token", "packages", "attestations", "pages", "contents"}

    assert yaml.safe_load(workflow.read_text())["permissions"] == {"contents": "read"}
    for name, job in jobs_of(workflow).items():
        assert job.get("permissions", {}).keys() <= allowed, name
        assert "uses" in job or "timeout-minutes" in job, name


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_each_action_is_pinned_by_commit_with_its_version_beside(workflow):
    uses = [line.strip(" -") for line in workflow.read_text().splitlines() if "uses:" in line]
    local = [line for line in uses if line.startswith("uses: ./")]

    assert [line for line in uses if not re.fullmatch(r"uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)] == local


def test_an_action_has_one_commit_in_all_workflows():
    used = {tuple(pin) for path in WORKFLOWS for pin in re.findall(r"uses: ([\w./-]+)@(\S+)", path.read_text())}

    assert len(used) == len({action for action, _ in used})


def test_a_checkout_leaves_no_credentials_behind():
    checkouts = [step for path in WORKFLOWS for step in steps_of(path) if "checkout@" in step.get("uses", "")]

    assert checkouts
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_no_script_of_a_workflow_has_text_from_outside_put_into_it():
    """Expressions reach a script by variables: what they hold is then data, and never a command."""
    scripts = [step["run"] for path in WORKFLOWS for step in steps_of(path) if "run" in step]

    assert [script for script in scripts if "${{" in script and "matrix.target" not in script] == []


def promises(*options, listed=None):
    """Run hack/promises.py, on another list if there is one; returns exit code and errors."""
    script = "import pathlib, sys, promises; promises.LISTED = pathlib.Path(sys.argv.pop(1)); promises.main()"
    command = [sys.executable, "-c", script, str(listed or ROOT / "hack/promises.txt"), *options]
    done = subprocess.run(command, cwd=ROOT / "hack", capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stderr


def test_no_name_that_was_promised_is_gone():
    """Options, settings, values of the chart, metrics, hooks, exported names: docs/stability.md."""
    assert promises("--check") == (0, "")


def test_a_promised_name_that_is_gone_is_named(tmp_path):
    listed = tmp_path / "promises.txt"
    listed.write_text("command ktrain run --nodes\ncommand ktrain run --hover\nmetric ktrain_hovers_total\n")

    code, said = promises("--check", listed=listed)
    assert code == 1
    assert said.splitlines()[1:] == ["  command ktrain run --hover", "  metric ktrain_hovers_total"]
