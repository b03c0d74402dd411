"""The command group. Importing it must stay cheap: `ktrain --help` loads click and nothing of ktrain's own rooms."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from typing import Final

import click

from ktrain import __version__

INTERRUPTED: Final = 130
COMMANDS: Final = {
    "run": "Run a TrainJob to its end, on this machine or on a cluster.",
    "plan": "Show what would be made of a TrainJob, and check it, without running it.",
    "up": "Serve a small Kubernetes control plane on this machine.",
    "runtime": "Ask about training runtimes: which jobs would a change touch?",
    "operator": "Run the controllers against a cluster.",
    "top": "Show TrainJobs, controllers, queues and plugins, live.",
    "doctor": "Check whether a cluster is fit for ktrain, before and after the installation.",
    "version": "Print the version.",
}

GC_THRESHOLDS: Final = (50_000, 20, 20)


class LazyGroup(click.Group):
    """A group whose commands live in modules of their own, imported only when called or asked for help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, in the order they are documented."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"ktrain.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(version)s")
def main() -> None:
    """
    Train on this machine, or on a cluster, with the same YAML.

    \b
    Example:
      ktrain run train.py --nodes 2
      ktrain run job.yaml
    """
    # Imports and start-up make many objects and hardly any garbage; at Python's own thresholds looking for it is a
    # tenth of the time until the first line of a run.
    gc.set_threshold(*GC_THRESHOLDS)
    _import_structlog()


def entry() -> None:
    """The console script. Ctrl-C before a command has taken charge of it ends with 130, as it does later."""
    _occupy_standard_streams()
    try:
        code = main.main(standalone_mode=False)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(INTERRUPTED)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    sys.exit(code if isinstance(code, int) else 0)


def _import_structlog() -> None:
    """Import it without rich, which it loads where that is installed, for tracebacks that ours are not: 4 MB, 40 ms."""
    if {"structlog", "rich"} & sys.modules.keys():
        return
    sys.modules["rich"] = None  # type: ignore[assignment]  # as if it were not installed
    try:
        importlib.import_module("structlog")
    finally:
        del sys.modules["rich"]


def _occupy_standard_streams() -> None:
    """Open what was closed: else the next file or socket gets its number, and takes what is meant for a terminal."""
    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(descriptor)
        except OSError:
            # Children must find it open, too.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # noqa: FBT003 -- the standard library's signature
        if getattr(sys, name) is None:
            setattr(sys, name, open(descriptor, mode, closefd=False, encoding="utf-8"))  # noqa: SIM115 -- for all of the process
