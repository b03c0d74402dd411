"""
List the names that docs/stability.md promises to keep: `python hack/promises.py` writes them to hack/promises.txt.

`--check` changes nothing, and fails with each listed name that is gone. A name that is new is not promised before a
release lists it (docs/releasing.md): until then it may still change.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec
import yaml

from ktrain.cli.config import Configuration
from ktrain.cli.main import main as commands
from ktrain.pipeline.points import EXTENSION_POINTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import JsonValue

ROOT: Final = Path(__file__).parent.parent
LISTED: Final = ROOT / "hack" / "promises.txt"
PACKAGES: Final = ("ktrain.framework", "ktrain.framework.helpers", "ktrain.pipeline")
METRIC_PAGES: Final = (ROOT / "docs/framework.md", ROOT / "docs/operator.md", ROOT / "docs/metrics.md")
METRIC: Final = re.compile(
    r"`((?:ktrain|controller_runtime|workqueue|rest_client|leader_election|certwatcher)_[a-z_]+)[`{]"
)


def names() -> Iterator[str]:
    """Yield each promised name, with its kind before it."""
    for package in PACKAGES:
        yield from (f"import {package}.{name}" for name in exported(package))
    for point in EXTENSION_POINTS:
        hooks = ((name, hook) for name, hook in vars(point).items() if inspect.isfunction(hook) and name[0] != "_")
        yield from (f"hook {name}({', '.join([*inspect.signature(hook).parameters][1:])})" for name, hook in hooks)
    yield from command_line(commands, "ktrain")
    yield from settings(Configuration, "configuration")
    yield from values(yaml.safe_load((ROOT / "charts/ktrain/values.yaml").read_text()), "value ")
    yield from metrics()


def exported(package: str) -> list[str]:
    """Return the names that `from ... import name as name` re-exports, which `__all__` lists where it is there."""
    module = importlib.import_module(package)
    source = Path(module.__file__ or "").read_text()
    return list(getattr(module, "__all__", re.findall(r"^from .* import \w+ as (\w+)$", source, re.MULTILINE)))


def command_line(command: click.Command, path: str) -> Iterator[str]:
    """Yield a command, its options and arguments, and those of the commands inside it."""
    yield f"command {path}"
    context = click.Context(command)
    for parameter in command.params:
        spelled = [*parameter.opts, *parameter.secondary_opts] if isinstance(parameter, click.Option) else ()
        yield from (f"command {path} {option}" for option in spelled)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None:
                yield from command_line(inner, f"{path} {name}")


def settings(section: type, path: str) -> Iterator[str]:
    """Yield the fields of the configuration file, by their path."""
    for field in msgspec.structs.fields(section):
        yield f"{path} {field.encode_name}"
        kinds = [field.type, *getattr(field.type, "__args__", ())]
        for inner in (each for each in kinds if isinstance(each, type) and issubclass(each, msgspec.Struct)):
            yield from settings(inner, f"{path} {field.encode_name}")


def values(value: JsonValue, path: str) -> Iterator[str]:
    """Yield the chart's values, by their path."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield f"{path}{key}"
            yield from values(inner, f"{path}{key}.")


def metrics() -> Iterator[str]:
    """Yield the metrics in tables of the documents, which other tests compare with a scrape."""
    rows = [
        row for page in METRIC_PAGES if page.exists() for row in page.read_text().splitlines() if row.startswith("|")
    ]
    yield from (f"metric {name}" for row in rows for name in METRIC.findall(row.split("|")[1]))


def main() -> None:
    """Write the list, or check it."""
    found = set(names())
    if sys.argv[1:] != ["--check"]:
        LISTED.write_text("".join(f"{name}\n" for name in sorted(found)))
        return
    gone = sorted(set(LISTED.read_text().splitlines()) - found)
    if gone:
        sys.exit("promised, and gone (docs/stability.md says how to deprecate it):\n  " + "\n  ".join(gone))


if __name__ == "__main__":
    main()
