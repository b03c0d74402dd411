"""README.md of the chart: an introduction, and a table of the values made from the comments of values.yaml."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import yaml

INTRODUCTION: Final = Path(__file__).parent / "chart_readme.md"
MARK: Final = "# -- "


def render(values: Path) -> str:
    """
    Return the content of README.md for a file of values.

    Raises:
        ValueError: A value has no comment that begins with `# -- `; the message has its path.
    """
    text = values.read_text()
    root = yaml.compose(text)
    assert isinstance(root, yaml.MappingNode)
    rows = [f"| `{path}` | {default} | {what} |" for path, default, what in _rows(root, text.splitlines(), "")]
    return "\n".join([INTRODUCTION.read_text().rstrip(), "", "| value | default | |", "|---|---|---|", *rows, ""])


def _rows(node: yaml.MappingNode, lines: list[str], above: str) -> list[tuple[str, str, str]]:
    """Return path, default and description of each value with a comment; one without must have such values in it."""
    rows = []
    for key, value in node.value:
        path = f"{above}{key.value}"
        if what := _comment(lines, key.start_mark.line):
            rows.append((path, _default(value), what))
        elif isinstance(value, yaml.MappingNode) and value.value:
            rows += _rows(value, lines, f"{path}.")
        else:
            raise ValueError(f"{path}: values.yaml has no comment for it; write one that begins with {MARK!r}")
    return rows


def _comment(lines: list[str], line: int) -> str:
    """Return the comment above a line, from its mark on; empty if there is none."""
    found: list[str] = []
    for text in reversed(lines[:line]):
        stripped = text.strip()
        if not stripped.startswith("#"):
            return ""
        if stripped.startswith(MARK):
            return " ".join([stripped.removeprefix(MARK), *found])
        found.insert(0, stripped.removeprefix("#").strip())
    return ""


def _default(node: yaml.Node) -> str:
    value = yaml.safe_load(yaml.serialize(node))
    text = json.dumps(value)
    return f"`{text}`" if len(text) <= 60 else "in values.yaml"
