"""`ktrain doctor`: what is compared of definitions, and what the command line prints."""

import copy
import json
import subprocess
import sys

import anyio
import pytest

from ktrain.api import assets
from ktrain.api.rbac import Right, Rule
from ktrain.cli.doctor.command import _table
from ktrain.cli.doctor.definitions import _problems
from ktrain.cli.doctor.finding import Finding, Status
from ktrain.cli.doctor.rights import Access, _unused

READY = [{"type": kind, "status": "True"} for kind in ("Established", "NamesAccepted")]


@pytest.fixture
def stored():
    """The shipped definition of TrainJobs as a server has it."""
    body = copy.deepcopy(next(one for one in assets.crds() if one["metadata"]["name"].startswith("trainjobs.")))
    return {**body, "status": {"conditions": READY, "storedVersions": ["v1alpha1"]}}


def problems(stored):
    shipped = next(one for one in assets.crds() if one["metadata"]["name"] == stored["metadata"]["name"])
    return [(one.status, one.message) for one in _problems(shipped, stored)]


def test_a_definition_as_it_is_shipped_is_in_order(stored):
    assert problems(stored) == []


def test_fields_that_a_definition_lacks_are_named(stored):
    properties = stored["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    del properties["status"]["properties"]["state"]

    ((status, message),) = problems(stored)
    assert status is Status.WARNING
    assert message == "v1alpha1 lacks fields of this release: status.state; the API server drops them"


def test_a_definition_of_another_version_only(stored):
    stored["spec"]["versions"][0]["name"] = "v2alpha1"
    stored["status"]["storedVersions"] = ["v2alpha1"]

    served, kept = problems(stored)
    assert served == (Status.ERROR, "does not serve v1alpha1, which ktrain reads (there are: v2alpha1)")
    assert kept[0] is Status.ERROR
    assert kept[1].startswith("objects may still be stored as v2alpha1")


def test_names_that_another_definition_has(stored):
    stored["status"]["conditions"][1] = {"type": "NamesAccepted", "status": "False", "message": "trainjobs is taken"}

    assert problems(stored) == [(Status.ERROR, "NamesAccepted is not true: trainjobs is taken")]


def doctor(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "ktrain", "doctor", *map(str, arguments)], capture_output=True, text=True, check=False
    )


@pytest.mark.e2e
async def test_the_command_line_prints_findings_and_exits_with_the_verdict(control_plane):
    kubeconfig = await control_plane.kubeconfig()
    arguments = ("--kubeconfig", kubeconfig)
    fit, missing = [
        await anyio.to_thread.run_sync(doctor, *arguments, *more) for more in ((), ("--installed", "-o", "json"))
    ]

    assert (fit.returncode, fit.stderr) == (0, "")
    assert "ok       kubernetes   API server: Kubernetes v1.36" in fit.stdout
    assert fit.stdout.splitlines()[-1].startswith("0 errors, ")
    assert missing.returncode == 1
    (found,) = [one for one in json.loads(missing.stdout)["findings"] if one["status"] == "error"]
    assert (found["check"], found["message"]) == ("operator", "no ktrain operator was found")


@pytest.mark.e2e
def test_a_cluster_that_cannot_be_asked_is_one_line_and_2(tmp_path):
    (tmp_path / "config").write_text("apiVersion: v1\nkind: Config\ncurrent-context: none\n")
    done = doctor("--kubeconfig", tmp_path / "config")

    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


def test_a_terminal_gets_no_control_characters_of_others():
    finding = Finding("operator", Status.ERROR, "ConfigMap a/b", "unknown field `\x1b[31mfoo`", "correct it")

    assert "unknown field `?[31mfoo`" in _table([finding])


PODS = Right("watched", Rule(("",), ("pods",), ("list", "watch")), "")
GROUPS = Right("watched", Rule(("volcano.sh",), ("podgroups",), ("list",)), "plugin:Volcano")


@pytest.mark.parametrize(
    ("refused", "unused"),
    [
        ((), {}),
        ((("podgroups", "a"), ("podgroups", "b")), {("plugin", "plugin:Volcano"): Status.OK}),
        ((("podgroups", "a"),), {}),
        ((("podgroups", "b"), ("pods", "b")), {("namespace", "b"): Status.WARNING}),
        ((("pods", "b"),), {}),
    ],
)
def test_what_the_operator_does_without_is_no_missing_right(refused, unused):
    asked = [
        (right, Access(right.rule.api_groups[0], right.rule.resources[0], verb, namespace))
        for right in (PODS, GROUPS)
        for verb in right.rule.verbs
        for namespace in ("a", "b")
    ]
    allowed = [(access.resource, access.namespace) not in refused for _, access in asked]

    found = _unused(asked, allowed, ("a", "b"))

    assert {key: finding.status for key, finding in found.items()} == unused


def test_an_operator_that_may_nothing_lacks_rights():
    asked = [(PODS, Access("", "pods", "list", namespace)) for namespace in ("a", "b")]

    assert _unused(asked, [False, False], ("a", "b")) == {}
