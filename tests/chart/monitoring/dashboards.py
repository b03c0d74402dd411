"""The dashboards of the chart: what they ask of Prometheus, with their variables filled in as Grafana does."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[3] / "charts" / "ktrain" / "files" / "dashboards"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
INTERVALS = {"$__rate_interval": "20s", "$__range": "10m", "$__interval": "5s"}
_LABEL_VALUES = re.compile(r"label_values\((?P<series>.+),\s*(?P<label>\w+)\)")


@dataclass(frozen=True)
class Target:
    """One query of one panel."""

    panel: str
    kind: str
    unit: str
    ref: str
    expr: str
    legend: str


@dataclass(frozen=True)
class Variable:
    name: str
    series: str
    label: str
    several: bool


def load(name):
    return json.loads((FOLDER / f"{name}.json").read_text())


def panels(dashboard):
    """Panels without rows."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def targets(dashboard):
    return [
        Target(
            panel["title"],
            panel["type"],
            panel["fieldConfig"]["defaults"].get("unit", ""),
            target["refId"],
            target["expr"],
            target.get("legendFormat", ""),
        )
        for panel in panels(dashboard)
        for target in panel["targets"]
    ]


def variables(dashboard):
    """The variables that ask Prometheus, in their order: later ones use those before."""
    found = []
    for one in dashboard["templating"]["list"]:
        if one["type"] == "query":
            parts = _LABEL_VALUES.fullmatch(one["query"]["query"])
            found.append(Variable(one["name"], parts["series"], parts["label"], one["multi"]))
    return found


def filled(text, values):
    """
    A query with the values of variables: a text, or a list for alternatives of a regular expression.

    Grafana escapes the alternatives for PromQL's strings, too, and leaves single values as they are.
    """
    for name, value in INTERVALS.items():
        text = text.replace(name, value)
    for name, chosen in values.items():
        alternatives = "|".join(re.escape(one).replace("\\", "\\\\") for one in chosen)
        shown = chosen if isinstance(chosen, str) else alternatives
        text = re.sub(rf"\${name}\b", lambda _, shown=shown: shown, text)
    return text
