"""
Renders the dashboards of charts/ktrain for Grafana: `python hack/dashboards`; `--check` only says what is stale.

Each dashboard is a module here; panels.py has what they share. Needs grafana-foundation-sdk (in the extra `dev`).
`--render DIRECTORY` shows in docs/dashboards.md what tests/chart/test_dashboards.py recorded there.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from controllers import controllers
from fleet import fleet
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from job import job
from rendering import read, render

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grafana_foundation_sdk.builders.dashboard import Dashboard
    from grafana_foundation_sdk.models.dashboard import Dashboard as DashboardModel

ROOT: Final = Path(__file__).resolve().parents[2]
TARGET: Final = Path("charts/ktrain/files/dashboards")
PAGE: Final = ROOT / "docs/dashboards.md"


def rendered() -> dict[Path, str]:
    """Return the JSON of each dashboard, by its path in the repository."""
    made = {"fleet": fleet(), "job": job(), "controllers": controllers()}
    encoder = JSONEncoder(sort_keys=True, indent=2)
    return {TARGET / f"{name}.json": f"{encoder.encode(_numbered(one))}\n" for name, one in made.items()}


def _numbered(builder: Dashboard) -> DashboardModel:
    """Build a dashboard whose panels have numbers, as Grafana would give them on import."""
    made = builder.build()
    for number, panel in enumerate(made.panels or [], start=1):
        panel.id_val = number
    return made


def main(arguments: Sequence[str]) -> int:
    """Write, or with --check name, the files that differ; returns the exit code."""
    parser = argparse.ArgumentParser(prog="hack/dashboards", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file is stale")
    parser.add_argument(
        "--render", type=Path, metavar="DIRECTORY", help="show recorded data as text, in docs/dashboards.md"
    )
    options = parser.parse_args(arguments)
    if options.render:
        return _render(options.render)
    files = rendered()
    stale = [path for path, text in files.items() if not (ROOT / path).exists() or (ROOT / path).read_text() != text]
    gone = sorted({one.relative_to(ROOT) for one in (ROOT / TARGET).glob("*.json")} - files.keys())
    if not options.check:
        (ROOT / TARGET).mkdir(parents=True, exist_ok=True)
        for path in stale:
            (ROOT / path).write_text(files[path])
        for path in gone:
            (ROOT / path).unlink()
    for path in [*stale, *gone]:
        print(f"{'stale' if options.check else 'written'}: {path}")
    return 1 if options.check and (stale or gone) else 0


def _render(directory: Path) -> int:
    """Put a rendering of each dashboard of which there is a record into the page of dashboards."""
    page = PAGE.read_text()
    for file in sorted(directory.glob("*.json")):
        board = json.loads((ROOT / TARGET / file.name).read_text())
        marker = f"<!-- panels: {file.stem} -->"
        before, found, after = page.partition(marker)
        if not found:
            raise SystemExit(f"hack/dashboards: {PAGE} has no line {marker}")
        fence = re.match(r"\n\n```text\n.*?\n```", after, re.DOTALL)
        rest = after[fence.end() :] if fence else after
        page = f"{before}{marker}\n\n```text\n{render(board, read(file))}```{rest}"
    PAGE.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
