"""Helm and its like as a test calls them, and what the chart renders."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "ktrain"
VALUES = Path(__file__).parent / "values"
RELEASE, NAMESPACE = "ktrain", "ktrain-system"
PATIENCE_S = 300


def find(name):
    """The path of a program, None if it is missing: of $KTRAIN_TOOLS, of $KUBEBUILDER_ASSETS or of the PATH."""
    places = [os.environ.get("KTRAIN_TOOLS", ""), os.environ.get("KUBEBUILDER_ASSETS", ""), os.environ["PATH"]]
    return shutil.which(name, path=os.pathsep.join(places))


@dataclass
class Program:
    """A program with a home directory of its own, and perhaps a cluster."""

    path: str
    home: Path
    kubeconfig: Path | None = None

    def run(self, *arguments, stdin=None):
        """Run it; returns the CompletedProcess, whatever the exit code."""
        environment = {**os.environ, "HOME": str(self.home)}
        environment.pop("KUBECONFIG", None)
        options = ["--kubeconfig", self.kubeconfig] if self.kubeconfig else []
        command = [self.path, *options, *arguments]
        return subprocess.run(
            command, input=stdin, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )

    def __call__(self, *arguments, stdin=None):
        """Run it; returns what it printed. Fails with what it complained about."""
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout


def template(helm, *arguments, values=None):
    """Return the chart's output as text, for files of values, options and a dict of values."""
    text = yaml.safe_dump(values or {})
    return helm("template", RELEASE, CHART, "--namespace", NAMESPACE, *arguments, "--values", "-", stdin=text)


def objects(text):
    """Return the objects of a manifest."""
    return [one for one in yaml.safe_load_all(text) if one]


def of_kind(found, kind):
    """Return the objects of one kind."""
    return [one for one in found if one["kind"] == kind]
