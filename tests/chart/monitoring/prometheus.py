"""Debian's Prometheus as a process of a test, and its HTTP API."""

import json
import math
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import yaml

from ktrain.testing.programs import free_ports

from ...waiting import eventually

RULES = Path(__file__).parents[3] / "charts" / "ktrain" / "files" / "rules"
PROMETHEUS = shutil.which("prometheus")


class QueryRefused(Exception):
    """Prometheus does not take the query; the message is its own."""


class Prometheus:
    """A running Prometheus."""

    def __init__(self, url):
        self._url = url

    def get(self, path, **parameters):
        """Return `data` of an answer."""
        query = urllib.parse.urlencode(parameters, doseq=True)
        try:
            with urllib.request.urlopen(f"{self._url}/api/v1/{path}?{query}", timeout=20) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            with error:
                raise QueryRefused(f"{parameters}: {error.read().decode()}") from None

    def samples(self, expr):
        """Return the present samples of a query, (labels, value), without those that are not numbers."""
        result = self.get("query", query=expr)["result"]
        found = [(one["metric"], float(one["value"][1])) for one in result]
        return [(labels, value) for labels, value in found if not math.isnan(value)]

    def course(self, expr, start_s, end_s, step_s):
        """Return the samples of a query over time: (labels, [(time, value)])."""
        result = self.get("query_range", query=expr, start=start_s, end=end_s, step=step_s)["result"]
        return [(one["metric"], [(time_s, float(value)) for time_s, value in one["values"]]) for one in result]

    def label_values(self, label, series):
        """Return the values of a label as a variable of Grafana finds them."""
        return self.get(f"label/{label}/values", **{"match[]": series})

    def is_ready(self):
        try:
            with urllib.request.urlopen(f"{self._url}/-/ready", timeout=2):
                return True
        except OSError:
            return False


@contextmanager
def prometheus(directory, jobs):
    """Run Prometheus with these scrape configurations and the rules of the chart, at short intervals."""
    (port,) = free_ports(1)
    configuration = {
        "global": {"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "2s"},
        "rule_files": [str(path) for path in sorted(RULES.glob("*.yaml"))],
        "scrape_configs": jobs,
    }
    file = directory / "prometheus.yaml"
    file.write_text(yaml.safe_dump(configuration))
    options = [f"--config.file={file}", f"--storage.tsdb.path={directory / 'data'}"]
    with (directory / "prometheus.log").open("ab") as log:
        command = [PROMETHEUS, *options, f"--web.listen-address=127.0.0.1:{port}"]
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        made = Prometheus(f"http://127.0.0.1:{port}")
        eventually(made.is_ready, within_s=60)
        yield made
    finally:
        process.kill()
        process.wait()
