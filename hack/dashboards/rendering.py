"""
Text renderings of panels from what Prometheus answered, for docs/dashboards.md.

tests/chart/test_dashboards.py leaves the answers in the directory that KTRAIN_DASHBOARDS_RECORD names.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

BARS: Final = " ▁▂▃▄▅▆▇█"
POINTS: Final = 31
MOST_SERIES: Final = 6
SIZES: Final = (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))


class Series(NamedTuple):
    """A series of a panel: its name or labels, and its values over time."""

    labels: dict[str, str]
    values: list[float]


class Recorded(NamedTuple):
    """The answers to the queries of one dashboard."""

    variables: dict[str, str | list[str]]
    results: dict[tuple[str, str], list[Series]]


def read(file: Path) -> Recorded:
    """Read what the test left."""
    content = json.loads(file.read_text())
    results = {
        (one["panel"], one["ref"]): [
            Series(series["labels"], [value for _, value in series["values"]]) for series in one["series"]
        ]
        for one in content["results"]
    }
    return Recorded(content["variables"], results)


def render(board: dict, recorded: Recorded) -> str:
    """Return the panels of a dashboard, row by row, as text."""
    parts: list[str] = []
    for panel in board["panels"]:
        if panel["type"] == "row":
            parts.append(f"\n── {panel['title']} {'─' * (76 - len(panel['title']))}")
            continue
        defaults = panel["fieldConfig"]["defaults"]
        unit = "whole" if defaults.get("decimals") == 0 else defaults.get("unit", "short")
        drawer = _table if panel["type"] == "table" else _lines
        parts += [f"\n{panel['title']}", *drawer(panel, recorded, unit)]
    return "\n".join(parts).strip("\n") + "\n"


def _lines(panel: dict, recorded: Recorded, unit: str) -> list[str]:
    """A line for each series: its course, its present value and its name."""
    found = []
    for target in panel["targets"]:
        for series in recorded.results[panel["title"], target["refId"]]:
            values = [value for value in series.values if not math.isnan(value)]
            if values:
                found.append((values, _name(target.get("legendFormat", ""), series.labels)))
    found.sort(key=lambda one: -one[0][-1])
    top = max((max(values) for values, _ in found), default=0.0)
    shown = [
        f"  {_spark(values, top)} {shown_as(values[-1], unit):>9}  {name}".rstrip()
        for values, name in found[:MOST_SERIES]
    ]
    return [*shown, f"  ... and {len(found) - MOST_SERIES} more"] if len(found) > MOST_SERIES else shown


def _table(panel: dict, recorded: Recorded, unit: str) -> list[str]:
    """The rows of a table as they are at the end: labels, and the value if it is a column."""
    options = panel["transformations"][1]["options"]
    names = {
        label: options["renameByName"][label]
        for label in sorted(options["indexByName"], key=options["indexByName"].get)
    }
    rows = []
    for target in panel["targets"]:
        for series in sorted(recorded.results[panel["title"], target["refId"]], key=lambda one: -one.values[-1]):
            cells = [series.labels.get(label, "") for label in names if label != "Value"]
            value = [shown_as(series.values[-1], unit)] if "Value" in names else []
            rows.append(cells + value)
    table = [list(names.values()), *rows[:MOST_SERIES]]
    widths = [max(len(row[column]) for row in table) for column in range(len(names))]
    lines = ["  " + "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in table]
    more = [f"  ... and {len(rows) - MOST_SERIES} more"] if len(rows) > MOST_SERIES else []
    return [line.rstrip() for line in lines] + more


def _name(legend: str, labels: dict[str, str]) -> str:
    """A legend with the labels of a series; one that the series lacks is empty, as in Grafana."""
    return re.sub(r"\{\{(\w+)\}\}", lambda label: labels.get(label[1], ""), legend).strip()


def _spark(values: list[float], top: float) -> str:
    """The course in one line; bars are shares of the largest value of the panel."""
    step = max(1, math.ceil(len(values) / POINTS))
    points = [max(values[at : at + step]) for at in range(0, len(values), step)]
    bars = [
        BARS[min(len(BARS) - 1, math.ceil((len(BARS) - 1) * value / top))] if top > 0 else BARS[0] for value in points
    ]
    return "".join(bars).rjust(POINTS)


def shown_as(value: float, unit: str) -> str:
    """A value in its unit, as Grafana would show it."""
    if unit == "percentunit":
        return f"{value:.1%}"
    if unit == "percent":
        return f"{value:.0f}%"
    if unit == "s":
        return _seconds(value)
    if unit in ("bytes", "Bps"):
        name, size = next(((name, size) for name, size in SIZES if value >= size), ("", 1))
        return f"{value / size:.3g} {name}B{'/s' if unit == 'Bps' else ''}"
    if unit == "whole":
        return f"{value:.0f}"
    return f"{value:.3g}/s" if unit == "cps" else f"{value:.4g}"


def _seconds(value: float) -> str:
    for size, name in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        if abs(value) >= size:
            return f"{value / size:.3g} {name}"
    return f"{value * 1000:.3g} ms"
