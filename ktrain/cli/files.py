"""The user's files as objects: read by `ktrain run` and `ktrain plan` alike."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from .options import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.meta import Json


def load_objects(files: Sequence[str]) -> list[Json]:
    """Return the objects of the files; `-` is standard input. What cannot be read ends the command with exit code 2."""
    from ktrain.api import documents

    try:
        return [document.object for document in documents.load(files, stdin=sys.stdin.buffer)]
    except documents.DocumentError as error:
        click.echo(f"{error}", err=True)
        sys.exit(Outcome.REFUSED.value)
