"""The documentation site: it is built once, strictly; and what a strict build refuses, on pages made for it."""

import html
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
REPOSITORY = "https://example.com/ktrain"


def build(config, site):
    """Build a site strictly; returns exit code and output."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", config, "--site-dir", site]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The whole site."""
    directory = tmp_path_factory.mktemp("site")
    code, said = build(ROOT / "mkdocs.yml", directory)
    assert code == 0, said
    return directory


def test_every_page_is_in_the_navigation(site):
    """mkdocs refuses others; a page of the navigation is linked from every page."""
    first = (site / "index.html").read_text()
    pages = [path.relative_to(ROOT / "docs").with_suffix("") for path in (ROOT / "docs").rglob("*.md")]
    places = [page.parent if page.name in ("index", "README") else page for page in pages]

    assert len(places) > 20
    assert [str(place) for place in places if place.name and f'href="{place}/"' not in first] == []


def test_links_to_files_lead_to_the_repository_and_those_to_modules_to_the_reference(site):
    framework = (site / "framework/index.html").read_text()

    assert f'href="{REPOSITORY}/blob/main/examples/framework/backups.py"' in framework
    assert 'href="../reference/ktrain/framework/operator/settings/"' in framework
    assert 'href="../running/"' in (site / "local/index.html").read_text()


def test_pages_from_outside_docs_are_pages_of_the_site(site):
    contributing = (site / "contributing/index.html").read_text()

    assert 'href="../architecture/"' in contributing
    assert 'href="../security/"' in contributing
    assert f'href="{REPOSITORY}/blob/main/tests/plugins/test_rights.py"' in contributing
    assert 'href="../digits/"' in (site / "examples/plain/index.html").read_text()  # by the navigation
    assert 'href="examples/"' in (site / "index.html").read_text()


@pytest.mark.parametrize("package", ["framework", "pipeline", "testing"])
def test_the_reference_has_a_page_for_each_public_module(site, package):
    source = ROOT / "ktrain" / package
    modules = [path.relative_to(source).with_suffix("") for path in source.rglob("*.py")]
    public = [module for module in modules if not any(part.startswith("_") for part in module.parts)]

    places = [site / "reference/ktrain" / package / module / "index.html" for module in public]
    assert len(places) > 5
    assert [str(place) for place in places if not place.exists()] == []


def test_every_name_that_the_framework_exports_is_linked_and_described(site):
    exported = importlib.import_module("ktrain.framework").__all__
    page = (site / "reference/ktrain/framework/index.html").read_text()
    rows = re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL)
    described = {
        name[1] for row in rows if "href=" in row and (name := re.search(r"<code>(\w+)</code></a></td>\n<td>\S", row))
    }

    assert described == set(exported)


def test_docstrings_with_arguments_become_tables_of_them(site):
    page = html.unescape((site / "reference/ktrain/framework/manager/manager/index.html").read_text())

    assert 'id="ktrain.framework.manager.manager.Manager.run"' in page
    assert "ShutdownTimeout" in page


def test_links_that_lead_nowhere_fail_the_build(tmp_path):
    links = "[a](lost.md) [b](#nowhere) [c](../nowhere/file.yaml) [d](/install)"

    code, said = build(small_site(tmp_path, {"index.md": f"# First\n\n{links}\n"}), tmp_path / "site")
    assert code == 1
    assert "'lost.md', but the target is not found" in said
    assert "'#nowhere', but there is no such anchor" in said
    assert "../nowhere/file.yaml, which is neither a page nor a file of the repository" in said
    assert "absolute link '/install'" in said


def test_a_page_without_a_place_in_the_navigation_fails_the_build(tmp_path):
    config = small_site(tmp_path, {"index.md": "# First\n", "lost.md": "# Lost\n", ".nav.yml": "nav: [index.md]\n"})

    code, said = build(config, tmp_path / "site")
    assert code == 1
    assert 'not included in the "nav"' in said
    assert "lost.md" in said


def small_site(directory, pages):
    """Write pages, and a configuration that is the repository's but for where they are; without the reference."""
    (directory / "docs").mkdir()
    for name, text in pages.items():
        (directory / "docs" / name).write_text(text)
    config = directory / "mkdocs.yml"
    config.write_text(
        f"INHERIT: {ROOT}/mkdocs.yml\nwatch: []\nextra: {{generated: false}}\nhooks: [{ROOT}/hack/site.py]\n"
    )
    return config
