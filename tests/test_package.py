"""What goes into the distribution, its version, and the lock: read from the files, without building or a network."""

import itertools
import re
import tomllib
from pathlib import Path

import pytest
import yaml
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import ktrain

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SHIPPED = re.compile(
    r"ktrain/_config/(crd/[\w.-]+\.yaml|crd/embedded/(crds|podgroups)\.json|runtimes/[\w.-]+\.yaml|trainer/public\.yaml)"
    r"|ktrain/[\w/]+\.py|ktrain/py\.typed|ktrain/api/kubernetes[\w-]*\.json(\.gz)?"
    r"|ktrain/local/apiserver/protobuf/fields\.json|ktrain/plugins/flux/(entrypoint|init)\.sh"
)


def files(builder):
    return {file.distribution_path for file in builder(str(ROOT)).recurse_included_files()}


@pytest.fixture(scope="module")
def wheel():
    return files(WheelBuilder)


def test_the_wheel_has_the_package_and_what_it_reads_and_no_other_file(wheel):
    code = {path.relative_to(ROOT).as_posix() for path in (ROOT / "ktrain").rglob("*.py")}
    config = {path.relative_to(ROOT / "config").as_posix() for path in (ROOT / "config/runtimes").glob("*.yaml")}

    assert sorted(path for path in wheel if not SHIPPED.fullmatch(path) or "kustomization" in path) == []
    assert code <= wheel
    assert {f"ktrain/_config/{path}" for path in config} <= wheel
    assert {"ktrain/py.typed", "ktrain/_config/crd/embedded/crds.json", "ktrain/_config/trainer/public.yaml"} <= wheel


def test_the_sdist_has_what_the_wheel_is_built_from_and_no_tests(wheel):
    """The build adds pyproject.toml, README.md and LICENSE by itself: tests/chart/test_package.py."""
    expected = {path.replace("ktrain/_config/", "config/") for path in wheel} | {"CHANGELOG.md"}

    assert files(SdistBuilder) == expected


def test_the_commands_and_plugins_of_the_distribution_are_there():
    assert PROJECT["scripts"] == {"ktrain": "ktrain.cli.main:entry"}
    for place in PROJECT["entry-points"]["ktrain.plugins"].values():
        module, _, name = place.partition(":")
        assert f"class {name}" in "".join(path.read_text() for path in sources(module)), place


def sources(module):
    """The files of a module or package."""
    path = ROOT / module.replace(".", "/")
    return sorted(path.glob("*.py")) if path.is_dir() else [path.with_suffix(".py")]


def test_the_change_log_the_chart_and_the_package_have_one_version():
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    chart = ROOT / "charts/ktrain/Chart.yaml"
    described = yaml.safe_load(chart.read_text()) if chart.exists() else {"appVersion": ktrain.__version__}

    assert ktrain.__version__ == next(heading for heading in headings if heading != "Unreleased")
    assert described["appVersion"] == ktrain.__version__


def test_the_lock_has_the_requirements_of_the_project():
    """`uv lock --check` proves more, and needs uv and a network: tests/chart/test_package.py."""
    packages = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    own = next(package for package in packages if package["name"] == PROJECT["name"])
    locked = {(entry["name"], entry.get("specifier", "")) for entry in own["metadata"]["requires-dist"]}
    stated = itertools.chain(PROJECT["dependencies"], *PROJECT["optional-dependencies"].values())
    asked = {requirement(text) for text in stated} - {(PROJECT["name"], "")}  # extras that take in other extras

    assert asked == locked
    assert {package["name"] for package in packages} >= {name for name, _ in asked}


def requirement(text):
    """Name and versions of a requirement, as uv.lock writes them."""
    read = Requirement(text)
    return canonicalize_name(read.name), ",".join(sorted((str(each) for each in read.specifier), reverse=True))
