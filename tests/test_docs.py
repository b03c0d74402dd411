"""The documents that are made; links, tests and code in those that are written."""

import ast
import os
import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from ktrain.api import documents
from ktrain.api.core import PODS
from ktrain.controllers.trainjob.metrics import JobSeries
from ktrain.framework import WorkQueue, system_env
from ktrain.framework.cache.informer import Informer, Scope
from ktrain.framework.metrics import Metrics
from ktrain.framework.metrics.cache import InformerMetrics
from ktrain.framework.metrics.client import ClientMetrics
from ktrain.framework.metrics.controller import ControllerMetrics
from ktrain.framework.metrics.election import ElectionMetrics
from ktrain.framework.metrics.events import EventMetrics
from ktrain.framework.metrics.loop import LoopMetrics
from ktrain.framework.metrics.queue import QueueMetrics
from ktrain.framework.metrics.webhook import CertificateMetrics, RotationMetrics, WebhookMetrics
from ktrain.pipeline.calls import Calls
from ktrain.pipeline.points import EXTENSION_POINTS

ROOT = Path(__file__).parent.parent
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "examples/README.md",
    *sorted(ROOT.glob("examples/*/README.md")),
]
EXAMPLES = sorted(path for path in ROOT.glob("examples/*") if path.is_dir())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_file_leads_somewhere(page):
    links = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text())

    assert [link for link in links if not Path(os.path.normpath(page.parent / link)).exists()] == []


def anchors_of(page):
    """The fragments that lead to headings of a page, as GitHub makes them."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    return {
        re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_heading_leads_to_one(page):
    links = re.findall(r"\]\(([^)#:\s]*)#([^)\s]+)\)", page.read_text())

    assert [link for link in links if link[1] not in anchors_of(page.parent / link[0] if link[0] else page)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_link_to_a_test_is_called_as_its_file(page):
    links = re.findall(r"\[(\w+)\]\(([^)]+\.py)\)", page.read_text())

    assert [link for link in links if link[0] != Path(link[1]).stem] == []


def test_every_file_on_the_map_of_the_house_is_there():
    text = (ROOT / "docs/architecture.md").read_text()
    rooms = "api|cli|controllers|framework|local|pipeline|plugins|testing"
    files = re.findall(rf"`((?:{rooms})/[\w./-]+)`", text)

    assert len(files) > 40
    assert [file for file in files if not (ROOT / "ktrain" / file).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_test_that_is_named_exists(page):
    text = page.read_text()
    linked = [(page.parent / file, test) for file, test in re.findall(r"\]\(([^)]+\.py)\) `(test_\w+)`", text)]
    short = [(ROOT / "tests" / f"{file}.py", test) for file, test in re.findall(r"`([\w/]+)::(test_\w+)`", text)]

    files = {file: file.read_text() for file in {file for file, _ in short + linked}}
    assert [test for file, test in short + linked if f"def {test}(" not in files[file]] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_recorded_case_that_is_named_is_one_that_passes(page):
    passing = (ROOT / "tests/recorded/trainer.txt").read_text().split()

    assert [case for case in re.findall(r"`recorded: ([\w-]+)`", page.read_text()) if case not in passing] == []


def test_the_tables_of_fields_and_rules_have_a_test_or_a_recorded_case_in_each_row():
    tables = sorted((ROOT / "docs/compatibility").glob("*.md"))
    rows = [line for page in tables for line in page.read_text().splitlines() if line.startswith("| ")]
    heads = {line for line in rows if line.endswith("| test |")}

    bare = [row for row in rows if row not in heads and not re.search(r"::test_|`recorded: ", row)]
    assert len(rows) > 200
    assert bare == []


def test_every_hook_is_on_the_page_for_those_who_write_plugins():
    page = (ROOT / "docs/plugins/own.md").read_text()
    hooks = {name for point in EXTENSION_POINTS for name in vars(point) if not name.startswith("_")}

    assert len(hooks) >= len(EXTENSION_POINTS)
    assert [hook for hook in sorted(hooks) if not re.search(rf"`{hook}\b", page)] == []


def test_the_guide_of_the_framework_names_tests_for_its_features():
    assert len(re.findall(r"`test_\w+`", (ROOT / "docs/framework.md").read_text())) > 100


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_in_documents_compiles_and_what_it_imports_is_there(page):
    for snippet in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        tree = compile(snippet, page.name, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
        exec(compile(ast.Module(imports, []), page.name, "exec"), {})


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_every_example_has_a_page_and_a_place_in_the_list_and_fields_that_exist(example):
    listed = (ROOT / "examples/README.md").read_text()

    assert f"]({example.name}/README.md)" in listed
    assert (example / "README.md").exists()
    if example.name != "framework":  # whose kind is its own
        assert all(documents.load([str(file)]) for file in example.glob("*.yaml"))


def test_every_metric_is_in_the_guide():
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    InformerMetrics.of(metrics, "", "pods", "Pod", "", Informer(PODS, Scope()).statistics)
    ClientMetrics.of(metrics, detailed=True)
    ControllerMetrics.of(metrics, "website").read(float, float)
    QueueMetrics.of(metrics, "website").read(WorkQueue(system_env()))(0)
    ElectionMetrics.of(metrics, "website")
    WebhookMetrics.of(metrics, "/validate", float)
    for part in (EventMetrics, LoopMetrics, CertificateMetrics, RotationMetrics):
        part.of(metrics)
    JobSeries(metrics, float)
    Calls().expose(metrics)
    pages = "".join((ROOT / "docs" / name).read_text() for name in ("metrics.md", "framework.md"))

    assert [family.name for family in registry.collect() if f"`{family.name}" not in pages] == []


def test_the_page_of_metrics_has_every_metric_that_the_code_names():
    """By the name that is given to an instrument, where that is a plain text."""
    page = (ROOT / "docs/metrics.md").read_text()
    kinds = {"counter", "counter_by", "gauge", "gauge_read", "histogram", "collect"}
    named = {
        node.args[0].value
        for file in (ROOT / "ktrain").rglob("*.py")
        if "metrics" in (text := file.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in kinds
        if node.args and isinstance(node.args[0], ast.Constant)
    }

    assert len(named) > 30
    assert [name for name in sorted(named) if f"`{name}" not in page] == []
