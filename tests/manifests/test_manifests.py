"""What is generated of charts/ktrain and config/ is what `python hack/manifests` renders."""

import subprocess
import sys
from pathlib import Path

import yaml

from ktrain.cli.config import Configuration
from ktrain.cli.rights import all_rights, needed
from ktrain.pipeline import Registry

ROOT = Path(__file__).parents[2]


def test_rendering_again_changes_nothing():
    command = [sys.executable, "hack/manifests", "--check", "--no-helm"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, ""), "run `python hack/manifests`"


def test_a_right_that_a_plugin_declares_is_in_the_chart():
    rules = yaml.safe_load((ROOT / "charts/ktrain/files/rights.yaml").read_text())
    declared = {
        (tuple(rule["apiGroups"]), tuple(rule["resources"])) for rule in rules if rule["feature"] == "plugin:Volcano"
    }

    assert {(("scheduling.volcano.sh",), ("podgroups",)), (("scheduling.k8s.io",), ("priorityclasses",))} <= declared
    scopes = {rule["resources"][0]: rule["scope"] for rule in rules}
    assert (scopes["priorityclasses"], scopes["trainjobs"]) == ("cluster", "watched")
    assert all(rule["reason"] for rule in rules)


def test_a_configuration_needs_the_rights_of_its_features_only():
    registry = Registry.load()
    without = {right.feature for right in needed(Configuration(), registry)}

    assert not without & {"jobset", "leaderElection", "statusServer", "metricsAuth", "certManagement"}
    assert {"", "plugin:MPI", "genericWorkload"} <= without
    assert len(all_rights(registry, ("secret",), "lease")) > len(needed(Configuration(), registry))
