"""
Renders what is generated of charts/ktrain and config/: `python hack/manifests`; `--check` only says what is stale.

The sources: rights that controllers and plugins declare, the typed settings of the configuration file, the definitions
and runtimes of config/, and the chart itself, of which the kustomize bases are made. The last needs helm; without it,
config/ is left as it is, and that is said.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import kustomize
import rights
import values_readme
import values_schema

from ktrain.api import assets

if TYPE_CHECKING:
    from collections.abc import Sequence

CHART: Final = Path("charts/ktrain")


def chart_files() -> dict[Path, str]:
    """Return the content of the generated files of the chart, by their paths in the repository."""
    config = kustomize.ROOT / "config"
    copies = {Path("files/crds", one.name): one for one in sorted((config / "crd").glob("*.yaml"))}
    copies |= {Path("files/runtimes", one.name): one for one in assets.runtime_files()}
    found = {path: source.read_text() for path, source in copies.items()}
    found[Path("files/rights.yaml")] = rights.render()
    found[Path("values.schema.json")] = values_schema.render()
    found[Path("README.md")] = values_readme.render(kustomize.CHART / "values.yaml")
    return {CHART / path: text for path, text in found.items()}


def main(arguments: Sequence[str]) -> int:
    """Write, or with --check name, the files that differ; returns the exit code."""
    parser = argparse.ArgumentParser(prog="hack/manifests", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file is stale")
    parser.add_argument("--no-helm", action="store_true", help="leave config/ out")
    options = parser.parse_args(arguments)
    stale = _settle(chart_files(), [CHART / "files/crds", CHART / "files/runtimes"], check=options.check)
    if not options.no_helm:
        try:
            rendered = kustomize.render(kustomize.find_helm())
        except kustomize.HelmMissing as error:
            print(f"hack/manifests: config/ is left out: {error}", file=sys.stderr)
        else:
            folders = sorted({path.parent for path in rendered})
            stale += _settle(rendered, folders, check=options.check)
    for path in stale:
        print(f"{'stale' if options.check else 'written'}: {path}")
    return 1 if stale and options.check else 0


def _settle(files: dict[Path, str], folders: list[Path], *, check: bool) -> list[Path]:
    """Write what differs, and delete what is not rendered any more from the folders; returns the paths of both."""
    there = {one.relative_to(kustomize.ROOT) for folder in folders for one in (kustomize.ROOT / folder).glob("*.yaml")}
    stale = [path for path, text in files.items() if not _is(kustomize.ROOT / path, text)]
    gone = sorted(there - files.keys())
    if not check:
        for path in stale:
            (kustomize.ROOT / path).parent.mkdir(parents=True, exist_ok=True)
            (kustomize.ROOT / path).write_text(files[path])
        for path in gone:
            (kustomize.ROOT / path).unlink()
    return stale + gone


def _is(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
