"""`ktrain version`."""

from __future__ import annotations

import click

from ktrain import __version__


@click.command("version")
def command() -> None:
    """
    Print the version.

    \b
    Example:
      ktrain version
    """
    click.echo(__version__)
