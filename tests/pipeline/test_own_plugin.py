"""The plugin of docs/plugins/own.md, out of the page: installed, found, and run through the pipeline."""

import re
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import yaml

from ktrain.api import trainer as api
from ktrain.api.core import CONFIG_MAP_METADATA
from ktrain.api.meta import Key, Object, ObjectMeta, OwnerReference
from ktrain.pipeline import Registry, conditions, plan, validate

from .test_runner import context

PAGE = (Path(__file__).parents[2] / "docs" / "plugins" / "own.md").read_text()


def block(language):
    return re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)[1]


@pytest.fixture
def registry(tmp_path, monkeypatch):
    """The plugins, with the page's package installed as pip does it."""
    (tmp_path / "ktrain_acme.py").write_text(block("python"))
    metadata = tmp_path / "ktrain_acme-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: ktrain-acme\nVersion: 1.0\n")
    group, entry = re.search(r'entry-points\."(.*)"\]\n(.*)', block("toml")).groups()
    (metadata / "entry_points.txt").write_text(f"[{group}]\n{entry}".replace('"', ""))
    monkeypatch.syspath_prepend(tmp_path)
    yield Registry.load()
    sys.modules.pop("ktrain_acme", None)


@pytest.fixture
def objects():
    """The page's runtime and TrainJob, as the pipeline has them."""
    runtime, job = yaml.safe_load_all(block("yaml"))
    spec = msgspec.json.decode(msgspec.json.encode(runtime["spec"]), type=api.RuntimeSpec)
    typed = msgspec.json.decode(msgspec.json.encode(job), type=api.TrainJob)
    return spec, msgspec.structs.replace(typed, metadata=ObjectMeta(name="job", namespace="team", uid="u"))


def test_the_plugin_of_the_guide_works_as_it_says(registry, objects):
    spec, job = objects
    assert "acme" in registry.names
    assert validate(registry, job, None, spec, context()).message == ""

    hosts, job_set = (component.body for component in plan(registry, job, spec, context()).components)
    assert hosts["data"] == {"hosts": "job-node-0-0.job\njob-node-0-1.job\n"}
    pod = job_set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    assert pod["volumes"] == [{"name": "acme", "configMap": {"name": hosts["metadata"]["name"]}}]
    assert pod["containers"][0]["env"] == [
        {"name": "ACME_RANKS", "value": "8"},
        {"name": "ACME_FIRST", "value": "job-node-0-0.job:7000"},
    ]


def test_the_plugin_of_the_guide_sets_a_condition_once_its_hosts_are_stored(registry, objects):
    _, job = objects
    owner = OwnerReference(kind="TrainJob", name="job", uid="u", controller=True)
    stored = Object(metadata=ObjectMeta(name="job-acme", namespace="team", owner_references=(owner,)))
    failures = []

    nothing = conditions(registry, job, context(), failures)
    objects_there = {(CONFIG_MAP_METADATA, Key("team", "job-acme")): stored}
    there = replace(context(), lookup=lambda *where: objects_there.get(where))
    found = conditions(registry, job, there, failures)

    assert (nothing, failures) == ((), [])
    assert [(one.type, one.status) for one in found] == [("acme.example.com/HostsListed", "True")]


def test_the_plugin_of_the_guide_refuses_what_it_says(registry, objects):
    spec, job = objects
    env = msgspec.Raw(b'[{"name": "ACME_RANKS", "value": "1"}]')
    own = msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, trainer=api.Trainer(env=env)))

    refusal = validate(registry, own, None, spec, context()).message
    assert refusal == "spec.trainer.env: Forbidden: ACME_RANKS is set by the plugin acme"
