"""Checks that options of several commands share."""

from __future__ import annotations

import click


def not_empty(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    """Refuse an empty value: a variable of a shell script that is not set must not pass for an option not given."""
    if value == "":
        raise click.BadParameter("it is empty")
    return value
