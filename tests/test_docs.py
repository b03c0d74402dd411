"""The documents that are made, and the links in those that are written."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_api_reference_is_built_without_a_warning(tmp_path):
    subprocess.run([sys.executable, ROOT / "hack" / "apidocs.py", tmp_path], check=True, cwd=ROOT, timeout=120)

    assert (tmp_path / "ktrain" / "framework" / "controller.html").exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_file_leads_somewhere(page):
    links = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text())

    assert [link for link in links if not Path(os.path.normpath(page.parent / link)).exists()] == []
