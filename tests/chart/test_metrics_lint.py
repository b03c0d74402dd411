"""Metrics by Prometheus' own rules, and the page about them, both of an operator that runs."""

import subprocess
import sys

import pytest

from .programs import ROOT, find


@pytest.fixture(scope="module")
def scrape(tmp_path_factory):
    """The text of a scrape; the page is compared on the way."""
    file = tmp_path_factory.mktemp("scrape") / "metrics.txt"
    command = [sys.executable, "hack/metrics_page.py", "--check", "--scrape", file]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    return done, file


def test_the_page_of_metrics_is_what_a_scrape_says(scrape):
    done, _ = scrape
    assert (done.returncode, done.stderr) == (0, "")


def test_promtool_finds_nothing_to_improve_in_our_metrics(scrape):
    promtool = find("promtool")
    if promtool is None:
        pytest.skip("promtool is missing: Debian's package prometheus has it")
    _, file = scrape
    done = subprocess.run([promtool, "check", "metrics"], input=file.read_bytes(), capture_output=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")


def test_no_metric_has_a_created_series(scrape):
    _, file = scrape
    names = {line.split("{")[0].split(" ")[0] for line in file.read_text().splitlines() if not line.startswith("#")}
    assert [name for name in names if name.endswith("_created")] == []
